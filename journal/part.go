package journal

import (
	"maps"
	"slices"
)

// Part is a part of a filter that an index may have in the order of lists, by itself: sagas of a
// definition, with a label, of statuses, or simply all.
type Part struct {
	Definition string
	Status     []string // each once
	Label      string   // its name
	Value      string   // the label's
	Remaining  Filter   // what is left of the filter
}

// Parts lists the parts of a filter: at least one.
func (f *Filter) Parts() []Part {
	var out []Part
	for _, name := range slices.Sorted(maps.Keys(f.Labels)) {
		p := Part{Label: name, Value: f.Labels[name], Remaining: *f}
		p.Remaining.Labels = maps.Clone(f.Labels)
		delete(p.Remaining.Labels, name)
		out = append(out, p)
	}
	if f.Definition != "" {
		p := Part{Definition: f.Definition, Remaining: *f}
		p.Remaining.Definition = ""
		out = append(out, p)
	}
	if len(f.Status) > 0 {
		p := Part{Status: slices.Compact(slices.Sorted(slices.Values(f.Status))), Remaining: *f}
		p.Remaining.Status = nil
		out = append(out, p)
	}
	if len(out) == 0 {
		out = append(out, Part{Remaining: *f})
	}
	return out
}

// Indexed reports whether one index has all that the filter selects, in order.
func (f *Filter) Indexed() bool {
	parts := f.Parts()
	return f.Text == "" && len(parts) == 1
}
