package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Saga implements journal.Index.
func (s *Store) Saga(ctx context.Context, id uuid.UUID) (journal.Head, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return journal.Head{}, fmt.Errorf("saga: %w", err)
	}
	defer unlock()
	g := s.sagas[id]
	if g == nil {
		return journal.Head{}, fmt.Errorf("saga %s: %w", id, journal.ErrNotFound)
	}
	return copyHead(g.head), nil
}

// SagaByKey implements journal.Index.
func (s *Store) SagaByKey(ctx context.Context, key string) (journal.Head, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return journal.Head{}, fmt.Errorf("saga by key: %w", err)
	}
	defer unlock()
	id, ok := s.keys[key]
	if !ok {
		return journal.Head{}, fmt.Errorf("saga by key: %w", journal.ErrNotFound)
	}
	return copyHead(s.sagas[id].head), nil
}

// Opened implements journal.Index.
func (s *Store) Opened(ctx context.Context, opener string, limit int) (n int, err error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return 0, fmt.Errorf("count the sagas of an opener: %w", err)
	}
	defer unlock()
	for _, g := range s.sagas {
		if g.head.Opener == opener && g.head.EndedAt.IsZero() && n < limit {
			n++
		}
	}
	return n, nil
}

// Inbox implements journal.Index.
func (s *Store) Inbox(ctx context.Context, f journal.InboxFilter) ([]journal.Entry, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	defer unlock()
	var out []journal.Entry
	for _, g := range s.sagas {
		for _, e := range g.head.Inbox {
			if (f.Kind == "" || f.Kind == e.Kind) && (f.Saga.IsNil() || f.Saga == e.Saga) &&
				(f.After.ID.IsNil() || compareEntry(e, f.After) > 0) {
				e.Data = slices.Clone(e.Data)
				out = append(out, e)
			}
		}
	}
	slices.SortFunc(out, compareEntry)
	return page(out, f.Limit), nil
}

func compareEntry(a, b journal.Entry) int {
	if c := milli(a.Since).Compare(milli(b.Since)); c != 0 {
		return c
	}
	return journal.CompareID(a.ID, b.ID)
}

// Delete implements journal.Index.
func (s *Store) Delete(ctx context.Context, id uuid.UUID) error {
	unlock, err := s.enter(ctx)
	if err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	defer unlock()
	g := s.sagas[id]
	switch {
	case g == nil:
		return fmt.Errorf("delete %s: %w", id, journal.ErrNotFound)
	case g.head.EndedAt.IsZero():
		return fmt.Errorf("delete %s: %w", id, journal.ErrLive)
	case s.awaited(g):
		return fmt.Errorf("delete %s: %w", id, journal.ErrParentLive)
	}
	s.remove(g)
	return nil
}

// DeleteExpired implements journal.Index.
func (s *Store) DeleteExpired(ctx context.Context, limit int) (int, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return 0, fmt.Errorf("delete expired: %w", err)
	}
	defer unlock()
	expired := first(s.expired(), limit)
	for _, g := range expired {
		s.remove(g)
	}
	return len(expired), nil
}

// kept reports whether the saga must stay although its retention has ended: see
// journal.Index.DeleteExpired.
func (s *Store) kept(g *saga) bool {
	return s.awaited(g) || s.sagas[g.head.GoesOnFrom()] != nil
}

// awaited reports whether the saga has a live parent, which may still read it.
func (s *Store) awaited(g *saga) bool {
	return s.live(g.head.Parent)
}

// remove deletes a saga and everything that belongs to it, except its events.
func (s *Store) remove(g *saga) {
	delete(s.sagas, g.head.ID)
	maps.DeleteFunc(s.tasks, func(_ uuid.UUID, t *task) bool { return t.Saga == g.head.ID })
	maps.DeleteFunc(s.stalls, func(_ uuid.UUID, f *stall) bool { return f.Saga == g.head.ID })
	if g.head.Key != "" {
		delete(s.keys, g.head.Key)
	}
}

// Stats implements journal.Index.
func (s *Store) Stats(ctx context.Context) (journal.Stats, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return journal.Stats{}, fmt.Errorf("stats: %w", err)
	}
	defer unlock()
	now := s.clock()
	out := journal.Stats{ByStatus: map[string]int64{}, ByDefinition: map[string]int64{}, Inbox: map[string]int64{}, Oldest: map[string]time.Time{},
		OldestInboxByKind: map[string]time.Time{}, Stalled: map[string]int64{}, CountedAt: now}
	for _, f := range s.shownStalls() {
		out.Stalled[f.Kind]++
	}
	for _, g := range s.sagas {
		out.ByStatus[g.head.Status]++
		if g.head.EndedAt.IsZero() {
			out.ByDefinition[g.head.Definition]++
			if at := g.head.UpdatedAt; !at.IsZero() {
				out.Oldest[g.head.Status] = earlier(out.Oldest[g.head.Status], at)
			}
		}
		if g.head.Quarantined() {
			out.Quarantined++
		}
		if g.due(now) {
			out.OldestDue = earlier(out.OldestDue, g.head.WakeAt)
		}
		for _, e := range g.head.Inbox {
			out.Inbox[e.Kind]++
			out.OldestInbox = earlier(out.OldestInbox, e.Since)
			out.OldestInboxByKind[e.Kind] = earlier(out.OldestInboxByKind[e.Kind], e.Since)
		}
	}
	return out, nil
}

// earlier returns the earlier of two times, or b if a is zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
