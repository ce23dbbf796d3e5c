package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

// bomb is a kind of step that panics when it is rendered while it is armed.
type bomb struct {
	armed atomic.Bool
	hits  atomic.Int64
}

func (b *bomb) kind() dsl.Kind {
	return dsl.Kind{Name: "bomb", Timeout: time.Second, Decode: func(*dsl.Decoder) saga.Body { return b }}
}

func (b *bomb) Request(expr.Env) (saga.Request, error) {
	if b.armed.Load() {
		b.hits.Add(1)
		panic("poison")
	}
	return saga.Request{Method: "POST", URL: "bomb://x"}, nil
}

func (*bomb) ReadOnly() bool { return false }

func (*bomb) Judge(saga.Request, saga.Answer) saga.Verdict {
	return saga.Verdict{Class: journal.Succeeded, Output: json.RawMessage(`{}`)}
}

func (b *bomb) compile(t *testing.T, src string) *saga.Definition {
	t.Helper()
	def, errs := dsl.Parse("test", []byte(src), dsl.Options{Kinds: append(kinds.All(), b.kind())})
	if errs != nil {
		t.Fatal(errs)
	}
	return def
}

// fine responds to every request at once.
type fine struct{}

func (fine) Call(context.Context, saga.Request) saga.Answer {
	return saga.Answer{Sent: true, Status: 200}
}

// command sends a command.
func (n *node) command(id uuid.UUID, do saga.Operation) {
	n.t.Helper()
	data, err := json.Marshal(saga.Command{Do: do})
	if err != nil {
		n.t.Fatal(err)
	}
	if err := n.Send(context.Background(), journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: id, Kind: saga.CommandMessage, Data: data}); err != nil {
		n.t.Fatal(err)
	}
}

// head waits until want holds for the saga's row.
func (n *node) head(id uuid.UUID, what string, want func(journal.Head) bool) journal.Head {
	n.t.Helper()
	var h journal.Head
	for deadline := time.Now().Add(time.Minute); ; {
		var err error
		if h, err = n.store.Saga(context.Background(), id); err != nil {
			n.t.Fatal(err)
		}
		if want(h) {
			return h
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("saga %s is not %s: %+v", id, what, h)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// exhaust wakes a saga that its nodes cannot continue until it is in quarantine.
func (n *node) exhaust(id uuid.UUID) {
	n.t.Helper()
	for h := n.head(id, "set aside", func(h journal.Head) bool { return h.Owner == "" && h.Claims > 0 }); !h.Quarantined(); {
		n.command(id, saga.Resume{})
		claims := h.Claims
		h = n.head(id, "claimed once more and given up", func(h journal.Head) bool { return h.Owner == "" && h.Claims > claims })
		if h.Claims != claims+1 {
			n.t.Fatalf("%d claims after %d: want one for each command", h.Claims, claims)
		}
	}
}

// A saga that panics in the engine's own logic affects no other saga. It ends up in the inbox, is
// tried again only once per command, and continues when it can.
func TestPoison(t *testing.T) {
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			t.Cleanup(func() { _ = store.Close() })
			b := &bomb{}
			poison := b.compile(t, "saga: poison\nsteps:\n  - {id: nap, sleep: 10ms}\n  - {id: boom, bomb: 1}\n")
			sane := b.compile(t, "saga: sane\nsteps:\n  - {id: nap, sleep: 1ms}\n  - {id: a, http: \"POST http://w/a\"}\n")
			b.armed.Store(true)
			n := startNode(t, store, definitions{"poison": poison, "sane": sane}, func(c *engine.Config) {
				c.Callers = map[string]engine.Caller{"http": fine{}, "bomb": fine{}}
				c.Log = nil
			})
			id := n.start(poison, "null", nil)
			n.head(id, "set aside", func(h journal.Head) bool {
				return h.Owner == "" && h.Claims == 0 && h.WakeAt.After(time.Now().Add(journal.FirstRetryDelay/2))
			})
			n.command(id, saga.Resume{})
			n.exhaust(id)
			n.command(id, saga.Resume{})
			n.head(id, "in quarantine again", func(h journal.Head) bool {
				return h.Quarantined() && h.Claims == journal.QuarantineAfter+1 && h.Owner == ""
			})
			before, hits := len(n.records(id)), b.hits.Load()
			for range 5 { // each takes many polls
				n.ended(sane, n.start(sane, "null", nil), saga.Succeeded)
			}
			// The node gives it up once after its start, and then once for each claim.
			if got := n.Stats().GivenUp; got != journal.QuarantineAfter+2 {
				t.Errorf("given up %d times", got)
			}
			if got := b.hits.Load(); got != hits {
				t.Errorf("tried %d times in quarantine", got-hits)
			}
			inbox, err := store.Inbox(t.Context(), journal.InboxFilter{})
			if err != nil || len(inbox) != 1 || inbox[0].Kind != saga.InboxStuck || inbox[0].Saga != id {
				t.Fatalf("inbox: %+v, %v; want the poison only", inbox, err)
			}
			var shown saga.Entry
			if err := json.Unmarshal(inbox[0].Data, &shown); err != nil || shown.Title == "" || !strings.Contains(shown.Detail, "resume") || !slices.Equal(shown.Actions, []string{"resume"}) {
				t.Errorf("the entry shows %+v, %v", shown, err)
			}
			if got := len(n.records(id)); got != before {
				t.Errorf("%d records were written to a saga that cannot continue", got-before)
			}
			b.armed.Store(false)
			n.command(id, saga.Resume{})
			n.ended(poison, id, saga.Succeeded)
			h := n.head(id, "ended", func(h journal.Head) bool { return !h.EndedAt.IsZero() })
			if inbox, err := store.Inbox(t.Context(), journal.InboxFilter{}); err != nil || len(inbox) > 0 || h.Claims != 0 || h.Quarantined() {
				t.Errorf("after it continued: inbox %+v, %v, row %+v", inbox, err, h)
			}
		})
	}
}

