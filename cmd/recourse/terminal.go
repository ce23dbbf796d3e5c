package main

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

// columns returns the width of Stdout.
func (a *app) columns() int { return a.size("COLUMNS", usualColumns, func(c, _ int) int { return c }) }

// rows returns the height of Stdout.
func (a *app) rows() int { return a.size("LINES", usualRows, func(_, r int) int { return r }) }

func (a *app) size(variable string, usual int, of func(columns, rows int) int) int {
	if f, ok := a.Stdout.(*os.File); ok {
		if n := of(sizeOf(f)); n > 0 {
			return n
		}
	}
	if n, err := strconv.Atoi(a.env[variable]); err == nil && n > 0 {
		return n
	}
	return usual
}

// wrapped wraps a text into lines of a width with an indent. If it needs more than the given lines,
// the last one ends with ….
func wrapped(text, indent string, width, lines int) string {
	room := max(width-utf8.RuneCountInString(indent), 20)
	var out []string
	line := ""
	for _, word := range strings.Fields(text) {
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
