package engine_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
)

// enough Watches in a row for the lane to act.
const enough = 12

// look has the lane look n times, 5 s apart.
func (b *bench) look(n int) {
	for range n {
		b.now = b.now.Add(5 * time.Second)
		b.handle(engine.Watch{})
	}
}

// watch looks n times, and returns what the lane has found stalled.
func (b *bench) watch(n int) []engine.Stalled {
	b.look(n)
	return take[engine.Stalled](b)
}

// reload claims what was given up, has the lane read it, and commits what comes of that.
func (b *bench) reload() {
	b.t.Helper()
	b.handle(b.append())
	b.handle(b.claim("n1"))
	b.handle(b.append())
}

const oneCall = "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", timeout: 20s, retry: {initial: 100ms, jitter: 0}}\n"

func done(id uuid.UUID, s saga.Send) engine.Answered {
	return engine.Answered{ID: id, Path: s.Path, Way: s.Way, Attempt: s.Attempt, Answer: saga.Answer{Sent: true, Status: 200}}
}

// sendOne starts a saga and commits, and returns the request that leaves.
func (b *bench) sendOne() (uuid.UUID, saga.Send) {
	b.t.Helper()
	b.lease("n1")
	id := b.start()
	b.handle(b.append())
	return id, take[engine.Perform](b)[0].Send
}

func (b *bench) endsAs(id uuid.UUID, want saga.Status) {
	b.t.Helper()
	if h, err := b.store.Saga(b.t.Context(), id); err != nil || h.Status != string(want) || b.lane.Len() != 0 {
		b.t.Errorf("the saga is %s, %v, %d held; want it to have ended as %s", h.Status, err, b.lane.Len(), want)
	}
}

// An answer that never comes: the attempt is in doubt, the saga goes on, and a late answer is of no
// use.
func TestLostAnswer(t *testing.T) {
	b := newBench(t, oneCall)
	id, send := b.sendOne()
	sent := b.now
	b.now = b.now.Add(20 * time.Second)
	if got := b.watch(enough - 1); len(got) > 0 {
		t.Fatalf("stalled within the grace: %+v", got)
	}
	got := b.watch(1)
	if len(got) != 1 || got[0].ID != id || got[0].Path != "a" || !got[0].Since.Equal(sent) || !strings.Contains(got[0].Why, "unanswered") {
		t.Fatalf("stalled: %+v, want %s at step a since %v", got, id, sent)
	}
	b.handle(done(id, send)) // too late: the saga is being given up
	b.reload()
	b.handle(done(id, send)) // and now it is settled
	again := take[engine.Perform](b)
	if len(again) != 1 || again[0].Send.Attempt != 2 || again[0].Send.Key != send.Key {
		t.Fatalf("sent after that: %+v, want attempt 2 under the key of the first", again)
	}
	b.handle(done(id, again[0].Send))
	b.handle(b.append())
	b.endsAs(id, saga.Succeeded)
}

// An alarm that never comes: the saga is read again, and its wait is over.
func TestLostAlarm(t *testing.T) {
	b := newBench(t, oneCall)
	id, send := b.sendOne()
	b.handle(engine.Answered{ID: id, Path: send.Path, Way: send.Way, Attempt: 1, Answer: saga.Answer{Sent: true, Status: 503}})
	b.handle(b.append())
	if b.lane.Alarm().IsZero() {
		t.Fatal("the lane wants no alarm for its backoff")
	}
	got := b.watch(enough) // and no Tick
	if len(got) != 1 || got[0].ID != id || !strings.Contains(got[0].Why, "waits for nothing") {
		t.Fatalf("stalled: %+v, want %s", got, id)
	}
	b.reload()
	again := take[engine.Perform](b)
	if len(again) != 1 || again[0].Send.Attempt != 2 {
		t.Fatalf("sent after that: %+v, want attempt 2", again)
	}
	b.handle(done(id, again[0].Send))
	b.handle(b.append())
	b.endsAs(id, saga.Succeeded)
}

