package mutant

import (
	"embed"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"recourse/internal/test/mutant/active"
)

//go:embed patches
var patches embed.FS

// A Mutant is a deliberate bug.
type Mutant struct {
	active.Bug        // its name is that of the patch, without .patch
	Effect     string // the sentence that says what the bug does
	edits      []edit
}

// detection is the second line of a patch.
var detection = regexp.MustCompile("^Detected by (?:invariant ([1-9][0-9]*)|the simulator): `(.+)`$")

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
	head, rest, ok := strings.Cut(text, "\n\n")
	if !ok {
		return Mutant{}, errors.New("there is no empty line before the diff")
	}
	m := Mutant{Bug: active.Bug{Name: name}}
	m.Effect, head, _ = strings.Cut(head, "\n")
	if !strings.HasSuffix(m.Effect, ".") {
		return Mutant{}, errors.New("the first line is not a sentence that says what the bug does")
	}
	by := detection.FindStringSubmatch(head)
	if by == nil {
		return Mutant{}, errors.New("the second line is not \"Detected by invariant N: `TEXT`\" or \"Detected by the simulator: `TEXT`\"")
	}
	m.Invariant, _ = strconv.Atoi(by[1]) // "": none
	m.Text = by[2]
	d := newDiff(rest)
	for {
		e, err := d.edit()
		if err != nil {
			return Mutant{}, err
		}
		if m.edits = append(m.edits, e); len(d.lines) == 0 {
			return m, nil
		}
	}
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
