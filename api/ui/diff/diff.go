// Package diff compares texts line by line.
package diff

import (
	"slices"

	"recourse/api/ui/format"
)

// Line is a line of a diff: unchanged (" "), removed ("-") or added ("+").
type Line struct {
	Mark     string
	Text     string
	Old, New int // line numbers; 0 if the text does not have the line
}

// skipMark marks a line that stands for omitted unchanged lines.
const skipMark = "…"

// Bounds of a diff. If the comparison needs more than mostCells cells, the differing parts are
// shown whole.
const (
	mostCells = 4_000_000
	around    = 3 // unchanged lines around a change
)

// Lines compares two texts line by line, by their longest common subsequence. It returns nil if
// they are equal.
func Lines(before, after string) []Line {
	a, b := format.Lines(before), format.Lines(after)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	if head == len(a) && head == len(b) {
		return nil
	}
	d := &differ{}
	for i := range head {
		d.add(" ", a[i])
	}
	d.middle(a[head:len(a)-tail], b[head:len(b)-tail])
	for _, text := range a[len(a)-tail:] {
		d.add(" ", text)
	}
	return onlyNear(d.lines)
}

type differ struct {
	lines    []Line
	old, new int
}

func (d *differ) add(mark, text string) {
	l := Line{Mark: mark, Text: text}
	if mark != "+" {
		d.old++
		l.Old = d.old
	}
	if mark != "-" {
		d.new++
		l.New = d.new
	}
	d.lines = append(d.lines, l)
}

// middle compares the parts between the common beginning and the common end, by a table of the
// lengths of common subsequences.
func (d *differ) middle(a, b []string) {
	i, j := 0, 0
	if len(a)*len(b) <= mostCells {
		width := len(b) + 1
		common := make([]int32, (len(a)+1)*width) // lengths for a[i:] and b[j:]
		for i, line := range slices.Backward(a) {
			for j, other := range slices.Backward(b) {
				if line == other {
					common[i*width+j] = common[(i+1)*width+j+1] + 1
				} else {
					common[i*width+j] = max(common[(i+1)*width+j], common[i*width+j+1])
				}
			}
		}
		for i < len(a) && j < len(b) {
			switch {
			case a[i] == b[j]:
				d.add(" ", a[i])
				i, j = i+1, j+1
			case common[(i+1)*width+j] >= common[i*width+j+1]:
				d.add("-", a[i])
				i++
			default:
				d.add("+", b[j])
				j++
			}
		}
	}
	for ; i < len(a); i++ {
		d.add("-", a[i])
	}
	for ; j < len(b); j++ {
		d.add("+", b[j])
	}
}

// onlyNear omits unchanged lines that are far from a change.
func onlyNear(lines []Line) []Line {
	keep := make([]bool, len(lines))
	for i, l := range lines {
		if l.Mark == " " {
			continue
		}
		for k := max(0, i-around); k <= min(len(lines)-1, i+around); k++ {
			keep[k] = true
		}
	}
	var out []Line
	for i := 0; i < len(lines); i++ {
		if keep[i] {
			out = append(out, lines[i])
			continue
		}
		from := i
		for i+1 < len(lines) && !keep[i+1] {
			i++
		}
		if from == i { // a single line is as short as its mark
			out = append(out, lines[i])
			continue
		}
		out = append(out, Line{Mark: skipMark, Text: format.Plural(i-from+1, "line is", "lines are") + " the same"})
	}
	return out
}
