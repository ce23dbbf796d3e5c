package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/kinds/run/client"
	"recourse/saga/machine"
)

// lossy starts the child, and loses the answer, so many times.
type lossy struct {
	next engine.Caller
	left atomic.Int64
}

func (l *lossy) Call(ctx context.Context, r saga.Request) saga.Answer {
	a := l.next.Call(ctx, r)
	if l.left.Add(-1) >= 0 {
		return saga.Answer{Sent: true, Code: "connection", Detail: "lost"}
	}
	return a
}

// blind cannot read sagas, so many times.
type blind struct {
	client.Sagas
	left atomic.Int64
}

func (b *blind) Saga(ctx context.Context, id uuid.UUID) (journal.Head, error) {
	if b.left.Add(-1) >= 0 {
		return journal.Head{}, errors.New("the database does not answer")
	}
	return b.Sagas.Saga(ctx, id)
}

func (r *rig) bootWith(sagas client.Sagas, wrap func(engine.Caller) engine.Caller) {
	r.t.Helper()
	caller := &client.Caller{Sagas: sagas, Definitions: r.catalog}
	r.engine = engine.New(engine.Config{Store: r.store, Definitions: r.catalog, Callers: map[string]engine.Caller{"http": r.world, "run": wrap(caller)}, Poll: 10 * time.Millisecond, Lease: 2 * time.Second})
	caller.Engine = r.engine
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.engine.Run(ctx) }()
	for !r.engine.Ready() {
		time.Sleep(time.Millisecond)
	}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	})
}

// both waits until a saga and its child have ended.
func (r *rig) both(id uuid.UUID) (of, child saga.Status) {
	r.t.Helper()
	over := func(m *machine.Machine) bool { return m.Status().Terminal() }
	of = r.await(id, "at its end", over).Status()
	return of, r.await(r.children(id)["child"], "at its end", over).Status()
}

func lossyRig(t *testing.T, n int64, definitions ...string) *rig {
	r := newRig(t, definitions...)
	r.stop()
	r.bootWith(r.store, func(c engine.Caller) engine.Caller { l := &lossy{next: c}; l.left.Store(n); return l })
	return r
}

// The start's answer is lost, the parent fails at once: its child, which is still at work, is
// undone.
func TestRevertAtWork(t *testing.T) {
	r := lossyRig(t, 1, child, "saga: p1\nsteps:\n  - {id: sub, run: child, input: {n: 1}, retry: none}\n")
	r.both(r.start("p1", "null"))
}

// The same, and the parent continues without the step: the child is undone, as nothing counts on
// it.
func TestContinues(t *testing.T) {
	for name, steps := range map[string]string{
		"a step":       "  - {id: sub, run: child, input: {n: 1}, retry: none, on_error: continue}\n",
		"an iteration": "  - id: each\n    foreach: [1]\n    on_item_error: collect\n    steps:\n      - {id: sub, run: child, input: {n: \"${item}\"}, retry: none}\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := lossyRig(t, 1, child, "saga: p2\nsteps:\n"+steps)
			if of, kid := r.both(r.start("p2", "null")); of != saga.Succeeded || kid != saga.Compensated {
				t.Errorf("the parent is %s, the child %s", of, kid)
			}
		})
	}
}

// A start that comes after its parent's end is refused for good: nobody would tell the child what
// becomes of it.
func TestParentEnded(t *testing.T) {
	r := newRig(t, child, "saga: over\nsteps: [{id: a, set: 1}]\n")
	id := r.start("over", "null")
	r.ends(id, saga.Succeeded)
	kid := uuid.Must(uuid.NewV7()).String()
	c := &client.Caller{Engine: r.engine, Sagas: r.store, Definitions: r.catalog}
	a := c.Call(t.Context(), saga.Request{Child: &saga.ChildRequest{Definition: "child", Input: json.RawMessage(`{"n":1}`), Saga: kid, Parent: id.String(), Path: "sub", Depth: 1}})
	if a.Sent || a.Code != "parent_ended" || !a.Final {
		t.Errorf("answer %+v", a)
	}
	if kids := r.children(id); len(kids) > 0 {
		t.Errorf("it was started all the same: %v", kids)
	}
}