func (n *node) records(id uuid.UUID) []journal.Record {
	n.t.Helper()
	got, err := n.store.Records(context.Background(), id, 0, 1000)
	if err != nil {
		n.t.Fatal(err)
	}
	return got
}

// A saga that panics while its start is being committed has started, and its client gets that
// reply.
func TestBreaksDuringItsStart(t *testing.T) {
	b := newBench(t, oneCall)
	boom := &bomb{}
	b.def = boom.compile(t, "saga: x\nsteps:\n  - {id: nap, sleep: 10ms}\n  - {id: boom, bomb: 1}\n")
	boom.armed.Store(true)
	b.lease("n1")
	id := b.start()
	b.now = b.now.Add(time.Second)
	b.handle(engine.Tick{})
	answer := b.append()
	b.handle(answer)
	got := take[engine.Replied](b)
	if len(got) != 1 || got[0].Err != nil || got[0].ID != id || len(b.records(id)) == 0 {
		t.Fatalf("replied %+v, want one start of %s with %d records", got, id, len(b.records(id)))
	}
	b.handle(b.append())
	if h, err := b.store.Saga(t.Context(), id); err != nil || h.Owner != "" || b.lane.Len() != 0 {
		t.Errorf("owner %q, %v, %d in the lane; want it given up", h.Owner, err, b.lane.Len())
	}
}

func (b *bench) records(id uuid.UUID) []journal.Record {
	b.t.Helper()
	got, err := b.store.Records(b.t.Context(), id, 0, 1000)
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}

// A saga that continues after quarantine, with a long wait in memory, is no longer shown as stuck.
func TestRowAfterQuarantine(t *testing.T) {
	b := &bomb{}
	def := b.compile(t, "saga: poison\nsteps:\n  - {id: nap, sleep: 10ms}\n  - {id: boom, bomb: 1, timeout: 1h}\n")
	b.armed.Store(true)
	calls := make(chan struct{})
	release := closer(t, calls)
	n := startNode(t, stores(t)["memory"](t), definitions{"poison": def}, func(c *engine.Config) {
		c.Callers, c.Log = map[string]engine.Caller{"bomb": callerFunc(func(ctx context.Context, _ saga.Request) saga.Answer {
			<-calls
			return saga.Answer{Sent: true, Status: 200}
		})}, nil
	})
	id := n.start(def, "null", nil)
	n.head(id, "set aside", func(h journal.Head) bool { return h.Owner == "" && !h.WakeAt.IsZero() })
	n.command(id, saga.Resume{})
	n.exhaust(id)
	b.armed.Store(false)
	n.command(id, saga.Resume{})
	n.head(id, "running", func(h journal.Head) bool { return h.Status == string(saga.Running) && h.Owner != "" && h.Claims == 0 })
	release()
	n.ended(def, id, saga.Succeeded)
}

