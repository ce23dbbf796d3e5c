package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"recourse/journal"
)

// Sagas implements journal.Index.
func (s *Store) Sagas(ctx context.Context, f journal.Filter) (journal.Listed, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return journal.Listed{}, fmt.Errorf("sagas: %w", err)
	}
	defer unlock()
	between := s.sorted(func(g *saga) bool {
		return journal.CompareID(g.head.ID, f.From) >= 0 && (f.Before.IsNil() || journal.CompareID(g.head.ID, f.Before) < 0)
	})
	slices.Reverse(between)
	var out journal.Listed
	for i, g := range between {
		if matches(&f, &g.head) {
			out.Heads = append(out.Heads, copyHead(g.head))
		}
		if f.Limit > 0 && len(out.Heads) == f.Limit {
			break
		}
		if i+1 == f.MaxScanned && !f.Indexed() {
			out.ScannedTo = g.head.ID
			break
		}
	}
	return out, nil
}

func matches(f *journal.Filter, h *journal.Head) bool {
	for k, v := range f.Labels {
		if have, ok := h.Labels[k]; !ok || have != v {
			return false
		}
	}
	return (f.Definition == "" || f.Definition == h.Definition) &&
		(len(f.Status) == 0 || slices.Contains(f.Status, h.Status)) &&
		(f.Text == "" || strings.Contains(h.Text, journal.SearchText(f.Text)))
}
