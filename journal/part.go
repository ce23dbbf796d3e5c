package journal

import (
	"maps"
	"slices"
)

// Part is one condition of a filter that an index may answer in the order of lists: sagas of a
// definition, sagas with a label, sagas in one of some statuses, or all sagas.
type Part struct {
	Definition string
	Status     []string // without duplicates
	Label      string   // the label's name
	Value      string   // the label's value
	Remaining  Filter   // the filter's other conditions
}

// Parts returns the parts of the filter, at least one.
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

// Indexed reports whether one index answers the whole filter, in the order of lists.
func (f *Filter) Indexed() bool {
	parts := f.Parts()
	return f.Text == "" && len(parts) == 1
}
