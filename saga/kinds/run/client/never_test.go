package client_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/kinds/run/client"
	"recourse/saga/machine"
)

// unheard loses starts on their way, and keeps the last of them.
type unheard struct {
	next engine.Caller
	lost atomic.Pointer[saga.Request]
}

func (u *unheard) Call(ctx context.Context, r saga.Request) saga.Answer {
	if r.Child != nil && !r.Child.Revert {
		u.lost.Store(&r)
		return saga.Answer{Sent: true, Code: "connection", Detail: "lost"}
	}
	return u.next.Call(ctx, r)
}

func unheardRig(t *testing.T, definitions ...string) (*rig, *unheard) {
	r, u := newRig(t, definitions...), &unheard{}
	r.stop()
	r.bootWith(r.store, func(c engine.Caller) engine.Caller { u.next = c; return u })
	return r, u
}

// undone returns the outcome of a step's undo; nil: there is none.
func (r *rig) undone(id uuid.UUID, path string) *saga.OutcomeData {
	r.t.Helper()
	records, err := r.store.Records(r.t.Context(), id, 0, 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, rec := range records {
		if rec.Kind == journal.Outcome && rec.Path == path && rec.Way == journal.Undo {
			var d saga.OutcomeData
			if err := json.Unmarshal(rec.Data, &d); err != nil {
				r.t.Fatal(err)
			}
			return &d
		}
	}
	return nil
}

// The response to a child's start is lost, and the store has no such child: the parent is undone
// without a person, and its journal says so.
func TestNeverStarted(t *testing.T) {
	r, u := unheardRig(t, child, "saga: p\nsteps:\n  - {id: a, http: \"POST http://w/a\", body: {}, compensate: {http: \"DELETE http://w/a\"}}\n  - {id: sub, run: child, input: {n: 1}, retry: none}\n")
	id := r.start("p", "null")
	m := r.ends(id, saga.Compensated)
	kid := u.lost.Load().Child.Saga
	if d := r.undone(id, "sub"); d == nil || d.NeverStarted != kid {
		t.Errorf("the undo says %+v", d)
	}
	// These go with its last record, as the child would need them after a split.
	list := m.Messages(journal.Record{Kind: journal.Finished})
	if len(list) != 1 || list[0].Saga.String() != kid || !strings.Contains(string(list[0].Data), `"revert"`) {
		t.Errorf("with its end it sends %v", list)
	}
	if got, want := r.world.requests(), []string{"POST a", "DELETE a"}; !slices.Equal(got, want) {
		t.Errorf("the world saw %q, want %q", got, want)
	}
}

// A start that is late, and arrives when its parent has found that there is no child, is refused
// for good.
func TestStartAfterTheLook(t *testing.T) {
	r, u := unheardRig(t, child, "saga: p\nsteps:\n  - {id: a, http: \"POST http://w/a\", body: {}, compensate: {http: \"DELETE http://w/a\"}}\n  - {id: sub, run: child, input: {n: 1}, retry: none}\n")
	r.world.stop["DELETE a"] = true
	id := r.start("p", "null")
	r.await(id, "stuck", func(m *machine.Machine) bool { return m.Status() == saga.Stuck })
	if d := r.undone(id, "sub"); d == nil || d.NeverStarted == "" {
		t.Fatalf("the undo says %+v", d)
	}
	if a := u.next.Call(t.Context(), *u.lost.Load()); a.Sent || a.Code != "parent_ended" || !a.Final {
		t.Errorf("answer %+v", a)
	}
	if kids := r.children(id); len(kids) > 0 {
		t.Errorf("it was started all the same: %v", kids)
	}
}

// A child of a step of `finally` starts although its parent is being undone.
func TestFinalChild(t *testing.T) {
	r := newRig(t, "saga: kid\nsteps: [{id: a, http: \"POST http://w/kid\", body: {}, compensate: none}]\n",
		"saga: p\nsteps:\n  - {id: a, http: \"POST http://w/a\", body: {}, compensate: {http: \"DELETE http://w/a\"}}\n  - {id: no, fail: x}\nfinally:\n  - id: both\n    parallel: [{id: last, run: kid}]\n")
	r.ends(r.start("p", "null"), saga.Compensated)
	if got, want := r.world.requests(), []string{"POST a", "DELETE a", "POST kid"}; !slices.Equal(got, want) {
		t.Errorf("the world saw %q, want %q", got, want)
	}
}

// forgetful finds no children.
type forgetful struct {
	client.Sagas
	on atomic.Bool
}

func (f *forgetful) Saga(ctx context.Context, id uuid.UUID) (journal.Head, error) {
	head, err := f.Sagas.Saga(ctx, id)
	if f.on.Load() && err == nil && !head.Parent.IsNil() {
		return journal.Head{}, journal.ErrNotFound
	}
	return head, err
}

// A child that reported its success to its parent, and is not found, did exist: a person has to
// check.
func TestChildIsGone(t *testing.T) {
	r := newRig(t, child, parent)
	r.world.stop["POST parent/after"] = true
	r.stop()
	f := &forgetful{Sagas: r.store}
	f.on.Store(true)
	r.bootWith(f, func(c engine.Caller) engine.Caller { return c })
	m := r.await(r.start("parent", "null"), "stuck", func(m *machine.Machine) bool { return m.Status() == saga.Stuck })
	if in := m.Inbox(); len(in) != 1 || in[0].Path != "sub" || in[0].Way != journal.Undo {
		t.Errorf("the inbox has %+v", in)
	}
	f.on.Store(false)
}

// second loses the first start, and delays the others until it may let them through.
type second struct {
	next    engine.Caller
	starts  atomic.Int64
	arrived chan struct{}
	through chan struct{}
}

func (s *second) Call(ctx context.Context, r saga.Request) saga.Answer {
	if r.Child == nil || r.Child.Revert {
		return s.next.Call(ctx, r)
	}
	switch s.starts.Add(1) {
	case 1:
		return saga.Answer{Sent: true, Code: "connection", Detail: "lost"}
	case 2:
		close(s.arrived)
	}
	<-s.through
	return s.next.Call(ctx, r)
}

// A repeated start is refused because the parent was cancelled meanwhile. That settles the doubt
// about the first one: nothing is undone, and nobody is asked, also if the compensation needs the
// child's output.
func TestRefusalSettles(t *testing.T) {
	r := newRig(t, child, "saga: p\nsteps:\n  - {id: sub, run: child, input: {n: 1}, retry: {initial: 1ms, attempts: 3}, compensate: {http: \"DELETE http://w/sub/${output}\", on: [succeeded, in_doubt]}}\n")
	s := &second{arrived: make(chan struct{}), through: make(chan struct{})}
	r.stop()
	r.bootWith(r.store, func(c engine.Caller) engine.Caller { s.next = c; return s })
	id := r.start("p", "null")
	<-s.arrived
	data, err := json.Marshal(saga.Command{Do: saga.Cancel{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.engine.Send(t.Context(), journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: id, Kind: "command", Data: data}); err != nil {
		t.Fatal(err)
	}
	r.await(id, "cancelled", func(*machine.Machine) bool {
		head, err := r.store.Saga(t.Context(), id)
		return err == nil && head.Reason != ""
	})
	close(s.through)
	r.ends(id, saga.Compensated)
	if d := r.undone(id, "sub"); d != nil {
		t.Errorf("it was undone: %+v", d)
	}
	if kids := r.children(id); len(kids) > 0 {
		t.Errorf("it was started all the same: %v", kids)
	}
}
