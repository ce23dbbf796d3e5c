package memory

import (
	"context"
	"fmt"
	"slices"

	"recourse/journal"
)

// Costs implements journal.Index.
func (s *Store) Costs(ctx context.Context, f journal.CostFilter) ([]journal.Cost, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("costs: %w", err)
	}
	defer unlock()
	found := s.sorted(func(g *saga) bool {
		h := &g.head
		return (f.Definition == "" || f.Definition == h.Definition) && journal.CompareID(h.ID, f.From) >= 0 && (f.Before.IsNil() || journal.CompareID(h.ID, f.Before) < 0)
	})
	slices.Reverse(found)
	var out []journal.Cost
	for _, g := range page(found, f.Limit) {
		h := copyHead(g.head)
		out = append(out, journal.Cost{ID: h.ID, Definition: h.Definition, Labels: h.Labels, Summary: h.Summary, CreatedAt: h.CreatedAt, EndedAt: h.EndedAt})
	}
	return out, nil
}
