package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// eventKey identifies an event: sinks may share its id.
type eventKey struct {
	id   uuid.UUID
	sink string
}

// event is an event that has not been delivered yet.
type event struct {
	journal.Delivery
	due, failed time.Time
	lastError   string
}

func (s *Store) addEvents(a *journal.Append) {
	for _, e := range a.Events {
		e.Saga = a.Saga
		s.addEvent(e)
	}
}

func (s *Store) addEvent(e journal.Event) {
	key := eventKey{e.ID, e.Sink}
	if s.outbox[key] != nil {
		return
	}
	e.Data = slices.Clone(e.Data)
	now := s.clock()
	s.outbox[key] = &event{Delivery: journal.Delivery{Event: e, Since: now}, due: now}
}

// PutEvents implements journal.Outbox.
func (s *Store) PutEvents(ctx context.Context, events []journal.Event) error {
	unlock, err := s.enter(ctx)
	if err != nil {
		return fmt.Errorf("put events: %w", err)
	}
	defer unlock()
	for _, e := range events {
		s.addEvent(e)
	}
	return nil
}

// sortedEvents returns all events in the order of one of their times.
func (s *Store) sortedEvents(at func(*event) time.Time) []*event {
	return slices.SortedFunc(maps.Values(s.outbox), func(a, b *event) int {
		return cmp.Or(at(a).Compare(at(b)), journal.CompareID(a.ID, b.ID), strings.Compare(a.Sink, b.Sink))
	})
}

// ClaimEvents implements journal.Outbox.
func (s *Store) ClaimEvents(ctx context.Context, sinks []string, limit int, lease time.Duration) ([]journal.Delivery, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("claim events: %w", err)
	}
	defer unlock()
	now := s.clock()
	bySink := make(map[string][]journal.Delivery, len(sinks))
	for _, e := range s.sortedEvents(func(e *event) time.Time { return e.due }) {
		if e.due.After(now) {
			break
		}
		if len(bySink[e.Sink]) >= limit || !slices.Contains(sinks, e.Sink) {
			continue
		}
		e.due = milli(now.Add(lease))
		d := e.Delivery
		d.Data = slices.Clone(d.Data)
		bySink[e.Sink] = append(bySink[e.Sink], d)
	}
	var out []journal.Delivery
	for _, sink := range sinks {
		out = append(out, bySink[sink]...)
	}
	return out, nil
}

// EventDelivered implements journal.Outbox.
func (s *Store) EventDelivered(ctx context.Context, id uuid.UUID, sink string) error {
	unlock, err := s.enter(ctx)
	if err != nil {
		return fmt.Errorf("event delivered: %w", err)
	}
	defer unlock()
	delete(s.outbox, eventKey{id, sink})
	return nil
}

// EventFailed implements journal.Outbox.
func (s *Store) EventFailed(ctx context.Context, id uuid.UUID, sink string, wait time.Duration, why string) error {
	unlock, err := s.enter(ctx)
	if err != nil {
		return fmt.Errorf("event failed: %w", err)
	}
	defer unlock()
	if e := s.outbox[eventKey{id, sink}]; e != nil {
		e.Attempts++
		e.failed, e.lastError = s.clock(), why
		e.due = milli(e.failed.Add(wait))
	}
	return nil
}

// OutboxStats implements journal.Outbox.
func (s *Store) OutboxStats(ctx context.Context) ([]journal.OutboxStat, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("outbox stats: %w", err)
	}
	defer unlock()
	bySink := map[string]*journal.OutboxStat{}
	for _, e := range s.sortedEvents(func(e *event) time.Time { return e.failed }) {
		st := bySink[e.Sink]
		if st == nil {
			st = &journal.OutboxStat{Sink: e.Sink}
			bySink[e.Sink] = st
		}
		st.Events++
		st.Oldest, st.Last = earlier(st.Oldest, e.Since), e.lastError
	}
	var out []journal.OutboxStat
	for _, sink := range sortedKeys(bySink) {
		out = append(out, *bySink[sink])
	}
	return out, nil
}

// Fired implements journal.Schedules.
func (s *Store) Fired(ctx context.Context) (map[string]time.Time, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("schedules: %w", err)
	}
	defer unlock()
	return maps.Clone(s.fired), nil
}

// SetFired implements journal.Schedules.
func (s *Store) SetFired(ctx context.Context, name string, at time.Time) error {
	unlock, err := s.enter(ctx)
	if err != nil {
		return fmt.Errorf("schedule %s: %w", name, err)
	}
	defer unlock()
	if at = milli(at); at.After(s.fired[name]) {
		s.fired[name] = at
	}
	return nil
}