// Whatever is normal is left alone, however long it takes.
func TestNormalWaitsAreNotStalled(t *testing.T) {
	const naps = "saga: x\nsteps:\n  - {id: nap, sleep: 900ms}\n"
	const long = "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", timeout: 10m}\n"
	for name, run := range map[string]func(b *bench){
		"a long call": func(b *bench) {
			b.def = compile(b.t, long)
			b.sendOne()
			b.now = b.now.Add(8 * time.Minute)
			b.look(enough)
			if got := b.lane.Stalest(); !got.Equal(b.now.Add(-9 * time.Minute)) {
				b.t.Errorf("the stalest saga moved at %v, want when its request left, 9 minutes before %v", got, b.now)
			}
		},
		"a call that waits for its turn": func(b *bench) {
			id, send := b.sendOne()
			for range 20 {
				b.handle(engine.Waits{ID: id, Path: send.Path, Way: send.Way, Attempt: send.Attempt})
				b.look(6)
			}
		},
		"a commit that hangs": func(b *bench) {
			b.lease("n1")
			b.start()
			b.look(10 * enough)
		},
		"one that waits for the commit under way": func(b *bench) {
			b.lease("n1")
			b.start()
			b.start()
			b.look(10 * enough)
		},
		"a draining lane with a call": func(b *bench) {
			b.def = compile(b.t, long)
			b.sendOne()
			b.handle(engine.Drain{})
			b.look(2 * enough)
		},
		"a nap, its alarm in time": func(b *bench) {
			b.def = compile(b.t, naps)
			b.lease("n1")
			b.start()
			b.handle(b.append())
			for range enough {
				b.handle(engine.Watch{})
			}
		},
		"calls that are each late for a while": func(b *bench) {
			b.def = compile(b.t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", timeout: 1s}\n  - {id: b, http: \"POST http://w/b\", timeout: 1s}\n")
			id, send := b.sendOne()
			b.look(enough - 1)
			b.handle(done(id, send))
			b.handle(b.append())
			b.look(enough - 1)
		},
		"a process that was frozen": func(b *bench) {
			id, send := b.sendOne()
			b.now = b.now.Add(time.Hour)
			b.handle(engine.Watch{}) // ahead of the answer, which waits behind it
			b.handle(done(id, send))
			b.handle(b.append())
			b.look(enough)
			b.endsAs(id, saga.Succeeded)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, oneCall)
			run(b)
			if got := take[engine.Stalled](b); len(got) > 0 {
				t.Errorf("stalled: %+v", got)
			}
			for _, d := range take[engine.Dropped](b) {
				if d.Err != nil {
					t.Errorf("dropped: %v", d.Err)
				}
			}
		})
	}
}

// bury never answers.
type bury struct{ calls atomic.Int64 }

func (c *bury) Call(ctx context.Context, r saga.Request) saga.Answer {
	if c.calls.Add(1) == 1 {
		select {} // whatever the context says
	}
	return saga.Answer{Sent: true, Status: 200}
}

// A caller that does not come back costs its saga a time-out and a grace, not its life.
func TestCallerThatNeverReturns(t *testing.T) {
	def := compile(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", timeout: 20ms, retry: {initial: 10ms}}\n")
	caller := &bury{}
	engineOf := func(store journal.Store) *engine.Engine {
		return engine.New(engine.Config{Store: store, Definitions: definitions{"x": def}, Callers: map[string]engine.Caller{"http": caller},
			Poll: 5 * time.Millisecond, Watch: 5 * time.Millisecond, Drain: time.Millisecond})
	}
	store := memory.New(memory.Config{})
	e := engineOf(store)
	go func() { _ = e.Run(context.Background()) }() // it cannot end: a call of it never does
	n := &node{Engine: e, t: t, store: store}
	id := n.start(def, "null", nil)
	n.ended(def, id, saga.Succeeded)
	if st := e.Stats(); st.Stalled != 1 || caller.calls.Load() != 2 {
		t.Errorf("%d stalled, %d calls, want 1 and 2", st.Stalled, caller.calls.Load())
	}
}
