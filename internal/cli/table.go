package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"recourse/internal/story"
)

// Column is a column of a table. On a terminal a table fits the width.
type Column struct {
	Head string
	// Least is the minimum width of its cells, which are shortened with …; 0: they are never
	// shortened.
	Least int
	// Extra columns are omitted if there is no room for them, the last one first.
	Extra bool
}

// gap is the space between columns.
const gap = 2

// Table prints rows under a head. It shortens them only on a terminal.
func (a *App) Table(columns []Column, rows [][]string) {
	if a.TTY {
		for _, line := range FitTable(columns, rows, a.Columns()) {
			a.Printf("%s\n", line)
		}
		return
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 0, gap, ' ', 0)
	fmt.Fprintln(w, strings.Join(heads(columns), "\t"))
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(clean(row), "\t"))
	}
	_ = w.Flush() // App reports the error
}

// heads returns the columns' titles.
func heads(columns []Column) []string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = c.Head
	}
	return list
}

// clean replaces control characters.
func clean(row []string) []string {
	list := make([]string, len(row))
	for i, cell := range row {
		list[i] = story.Short(cell, len(cell)+1)
	}
	return list
}

// FitTable formats a table for a width: it omits extra columns first, then shortens the widest
// columns.
func FitTable(columns []Column, rows [][]string, width int) []string {
	all := append([][]string{heads(columns)}, rows...)
	widths := make([]int, len(columns))
	total := -gap
	for i := range columns {
		for r := range all {
			if r > 0 && i == 0 {
				all[r] = clean(all[r])
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(all[r][i]))
		}
		total += widths[i] + gap
	}
	least := func(i int) int {
		if columns[i].Least == 0 {
			return widths[i]
		}
		return min(widths[i], columns[i].Least)
	}
	needs := -gap
	for i := range columns {
		needs += least(i) + gap
	}
	for i := len(columns) - 1; i >= 0 && needs > width; i-- {
		if columns[i].Extra {
			needs, total = needs-least(i)-gap, total-widths[i]-gap
			widths[i] = -1
		}
	}
	for total > width {
		widest := -1
		for i := range columns {
			if widths[i] > least(i) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		total--
	}
	lines := make([]string, len(all))
	for r, row := range all {
		var b strings.Builder
		for i, cell := range row {
			if widths[i] >= 0 {
				fmt.Fprintf(&b, "%-*s%*s", widths[i], story.Short(cell, widths[i]), gap, "")
			}
		}
		lines[r] = story.Short(strings.TrimRight(b.String(), " "), width)
	}
	return lines
}
