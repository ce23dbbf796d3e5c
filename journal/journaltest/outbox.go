package journaltest

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

var outboxTests = []test{
	{"the event due for longest first, up to the limit", claimEvents},
	{"only of the sinks that are named, in their order", claimEventsOfSinks},
	{"all fields of an event", claimedEvent},
	{"due again after the lease", eventLease},
	{"delivered to a sink", eventDelivered},
	{"failed, and due again after a wait", eventFailed},
	{"concurrent claims: one each", claimEventsConcurrently},
	{"outbox stats", outboxStats},
	{"a repeated append adds no second event", replayEvents},
	{"events outlive their saga", eventsOutlive},
	{"events of no saga", putEvents},
}

func event(sink string) journal.Event {
	return journal.Event{ID: newID(), Sink: sink, Data: []byte(`{}`)}
}

// evented starts a saga with events, and sets their Saga.
func (b *bench) evented(events ...journal.Event) uuid.UUID {
	b.Helper()
	a := begin(newID())
	for i := range events {
		events[i].Saga = a.Saga
	}
	a.Events = events
	b.ok(a)
	return a.Saga
}

// claimEvents claims events of all sinks.
func (b *bench) claimEvents(limit int, lease time.Duration) []journal.Delivery {
	b.Helper()
	stats, err := b.OutboxStats(b.ctx)
	b.must(err)
	var sinks []string
	for _, st := range stats {
		sinks = append(sinks, st.Sink)
	}
	return b.claimEventsOf(sinks, limit, lease)
}

func (b *bench) claimEventsOf(sinks []string, limit int, lease time.Duration) []journal.Delivery {
	b.Helper()
	out, err := b.ClaimEvents(b.ctx, sinks, limit, lease)
	b.must(err)
	return out
}

func eventIDs(list []journal.Delivery) (out []uuid.UUID) {
	for _, d := range list {
		out = append(out, d.ID)
	}
	return out
}

func claimEvents(b *bench) {
	diff(b, "none", b.claimEvents(10, time.Hour), nil)
	var want []uuid.UUID
	for range 4 {
		e := event("s")
		b.evented(e)
		b.tick()
		want = append(want, e.ID)
	}
	diff(b, "limit 0", b.claimEvents(0, time.Hour), nil)
	diff(b, "first", eventIDs(b.claimEvents(3, time.Hour)), want[:3])
	diff(b, "then", eventIDs(b.claimEvents(3, time.Hour)), want[3:])
	diff(b, "at last", b.claimEvents(3, time.Hour), nil)
	b.must(b.EventFailed(b.ctx, want[2], "s", 0, "x")) // it is due before the next one
	b.tick()
	b.must(b.EventFailed(b.ctx, want[0], "s", 0, "x"))
	b.tick()
	diff(b, "by when they are due", eventIDs(b.claimEvents(3, time.Hour)), []uuid.UUID{want[2], want[0]})
}

// claimEventsOfSinks: the limit is of each sink, and other sinks' events stay due.
func claimEventsOfSinks(b *bench) {
	ids := map[string][]uuid.UUID{}
	for range 3 {
		for _, sink := range []string{"a", "other", "s"} {
			e := event(sink)
			b.evented(e)
			ids[sink] = append(ids[sink], e.ID)
		}
		b.tick()
	}
	diff(b, "of no sink", b.claimEventsOf(nil, 10, time.Hour), nil)
	diff(b, "of one without events", b.claimEventsOf([]string{"none"}, 10, time.Hour), nil)
	diff(b, "two of each", eventIDs(b.claimEventsOf([]string{"s", "none", "a"}, 2, time.Hour)), slices.Concat(ids["s"][:2], ids["a"][:2]))
	diff(b, "the rest", eventIDs(b.claimEventsOf([]string{"a", "s"}, 2, time.Hour)), slices.Concat(ids["a"][2:], ids["s"][2:]))
	diff(b, "the others", eventIDs(b.claimEventsOf([]string{"other"}, 10, time.Hour)), ids["other"])
}

