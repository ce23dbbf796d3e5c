package mutant

import (
	"embed"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

//go:embed patches
var patches embed.FS

// A Mutant is a deliberate bug.
type Mutant struct {
	Name   string // of the patch, without .patch
	Effect string // the sentence that says what the bug does
	edits  []edit
}

// edit is what a patch changes in one file.
type edit struct {
	file  string // from the root of the module, with slashes
	hunks []hunk
}

// hunk replaces whole lines.
type hunk struct{ old, new string }

// All returns the bugs, by name.
func All() ([]Mutant, error) {
	entries, err := patches.ReadDir("patches")
	if err != nil {
		return nil, err
	}
	all := make([]Mutant, len(entries))
	for i, e := range entries {
		text, err := patches.ReadFile(path.Join("patches", e.Name()))
		if err != nil {
			return nil, err
		}
		if all[i], err = parse(e.Name(), string(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
	}
	return all, nil
}

// Named returns some of the bugs.
func Named(names ...string) ([]Mutant, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	byName := make(map[string]Mutant, len(all))
	for _, m := range all {
		byName[m.Name] = m
	}
	list := make([]Mutant, len(names))
	for i, name := range names {
		m, ok := byName[name]
		if !ok {
			return nil, fmt.Errorf("there is no bug %q", name)
		}
		list[i] = m
	}
	return list, nil
}

// parse reads a patch.
func parse(file, text string) (Mutant, error) {
	name, ok := strings.CutSuffix(file, ".patch")
	if !ok {
		return Mutant{}, errors.New("the name of a patch ends in .patch")
	}
	head, rest, ok := strings.Cut(text, "\n--- ")
	if !ok {
		return Mutant{}, errors.New("there is no line that begins with `--- a/`")
	}
	m := Mutant{Name: name}
	if m.Effect, _, _ = strings.Cut(head, "\n"); !strings.HasSuffix(m.Effect, ".") {
		return Mutant{}, errors.New("the first line is not a sentence that says what the bug does")
	}
	d := diff{lines: strings.Split(strings.TrimSuffix("--- "+rest, "\n"), "\n")}
	for len(d.lines) > 0 {
		e, err := d.edit()
		if err != nil {
			return Mutant{}, err
		}
		m.edits = append(m.edits, e)
	}
	return m, nil
}

// diff has the lines that are still to be read.
type diff struct{ lines []string }

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
	for d.ignored("diff ") || d.ignored("index ") {
	}
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

func (d *diff) ignored(prefix string) bool {
	_, ok := d.take(prefix)
	return ok
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
		} else if line, ok := d.take(" "); ok || len(d.lines) > 0 && d.lines[0] == "" && d.ignored("") {
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

// apply returns the text of the edit's file with the bug.
func (m Mutant) apply(e edit, text string) (string, error) {
	for _, h := range e.hunks {
		text = "\n" + text // so that only whole lines match
		if n := strings.Count(text, "\n"+h.old); n != 1 {
			return "", fmt.Errorf("%s/patches/%s.patch does not apply: %d places of %s have these lines, not one:\n%s\n"+
				"Edit the patch so that its context and the lines that it removes are those of the code, with more context if there are several places. "+
				"Line numbers do not matter. If the bug is no longer possible, remove the patch and its row in docs/reliability.md", home, m.Name, n, e.file, h.old)
		}
		text = strings.Replace(text, "\n"+h.old, "\n"+h.new, 1)[1:]
	}
	return text, nil
}