// A start whose unique value is too long for the stores' indexes is refused for good, as the API
// refuses it.
func TestLongUnique(t *testing.T) {
	r := newRig(t, "saga: only\ninput: {k: string}\nunique: ${input.k}\nsteps: [{id: a, set: 1}]\n")
	c := &client.Caller{Engine: r.engine, Sagas: r.store, Definitions: r.catalog}
	a := c.Call(t.Context(), saga.Request{Child: &saga.ChildRequest{Definition: "only", Input: json.RawMessage(`{"k":"` + strings.Repeat("k", 1024) + `"}`),
		Saga: uuid.Must(uuid.NewV7()).String(), Parent: uuid.Must(uuid.NewV7()).String(), Path: "sub", Depth: 1}})
	if a.Sent || a.Code != "invalid_start" || !a.Final || !strings.Contains(a.Detail, "1026 bytes") {
		t.Errorf("answer %+v", a)
	}
}

// After a restart the child cannot be read for a moment: that does not mean that it was not
// started.
func TestBlind(t *testing.T) {
	r := newRig(t, child, "saga: p3\nsteps:\n  - id: both\n    parallel:\n      - {id: sub, run: child, input: {n: 1}, retry: none}\n      - {id: other, sleep: 500ms}\n")
	id := r.start("p3", "null")
	r.await(id, "started", func(*machine.Machine) bool {
		m := r.machine(r.children(id)["child"])
		return m != nil && m.Status() == saga.Waiting
	})
	r.stop()
	b := &blind{Sagas: r.store}
	b.left.Store(1)
	r.bootWith(b, func(c engine.Caller) engine.Caller { return c })
	a, k := r.both(id)
	if a == saga.Compensated && k != saga.Compensated {
		t.Errorf("the parent is %s, the child %s", a, k)
	}
}

// The child ends as failed: the parent ends too, or waits for a person.
func TestChildNotUndone(t *testing.T) {
	r := newRig(t, "saga: child\non_failure: stop\nsteps:\n  - {id: a, http: \"POST http://w/a\", body: {}, compensate: none}\n  - {id: b, http: \"POST http://w/b\", body: {}, compensate: none}\n",
		"saga: p4\nsteps:\n  - {id: sub, run: child, retry: none}\n")
	r.world.stop["POST b"] = true
	id := r.start("p4", "null")
	r.await(id, "stuck", func(m *machine.Machine) bool { return m.Status() == saga.Stuck })
}

// The message that reverts a child could not be left: it is left again.
func TestRevertDoubt(t *testing.T) {
	r := newRig(t, child, parent)
	r.world.stop["POST parent/after"] = true
	r.stop()
	r.bootWith(r.store, func(c engine.Caller) engine.Caller { return revertLost{c} })
	id := r.start("parent", "null")
	r.ends(id, saga.Compensated)
}

type revertLost struct{ next engine.Caller }

var lost atomic.Int64

func (l revertLost) Call(ctx context.Context, r saga.Request) saga.Answer {
	if r.Child.Revert && lost.Add(1) == 1 {
		return saga.Answer{Sent: true, Code: "connection", Detail: "the database did not answer"}
	}
	return l.next.Call(ctx, r)
}

// fails is an engine whose starts fail with an error.
type fails struct{ err error }

func (f fails) StartChild(context.Context, uuid.UUID, *saga.Definition, journal.Start, saga.StartedData) error {
	return f.err
}
func (fails) Send(context.Context, journal.Message) error { return nil }

// A child whose start may still fail is not taken for started: nobody would ever tell of it. One
// whose start may be durable is not taken for one that surely was not started.
func TestStartInDoubt(t *testing.T) {
	r := newRig(t, "saga: kid\nsteps: [{id: a, set: 1}]\n")
	for _, tt := range []struct {
		name string
		err  error
		sent bool
	}{
		{"a start in flight", journal.ErrConflict, true},
		{"one that may be durable", fmt.Errorf("%w: %w", saga.ErrUnavailable, journal.ErrUnknown), true},
		{"one that is not", saga.ErrUnavailable, false},
	} {
		c := &client.Caller{Engine: fails{tt.err}, Sagas: r.store, Definitions: r.catalog}
		id := uuid.Must(uuid.NewV7()).String()
		a := c.Call(t.Context(), saga.Request{Child: &saga.ChildRequest{Definition: "kid", Saga: id, Parent: id, Path: "a", Depth: 1}})
		if a.Code == saga.Spawned || a.Sent != tt.sent {
			t.Errorf("%s: %+v", tt.name, a)
		}
	}
}
