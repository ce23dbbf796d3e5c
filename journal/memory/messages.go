package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Send implements journal.Log.
func (s *Store) Send(ctx context.Context, m journal.Message) error {
	unlock, err := s.enter(ctx)
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	defer unlock()
	if !s.deliver(m) {
		return fmt.Errorf("send to %s: %w", m.Saga, journal.ErrNotFound)
	}
	return nil
}

// deliver stores a message for its saga, and reports whether the saga exists.
func (s *Store) deliver(m journal.Message) bool {
	g := s.sagas[m.Saga]
	if g == nil {
		return false
	}
	at, waiting := slices.BinarySearchFunc(g.messages, m.ID, func(have journal.Message, id uuid.UUID) int { return journal.CompareID(have.ID, id) })
	if waiting || g.applied[m.ID] {
		return true
	}
	m.Data = slices.Clone(m.Data)
	g.messages = slices.Insert(g.messages, at, m)
	if g.head.Owner == "" {
		g.wake(s.clock())
	}
	s.hint()
	return true
}

// Recipients implements journal.Log.
func (s *Store) Recipients(ctx context.Context, node string, after uuid.UUID, limit int) ([]journal.Recipient, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("recipients: %w", err)
	}
	defer unlock()
	var out []journal.Recipient
	for _, g := range s.sorted(func(g *saga) bool {
		return node != "" && g.head.Owner == node && len(g.messages) > 0 && journal.CompareID(g.head.ID, after) > 0
	}) {
		out = append(out, journal.Recipient{Saga: g.head.ID, Messages: len(g.messages)})
	}
	return first(out, limit), nil
}

// Messages implements journal.Log.
func (s *Store) Messages(ctx context.Context, sagas []uuid.UUID, limit, bytes int) ([]journal.Message, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("messages: %w", err)
	}
	defer unlock()
	var out []journal.Message
	for _, g := range s.sorted(func(g *saga) bool { return slices.Contains(sagas, g.head.ID) }) {
		for _, m := range g.messages {
			if bytes -= len(m.Data); len(out) >= limit || len(out) > 0 && bytes < 0 {
				return out, nil
			}
			m.Data = slices.Clone(m.Data)
			out = append(out, m)
		}
	}
	return out, nil
}

// Owned implements journal.Log.
func (s *Store) Owned(ctx context.Context, node string, after uuid.UUID, limit int) ([]uuid.UUID, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("owned: %w", err)
	}
	defer unlock()
	var out []uuid.UUID
	for _, g := range s.sagas {
		if node != "" && g.head.Owner == node && journal.CompareID(g.head.ID, after) > 0 {
			out = append(out, g.head.ID)
		}
	}
	slices.SortFunc(out, journal.CompareID)
	return first(out, limit), nil
}

// applyMessages removes applied messages and remembers their ids, so that sending one again does
// nothing.
func (g *saga) applyMessages(ids []uuid.UUID) {
	for _, id := range ids {
		at := slices.IndexFunc(g.messages, func(m journal.Message) bool { return m.ID == id })
		if at >= 0 {
			g.messages = slices.Delete(g.messages, at, at+1)
			g.applied[id] = true
		}
	}
}
