package metrics

import "sync"

// other is the label of all values beyond the bound.
const other = "other"

// names bounds the values of a label that users choose.
type names struct {
	most int
	mu   sync.Mutex
	all  map[string]bool
}

func newNames(most int) *names { return &names{most: most, all: make(map[string]bool)} }

// label returns the label for a name, or "other" if the bound is reached. fresh reports whether the
// name is new.
func (n *names) label(name string) (label string, fresh bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.all[name]:
		return name, false
	case len(n.all) >= n.most:
		name = other
		if n.all[name] {
			return name, false
		}
	}
	n.all[name] = true
	return name, true
}