func claimedEvent(b *bench) {
	from := b.now()
	e := journal.Event{ID: newID(), Saga: newID(), Sink: "https://x/'\"✈", Data: []byte("{\"a\":1,\"a\":2.10,\"nul\":\"\\u0000\",\"raw\":\"\x00\"}")}
	a := begin(newID())
	a.Events = []journal.Event{e}
	b.ok(a)
	e.Saga = a.Saga // e.Saga is ignored
	got := b.claimEvents(10, time.Hour)
	if len(got) != 1 || got[0].Since.Before(from) || got[0].Since.After(b.now()) {
		b.Fatalf("claimed %+v, want one event stored after %v", got, from)
	}
	diff(b, "event", got[0], journal.Delivery{Event: e, Since: got[0].Since})
}

func eventLease(b *bench) {
	e := event("s")
	b.evented(e)
	from := b.now()
	first := b.claimEvents(10, 300*time.Millisecond)
	var again []journal.Delivery
	b.eventually("due again", func() bool {
		again = b.claimEvents(10, time.Hour)
		return len(again) > 0
	})
	if now := b.now(); now.Before(from.Add(300 * time.Millisecond)) {
		b.Errorf("claimed again at %v, although it was claimed for 300ms from %v on", now, from)
	}
	diff(b, "again", again, first) // the end of a lease is not a failure
}

func eventDelivered(b *bench) {
	e := event("s")
	twin := e
	twin.Sink = "t"
	saga := b.evented(e, twin)
	diff(b, "claimed", len(b.claimEvents(10, 0)), 2)
	b.must(b.EventDelivered(b.ctx, e.ID, "s"))
	b.must(b.EventDelivered(b.ctx, e.ID, "s"))
	b.must(b.EventDelivered(b.ctx, newID(), "s"))
	b.must(b.EventFailed(b.ctx, e.ID, "s", 0, "too late"))
	b.tick()
	twin.Saga = saga
	got := b.claimEvents(10, 0)
	if len(got) != 1 {
		b.Fatalf("%d events left, want 1", len(got))
	}
	diff(b, "left", got[0].Event, twin)
}

func eventFailed(b *bench) {
	e := event("s")
	b.evented(e)
	b.claimEvents(10, time.Hour)
	b.must(b.EventFailed(b.ctx, newID(), "s", 0, "nobody's"))
	b.must(b.EventFailed(b.ctx, e.ID, "s", 0, "503\x00\xff")) // error texts may have any bytes
	from := b.now()
	b.must(b.EventFailed(b.ctx, e.ID, "s", 300*time.Millisecond, "refused"))
	var got []journal.Delivery
	b.eventually("due again", func() bool {
		got = b.claimEvents(10, time.Hour)
		return len(got) > 0
	})
	if now := b.now(); now.Before(from.Add(300 * time.Millisecond)) {
		b.Errorf("claimed at %v, although it had to wait for 300ms from %v on", now, from)
	}
	diff(b, "attempts", got[0].Attempts, 2)
}

func claimEventsConcurrently(b *bench) {
	const events = 100
	for range events / 10 {
		var some []journal.Event
		for range 10 {
			some = append(some, event("s"))
		}
		b.evented(some...)
	}
	stores := []journal.Store{b.Store}
	if b.subject.Again != nil {
		stores = append(stores, b.again())
	}
	var mu sync.Mutex
	seen := map[uuid.UUID]bool{}
	deadline := time.Now().Add(patience)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for {
				got, err := stores[i%len(stores)].ClaimEvents(b.ctx, []string{"s"}, 3, time.Hour)
				if err != nil {
					b.Errorf("claim: %v", err)
					return
				}
				mu.Lock()
				for _, d := range got {
					if seen[d.ID] {
						b.Errorf("event %s was claimed twice", d.ID)
					}
					seen[d.ID] = true
				}
				done := len(seen) >= events
				mu.Unlock()
				if done || b.Failed() || time.Now().After(deadline) {
					return
				}
			}
		})
	}
	wg.Wait()
	if len(seen) != events {
		b.Errorf("%d events were claimed, want %d", len(seen), events)
	}
}

