package metrics

import "sync"

// other stands for whatever is one too many for a label.
const other = "other"

// names bounds the values of a label that users name.
type names struct {
	most int
	mu   sync.Mutex
	all  map[string]bool
}

func newNames(most int) *names { return &names{most: most, all: make(map[string]bool)} }

// label gives a name, or "other" when there are as many already as there may be. fresh says that it
// was not there before.
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
