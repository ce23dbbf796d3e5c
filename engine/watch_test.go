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
	"recourse/saga/machine"
)

// enough is how many Watches in a row make the lane act.
const enough = 12

// sendWatches sends the lane n Watches, 5 s apart.
func (b *bench) sendWatches(n int) {
	for range n {
		b.now = b.now.Add(5 * time.Second)
		b.handle(engine.Watch{})
	}
}

// watch sends n Watches, and returns the sagas that the lane found stalled.
func (b *bench) watch(n int) []engine.Stalled {
	b.sendWatches(n)
	return take[engine.Stalled](b)
}

// reload claims the released saga, loads it into the lane, and commits its appends.
func (b *bench) reload() {
	b.t.Helper()
	b.handle(b.append())
	b.handle(b.claim("n1"))
	b.handle(b.append())
}

const oneCall = "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", timeout: 20s, retry: {initial: 100ms, jitter: 0}}\n"

func done(id uuid.UUID, s machine.Send) engine.Answered {
	return engine.Answered{ID: id, Path: s.Path, Way: s.Way, Attempt: s.Attempt, Answer: saga.Answer{Sent: true, Status: 200}}
}

// sendOne starts a saga, commits, and returns the request that is sent.
func (b *bench) sendOne() (uuid.UUID, machine.Send) {
	b.t.Helper()
	b.lease("n1")
	id := b.start()
	b.handle(b.append())
	return id, take[engine.Perform](b)[0].Send
}

func (b *bench) endsAs(id uuid.UUID, want saga.Status) {
	b.t.Helper()
	if h, err := b.store.Saga(b.t.Context(), id); err != nil || h.Status != string(want) || b.lane.Len() != 0 {
		b.t.Errorf("the saga is %s, %v, %d in the lane; want it to have ended as %s", h.Status, err, b.lane.Len(), want)
	}
}

// If a response never arrives, the attempt is in doubt and the saga continues. A late response has
// no effect.
func TestLostAnswer(t *testing.T) {
	b := newBench(t, oneCall)
	id, send := b.sendOne()
	sent := b.now
	b.now = b.now.Add(20 * time.Second)
	if got := b.watch(enough - 1); len(got) > 0 {
		t.Fatalf("stalled within the grace: %+v", got)
	}
	got := b.watch(1)
	if len(got) != 1 || got[0].ID != id || got[0].Path != "a" || !got[0].Since.Equal(sent) || !strings.Contains(got[0].Why, "has no response") {
		t.Fatalf("stalled: %+v, want %s at step a since %v", got, id, sent)
	}
	b.handle(done(id, send)) // too late: the saga is being released
	b.reload()
	b.handle(done(id, send)) // and now its outcome is recorded
	again := take[engine.Perform](b)
	if len(again) != 1 || again[0].Send.Attempt != 2 || again[0].Send.Key != send.Key {
		t.Fatalf("sent after that: %+v, want attempt 2 under the key of the first", again)
	}
	b.handle(done(id, again[0].Send))
	b.handle(b.append())
	b.endsAs(id, saga.Succeeded)
}

// If an alarm is lost, the saga is read again, and its wait is over.
func TestLostAlarm(t *testing.T) {
	b := newBench(t, oneCall)
	id, send := b.sendOne()
	b.handle(engine.Answered{ID: id, Path: send.Path, Way: send.Way, Attempt: 1, Answer: saga.Answer{Sent: true, Status: 503}})
	b.handle(b.append())
	if b.lane.Alarm().IsZero() {
		t.Fatal("the lane has no alarm for the backoff")
	}
	got := b.watch(enough) // without a Tick
	if len(got) != 1 || got[0].ID != id || !strings.Contains(got[0].Why, "no timer, request or message") {
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

// A normal wait is never a stall, however long it takes.
func TestNormalWaitsAreNotStalled(t *testing.T) {
	const naps = "saga: x\nsteps:\n  - {id: nap, sleep: 900ms}\n"
	const long = "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", timeout: 10m}\n"
	for name, run := range map[string]func(b *bench){
		"a long call": func(b *bench) {
			b.def = compile(b.t, long)
			b.sendOne()
			b.now = b.now.Add(8 * time.Minute)
			b.sendWatches(enough)
			if got := b.lane.Stalest(); !got.Equal(b.now.Add(-9 * time.Minute)) {
				b.t.Errorf("the stalest saga made progress at %v, want the time of its request, 9 minutes before %v", got, b.now)
			}
		},
		"a call that waits for its turn": func(b *bench) {
			id, send := b.sendOne()
			for range 20 {
				b.handle(engine.Waits{ID: id, Path: send.Path, Way: send.Way, Attempt: send.Attempt})
				b.sendWatches(6)
			}
		},
		"a commit that hangs": func(b *bench) {
			b.lease("n1")
			b.start()
			b.sendWatches(10 * enough)
		},
		"one that waits for the commit in flight": func(b *bench) {
			b.lease("n1")
			b.start()
			b.start()
			b.sendWatches(10 * enough)
		},
		"a draining lane with a call": func(b *bench) {
			b.def = compile(b.t, long)
			b.sendOne()
			b.handle(engine.Drain{})
			b.sendWatches(2 * enough)
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
			b.sendWatches(enough - 1)
			b.handle(done(id, send))
			b.handle(b.append())
			b.sendWatches(enough - 1)
		},
		"a process that was frozen": func(b *bench) {
			id, send := b.sendOne()
			b.now = b.now.Add(time.Hour)
			b.handle(engine.Watch{}) // before the response, which comes later in the queue
			b.handle(done(id, send))
			b.handle(b.append())
			b.sendWatches(enough)
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

// bury never responds.
type bury struct{ calls atomic.Int64 }

func (c *bury) Call(ctx context.Context, r saga.Request) saga.Answer {
	if c.calls.Add(1) == 1 {
		select {} // even if the context ends
	}
	return saga.Answer{Sent: true, Status: 200}
}

// A caller that does not return costs its saga a timeout and a grace period, and the saga
// continues.
func TestCallerThatNeverReturns(t *testing.T) {
	def := compile(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", timeout: 20ms, retry: {initial: 10ms}}\n")
	caller := &bury{}
	engineOf := func(store journal.Store) *engine.Engine {
		return engine.New(engine.Config{Store: store, Definitions: definitions{"x": def}, Callers: map[string]engine.Caller{"http": caller},
			Poll: 5 * time.Millisecond, Watch: 5 * time.Millisecond, Drain: time.Millisecond})
	}
	store := memory.New(memory.Config{})
	e := engineOf(store)
	go func() { _ = e.Run(context.Background()) }() // it cannot end, because one of its calls never does
	n := &node{Engine: e, t: t, store: store}
	id := n.start(def, "null", nil)
	n.ended(def, id, saga.Succeeded)
	if st := e.Stats(); st.Stalled != 1 || caller.calls.Load() != 2 {
		t.Errorf("%d stalled, %d calls, want 1 and 2", st.Stalled, caller.calls.Load())
	}
}