// closer returns a function that closes c once. It is called at the end of the test at the latest.
func closer(t *testing.T, c chan struct{}) func() {
	var closed atomic.Bool
	do := func() {
		if !closed.Swap(true) {
			close(c)
		}
	}
	t.Cleanup(do)
	return do
}

// A node does not change a saga that it cannot read. A node that can read it continues it.
func TestUnreadableUntilUpgraded(t *testing.T) {
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			t.Cleanup(func() { _ = store.Close() })
			def := compile(t, "saga: x\nsteps:\n  - {id: nap, sleep: 1h}\n  - {id: a, http: \"POST http://w/a\"}\n")
			old := &brokenDefinitions{definitions: definitions{"x": def}}
			n := startNode(t, store, nil, func(c *engine.Config) { c.Definitions, c.Log = old, nil })
			id := n.start(def, "null", nil)
			n.head(id, "parked", func(h journal.Head) bool { return h.Owner == "" })
			before := n.records(id)
			old.broken.Store(true)
			n.command(id, saga.Cancel{})
			n.exhaust(id)
			if got := n.records(id); len(got) != len(before) {
				t.Fatalf("%d records, want the %d from before", len(got), len(before))
			}
			n.stop()
			upgraded := startNode(t, store, definitions{"x": def}, nil)
			upgraded.head(id, "still in quarantine", journal.Head.Quarantined)
			upgraded.command(id, saga.Resume{})
			m := upgraded.ended(def, id, saga.Compensated) // by the cancel, which waited for it
			if m == nil {
				return
			}
			if h := upgraded.head(id, "ended", func(h journal.Head) bool { return !h.EndedAt.IsZero() }); h.Claims != 0 {
				t.Errorf("%d claims after it continued, want 0", h.Claims)
			}
		})
	}
}

// panicky returns definitions, and panics once it is armed.
type panicky struct {
	definitions
	armed atomic.Bool
}

func (d *panicky) Of(ctx context.Context, start *saga.StartedData) (*saga.Definition, error) {
	if d.armed.Load() {
		panic("a bug")
	}
	return d.definitions.Of(ctx, start)
}

// A definition that makes our own code panic affects no other saga.
func TestPanicOverADefinition(t *testing.T) {
	def := compile(t, "saga: x\nsteps:\n  - {id: nap, sleep: 1h}\n")
	d := &panicky{definitions: definitions{"x": def}}
	n := startNode(t, stores(t)["memory"](t), nil, func(c *engine.Config) { c.Definitions, c.Log = d, nil })
	id := n.start(def, "null", nil)
	n.head(id, "parked", func(h journal.Head) bool { return h.Owner == "" })
	d.armed.Store(true)
	n.command(id, saga.Pause{})
	n.exhaust(id)
	d.armed.Store(false)
	n.command(id, saga.Cancel{})
	n.ended(def, id, saga.Compensated)
}

// If a caller panics, its request may have been sent, so it is in doubt. The node continues.
func TestCallerThatPanics(t *testing.T) {
	def := compile(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", in_doubt: ask}\n")
	n := startNode(t, stores(t)["memory"](t), definitions{"x": def}, func(c *engine.Config) {
		c.Log = nil
		c.Callers = map[string]engine.Caller{"http": callerFunc(func(context.Context, saga.Request) saga.Answer { panic("a bug") })}
	})
	id := n.start(def, "null", nil)
	_, records := n.await(def, id, "stuck", func(m *machine.Machine) bool { return m.Status() == saga.Stuck })
	if last := records[len(records)-1]; last.Kind != journal.Outcome || last.Class != journal.InDoubt {
		t.Errorf("the last record is %s %s, want an outcome in doubt", last.Kind, last.Class)
	}
}