func outboxStats(b *bench) {
	stats := func(what string, want ...journal.OutboxStat) {
		b.Helper()
		got, err := b.OutboxStats(b.ctx)
		b.must(err)
		for i := range got {
			if i < len(want) {
				if at := got[i].Oldest; at.Before(want[i].Oldest) || at.After(want[i].Oldest.Add(time.Minute)) {
					b.Errorf("%s: the oldest of %s was stored at %v, want a time just after %v", what, got[i].Sink, at, want[i].Oldest)
				}
				got[i].Oldest = want[i].Oldest
			}
		}
		diff(b, what, got, want)
	}
	stats("none")
	from := b.now()
	one, two, three, other := event("s"), event("s"), event("s"), event("a")
	b.evented(one, two)
	then := b.tick()
	b.evented(three, other)
	stats("before", journal.OutboxStat{Sink: "a", Events: 1, Oldest: then}, journal.OutboxStat{Sink: "s", Events: 3, Oldest: from})
	b.must(b.EventFailed(b.ctx, two.ID, "s", time.Hour, "first"))
	b.tick()
	b.must(b.EventFailed(b.ctx, one.ID, "s", time.Hour, "second"))
	stats("failed", journal.OutboxStat{Sink: "a", Events: 1, Oldest: then}, journal.OutboxStat{Sink: "s", Events: 3, Oldest: from, Last: "second"})
	b.tick()
	b.must(b.EventFailed(b.ctx, two.ID, "s", 0, "third"))
	stats("failed again", journal.OutboxStat{Sink: "a", Events: 1, Oldest: then}, journal.OutboxStat{Sink: "s", Events: 3, Oldest: from, Last: "third"})
	b.must(b.EventDelivered(b.ctx, two.ID, "s"))
	b.must(b.EventDelivered(b.ctx, one.ID, "s"))
	b.must(b.EventDelivered(b.ctx, other.ID, "a"))
	stats("delivered", journal.OutboxStat{Sink: "s", Events: 1, Oldest: then})
}

func replayEvents(b *bench) {
	saga, hash := b.started()
	e := event("s")
	first := journal.Append{Saga: saga, Records: chain(saga, hash, 2, 1), Events: []journal.Event{e, e}}
	b.ok(first)
	b.ok(first)
	diff(b, "claimed", len(b.claimEvents(10, time.Hour)), 1)
	b.ok(first)
	diff(b, "claimed again", b.claimEvents(10, time.Hour), nil)
	b.must(b.EventDelivered(b.ctx, e.ID, "s"))
	b.ok(first)
	diff(b, "once it was delivered", b.claimEvents(10, time.Hour), nil)
	late := journal.Append{Saga: saga, Events: []journal.Event{event("s")}} // without records
	b.ok(late)
	b.ok(late)
	diff(b, "without records", eventIDs(b.claimEvents(10, time.Hour)), []uuid.UUID{late.Events[0].ID})
	changed := late
	changed.Events = []journal.Event{{ID: late.Events[0].ID, Sink: "s", Data: []byte(`"changed"`)}}
	b.ok(changed)
	diff(b, "it stays as it is", b.claimEvents(10, time.Hour), nil)
}

func eventsOutlive(b *bench) {
	e := event("s")
	a := begin(newID())
	a.Row, a.Release, a.Events = ended(), true, []journal.Event{e}
	b.ok(a)
	b.must(b.Delete(b.ctx, a.Saga))
	got := b.claimEvents(10, time.Hour)
	if len(got) != 1 || got[0].ID != e.ID || got[0].Saga != a.Saga {
		b.Errorf("claimed %+v, want the event of the deleted saga", got)
	}
}

func putEvents(b *bench) {
	b.must(b.PutEvents(b.ctx, nil))
	e := event("s")
	twin := e
	twin.Sink, twin.Data = "t", []byte(`{"n":1.10}`)
	b.must(b.PutEvents(b.ctx, []journal.Event{e, twin, e}))
	changed := e
	changed.Data = []byte(`"changed"`)
	b.must(b.PutEvents(b.ctx, []journal.Event{changed}))
	b.must(b.EventFailed(b.ctx, twin.ID, "t", 0, "x")) // it is due after the other one
	var got []journal.Event
	for _, d := range b.claimEvents(10, time.Hour) {
		if d.Since.IsZero() {
			b.Errorf("the event for %s was stored at no time", d.Sink)
		}
		got = append(got, d.Event)
	}
	slices.SortFunc(got, func(x, y journal.Event) int { return strings.Compare(x.Sink, y.Sink) })
	diff(b, "claimed", got, []journal.Event{e, twin})
	b.must(b.PutEvents(b.ctx, []journal.Event{e}))
	diff(b, "again", b.claimEvents(10, time.Hour), nil)
	b.must(b.EventDelivered(b.ctx, e.ID, "s"))
	b.must(b.PutEvents(b.ctx, []journal.Event{e}))
	diff(b, "once it was delivered", eventIDs(b.claimEvents(10, time.Hour)), []uuid.UUID{e.ID})
}
