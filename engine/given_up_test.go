package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
)

// diary is a caller that notes the requests that it sends, and delays the first one.
type diary struct {
	mu   sync.Mutex
	urls []string
	hold chan struct{}
}

func (d *diary) Call(_ context.Context, r saga.Request) saga.Answer {
	d.mu.Lock()
	d.urls = append(d.urls, r.URL)
	d.mu.Unlock()
	if r.URL == "http://w/hold" {
		<-d.hold
	}
	return saga.Answer{Sent: true, Status: 200}
}

func (d *diary) sent() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.urls)
}

// A request that waits for a call slot is not sent after its saga was given up: by then, another
// node may have resolved and undone its step.
func TestGivenUpWhileItWaits(t *testing.T) {
	hold := compile(t, "saga: hold\nsteps:\n  - {id: h, http: \"POST http://w/hold\", timeout: 1m}\n")
	x := compile(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", timeout: 1m}\n")
	store := memory.New(memory.Config{})
	d := &diary{hold: make(chan struct{})}
	n := startNode(t, store, definitions{"x": x, "hold": hold}, func(c *engine.Config) {
		c.Callers, c.MaxCalls = map[string]engine.Caller{"http": d}, 1
	})
	first := n.start(hold, "null", nil)
	until(t, "the slot is taken", func() bool { return len(d.sent()) == 1 })
	id := n.start(x, "null", nil)
	// A message that cannot be read makes the node give the saga up.
	if err := n.Send(t.Context(), journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: id, Kind: saga.CommandMessage, Data: json.RawMessage(`"?"`)}); err != nil {
		t.Fatal(err)
	}
	until(t, "the saga is given up", func() bool {
		h, err := store.Saga(t.Context(), id)
		return err == nil && h.Owner == ""
	})
	close(d.hold)
	n.ended(hold, first, saga.Succeeded)
	again := n.start(hold, "null", nil) // its request is sent after the other one would have been
	n.ended(hold, again, saga.Succeeded)
	if got := d.sent(); slices.Contains(got, "http://w/a") {
		t.Errorf("a request of a saga that was given up was sent: %v", got)
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// A step whose timeout is shorter than the interval of Watches may wait for a call slot for any
// time.
func TestShortTimeoutsWaitTheirTurn(t *testing.T) {
	b := newBench(t, oneCall)
	b.def = compile(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", timeout: 1s}\n")
	id, send := b.sendOne()
	for range 20 {
		b.handle(engine.Waits{ID: id, Path: send.Path, Way: send.Way, Attempt: send.Attempt})
		b.sendWatches(6)
	}
	if got := take[engine.Stalled](b); len(got) > 0 {
		t.Errorf("stalled: %+v", got)
	}
}

// The store's clock may be set forward or back while a call is in flight.
func TestClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		b := newBench(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", timeout: 10m}\n")
		b.sendOne()
		b.sendWatches(1)
		b.now = b.now.Add(jump)
		b.sendWatches(enough)
		if got := take[engine.Stalled](b); len(got) > 0 {
			t.Errorf("after a jump of %v, stalled a minute into a call of 10 minutes: %+v", jump, got)
		}
	}
}

// hung is a store whose appends hang.
type hung struct {
	journal.Store
	on atomic.Bool
}

func (s *hung) Append(ctx context.Context, node string, b []journal.Append) ([]journal.Result, error) {
	if s.on.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Append(ctx, node, b)
}

// A database that hangs delays the stop of a node by at most its drain and ten seconds.
func TestStopsWhileTheDatabaseHangs(t *testing.T) {
	def := compile(t, "saga: x\nsteps:\n  - {id: a, sleep: 100ms}\n")
	store := &hung{Store: memory.New(memory.Config{})}
	n := startNode(t, store, definitions{"x": def}, func(c *engine.Config) { c.Drain = 100 * time.Millisecond })
	n.start(def, "null", nil)
	store.on.Store(true)
	<-time.After(300 * time.Millisecond) // its timer is due, and is being written
	began := time.Now()
	n.stop()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("stopping took %v", took)
	}
}
