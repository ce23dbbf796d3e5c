package mutant

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// diff has the lines of a unified diff that are still to be read.
type diff struct{ lines []string }

// newDiff leaves out what git adds to a diff. Editors may have removed the space of an empty line
// of context.
func newDiff(text string) *diff {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "diff ") || strings.HasPrefix(line, "index ")
	})
	for i, line := range lines {
		if line == "" {
			lines[i] = " "
		}
	}
	return &diff{lines: lines}
}

// take returns the next line without its prefix, if it has the prefix.
func (d *diff) take(prefix string) (rest string, ok bool) {
	if len(d.lines) == 0 {
		return "", false
	}
	if rest, ok = strings.CutPrefix(d.lines[0], prefix); ok {
		d.lines = d.lines[1:]
	}
	return rest, ok
}

// unexpected is the error for the next line.
func (d *diff) unexpected(want string) error {
	got := "the end"
	if len(d.lines) > 0 {
		got = strconv.Quote(d.lines[0])
	}
	return fmt.Errorf("%s instead of %s", got, want)
}

// edit reads the changes of one file.
func (d *diff) edit() (e edit, err error) {
	var ok bool
	if e.file, ok = d.take("--- a/"); !ok {
		return edit{}, d.unexpected("`--- a/FILE`")
	}
	if same, ok := d.take("+++ b/"); !ok || same != e.file {
		return edit{}, fmt.Errorf("`--- a/%s` is not followed by `+++ b/%[1]s`", e.file)
	}
	for {
		numbers, ok := d.take("@@ ")
		if !ok {
			break
		}
		h, err := d.hunk(numbers)
		if err != nil {
			return edit{}, fmt.Errorf("the part %q: %w", "@@ "+numbers, err)
		}
		e.hunks = append(e.hunks, h)
	}
	if e.hunks == nil {
		return edit{}, d.unexpected("`@@ -LINE,COUNT +LINE,COUNT @@`")
	}
	return e, nil
}

// hunk reads as many lines as its first line says. Only the line numbers are ignored.
func (d *diff) hunk(numbers string) (h hunk, err error) {
	var at, before, after int
	if n, _ := fmt.Sscanf(numbers, "-%d,%d +%d,%d @@", &at, &before, &at, &after); n != 4 {
		return hunk{}, errors.New("it does not begin with `@@ -LINE,COUNT +LINE,COUNT @@`")
	}
	var old, changed strings.Builder
	for before > 0 || after > 0 {
		if line, ok := d.take("-"); ok {
			old.WriteString(line + "\n")
			before--
		} else if line, ok := d.take("+"); ok {
			changed.WriteString(line + "\n")
			after--
		} else if line, ok := d.take(" "); ok {
			old.WriteString(line + "\n")
			changed.WriteString(line + "\n")
			before--
			after--
		} else {
			return hunk{}, d.unexpected("a line that begins with ` `, `-` or `+`: the counts do not fit the lines")
		}
	}
	if before != 0 || after != 0 {
		return hunk{}, errors.New("the counts do not fit the lines")
	}
	return hunk{old: old.String(), new: changed.String()}, nil
}
