package cli

import (
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"recourse/internal/story"
)

// Default size of a terminal.
const (
	usualColumns = 80
	usualRows    = 24
)

// Columns returns the width of Stdout.
func (a *App) Columns() int { return a.size("COLUMNS", usualColumns, func(c, _ int) int { return c }) }

// Rows returns the height of Stdout.
func (a *App) Rows() int { return a.size("LINES", usualRows, func(_, r int) int { return r }) }

func (a *App) size(variable string, usual int, of func(columns, rows int) int) int {
	w := a.Stdout
	if o, ok := w.(*output); ok {
		w = o.Writer
	}
	if f, ok := w.(*os.File); ok {
		if n := of(sizeOf(f)); n > 0 {
			return n
		}
	}
	if n, err := strconv.Atoi(a.Variables[variable]); err == nil && n > 0 {
		return n
	}
	return usual
}

// Wrap wraps a text into lines of a width with an indent. If it needs more than the given lines,
// the last one ends with ….
func Wrap(text, indent string, width, lines int) string {
	room := max(width-utf8.RuneCountInString(indent), 20)
	var out []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch n := utf8.RuneCountInString(line) + 1 + utf8.RuneCountInString(word); {
		case line == "":
			line = word
		case n <= room:
			line += " " + word
		default:
			out = append(out, line)
			line = word
		}
	}
	out = append(out, line)
	if len(out) > lines {
		out = out[:lines]
		out[lines-1] += " …"
	}
	for i := range out {
		out[i] = indent + story.Short(out[i], room)
	}
	return strings.Join(out, "\n")
}
