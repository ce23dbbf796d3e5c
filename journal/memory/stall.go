package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"recourse/journal"
)

// stall is a stall that a node has noted.
type stall struct {
	journal.Stall
	shownUntil time.Time
}

func olderStall(a, b journal.Stall) int {
	return cmp.Or(a.Since.Compare(b.Since), journal.CompareID(a.ID, b.ID))
}

// FindStalls implements journal.Stalls.
func (s *Store) FindStalls(ctx context.Context, after time.Duration, limit int) ([]journal.Stall, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("find stalls: %w", err)
	}
	defer unlock()
	found := map[string][]journal.Stall{}
	for _, g := range s.sorted(func(g *saga) bool { return g.head.EndedAt.IsZero() }) {
		for _, f := range s.stallsOf(g, s.clock().Add(-after)) {
			found[f.Kind] = append(found[f.Kind], f)
		}
	}
	var out []journal.Stall
	for _, kind := range []string{journal.StallUnclaimed, journal.StallNoProgress, journal.StallQuarantined, journal.StallNoWorker} {
		slices.SortFunc(found[kind], olderStall)
		out = append(out, first(found[kind], limit)...)
	}
	return out, nil
}

// stallsOf returns the stalls of a live saga that began at before or earlier.
func (s *Store) stallsOf(g *saga, before time.Time) (out []journal.Stall) {
	found := func(kind, path string, since time.Time, more string) {
		f := journal.Stall{Saga: g.head.ID, Definition: g.head.Definition, Version: g.head.Version, Labels: copyHead(g.head).Labels, Kind: kind, Path: path, Since: milli(since)}
		if f, err := f.Found(more); err == nil { // the id of an inbox entry is always valid
			out = append(out, f)
		}
	}
	switch h := g.head; {
	case h.Quarantined():
		for _, e := range h.Inbox {
			if e.Path == "" {
				found(journal.StallQuarantined, "", e.Since, e.ID.String())
			}
		}
	case h.Owner != "" || h.WakeAt.IsZero():
	case h.Claims >= journal.SuspectAfter:
		if n := len(g.records); n > 0 && !g.records[n-1].At.After(before) {
			found(journal.StallNoProgress, "", g.records[n-1].At, strconv.Itoa(h.Claims))
		}
	case !h.WakeAt.After(before):
		found(journal.StallUnclaimed, "", h.WakeAt, "")
	}
	if g.head.Status == "paused" {
		return out
	}
	for _, t := range s.tasks { // the caller sorts
		if t.Saga == g.head.ID && t.waits() && !t.createdAt.After(before) {
			found(journal.StallNoWorker, t.Path, t.createdAt, t.Type)
		}
	}
	return out
}

// NoteStalls implements journal.Stalls.
func (s *Store) NoteStalls(ctx context.Context, list []journal.StallNotice, show time.Duration) (fresh int, err error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return 0, fmt.Errorf("note stalls: %w", err)
	}
	defer unlock()
	now := s.clock()
	for _, f := range list {
		old := s.stalls[f.ID]
		switch {
		case s.sagas[f.Saga] == nil:
			continue // it was deleted in the meantime
		case old == nil:
			fresh++
			f.Since = milli(f.Since)
			old = &stall{Stall: f.Stall}
			s.stalls[f.ID] = old
			s.addEvents(&journal.Append{Saga: f.Saga, Events: f.Events})
		}
		old.Why, old.shownUntil = f.Why, milli(now.Add(show))
	}
	for id, f := range s.stalls {
		if f.shownUntil.Before(now.Add(-journal.StallKept)) {
			delete(s.stalls, id)
		}
	}
	return fresh, nil
}

// shownStalls returns the stalls that are shown now, the oldest first.
func (s *Store) shownStalls() (out []journal.Stall) {
	now := s.clock()
	for _, f := range s.stalls {
		if g := s.sagas[f.Saga]; g != nil && g.head.EndedAt.IsZero() && f.shownUntil.After(now) {
			shown := f.Stall
			shown.Definition, shown.Version, shown.Labels, shown.Entry = g.head.Definition, g.head.Version, nil, journal.Stall{}.Entry
			out = append(out, shown)
		}
	}
	slices.SortFunc(out, olderStall)
	return out
}

// ListStalls implements journal.Stalls.
func (s *Store) ListStalls(ctx context.Context, f journal.StallFilter) ([]journal.Stall, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("stalls: %w", err)
	}
	defer unlock()
	out := slices.DeleteFunc(s.shownStalls(), func(g journal.Stall) bool {
		return f.Kind != "" && f.Kind != g.Kind || !f.Saga.IsNil() && f.Saga != g.Saga || !f.After.ID.IsNil() && olderStall(g, f.After) <= 0
	})
	return page(out, f.Limit), nil
}
