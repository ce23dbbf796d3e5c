package client_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/catalog"
	"recourse/engine"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/kinds"
	"recourse/saga/kinds/run/client"
	"recourse/saga/machine"
)

// world answers every request with 200, and keeps them.
type world struct {
	mu   sync.Mutex
	seen []string
	stop map[string]bool // URLs that are refused
}

func (w *world) Call(_ context.Context, r saga.Request) saga.Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := strings.TrimPrefix(r.URL, "http://w/")
	if w.stop[r.Method+" "+at] {
		return saga.Answer{Sent: true, Status: 422}
	}
	w.seen = append(w.seen, r.Method+" "+at)
	return saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(`{"id":"` + at + `"}`)}
}

func (w *world) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// rig is a node over a store that outlives it.
type rig struct {
	t       *testing.T
	store   journal.Store
	catalog *catalog.Catalog
	world   *world
	engine  *engine.Engine
	stop    func()
}

func newRig(t *testing.T, definitions ...string) *rig {
	t.Helper()
	r := &rig{t: t, store: memory.New(memory.Config{}), world: &world{stop: map[string]bool{}}}
	r.catalog = catalog.New(r.store, catalog.Options{Kinds: kinds.All()})
	for _, src := range definitions {
		if _, _, _, err := r.catalog.Publish(t.Context(), name(src), []byte(src), ""); err != nil {
			t.Fatal(err)
		}
	}
	r.boot()
	t.Cleanup(func() { r.stop() })
	return r
}

func name(src string) string {
	_, rest, _ := strings.Cut(src, "saga: ")
	name, _, _ := strings.Cut(rest, "\n")
	return name
}

func (r *rig) boot() {
	r.t.Helper()
	caller := &client.Caller{Sagas: r.store, Definitions: r.catalog}
	r.engine = engine.New(engine.Config{Store: r.store, Definitions: r.catalog, Callers: map[string]engine.Caller{"http": r.world, "run": caller}, Poll: 10 * time.Millisecond, Lease: 2 * time.Second})
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

func (r *rig) start(name, input string) uuid.UUID {
	r.t.Helper()
	doc, def, err := r.catalog.Newest(r.t.Context(), name)
	if err != nil {
		r.t.Fatal(err)
	}
	data, _, wrong := machine.Begin(def, machine.StartOptions{Version: doc.Version, Input: json.RawMessage(input)})
	if wrong != nil {
		r.t.Fatal(wrong)
	}
	begun, err := r.engine.Start(r.t.Context(), def, journal.Start{Definition: name, Version: doc.Version, SHA256: def.SHA256}, data, false)
	if err != nil {
		r.t.Fatal(err)
	}
	return begun.ID
}

// await waits until a saga is as it should be.
func (r *rig) await(id uuid.UUID, what string, ok func(*machine.Machine) bool) *machine.Machine {
	r.t.Helper()
	var m *machine.Machine
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		m = r.machine(id)
		if m != nil && ok(m) {
			return m
		}
	}
	r.t.Fatalf("saga %s is never %s: it is %s, %+v; the world saw %q", id, what, m.Status(), m.Reason(), r.world.requests())
	return nil
}

func (r *rig) machine(id uuid.UUID) *machine.Machine {
	r.t.Helper()
	head, err := r.store.Saga(r.t.Context(), id)
	if err != nil {
		return nil
	}
	def, err := r.catalog.Definition(r.t.Context(), head.Definition, head.Version)
	if err != nil {
		r.t.Fatal(err)
	}
	records, err := r.store.Records(r.t.Context(), id, 0, 10_000)
	if err != nil {
		r.t.Fatal(err)
	}
	m, err := machine.Replay(def, id, records)
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

func (r *rig) ends(id uuid.UUID, want saga.Status) *machine.Machine {
	r.t.Helper()
	m := r.await(id, "at its end", func(m *machine.Machine) bool { return m.Status().Terminal() })
	if m.Status() != want {
		r.t.Fatalf("saga %s of %s ended as %s, want %s: %+v, %v; the world saw %q", id, m.Definition().Name, m.Status(), want, m.Reason(), m.Residual(), r.world.requests())
	}
	return m
}

// family lists all sagas but one, by definition.
func (r *rig) children(of uuid.UUID) map[string]uuid.UUID {
	r.t.Helper()
	found, err := r.store.Sagas(r.t.Context(), journal.Filter{Limit: 100})
	if err != nil {
		r.t.Fatal(err)
	}
	out := make(map[string]uuid.UUID)
	for _, h := range found.Heads {
		if h.ID != of {
			out[h.Definition] = h.ID
		}
	}
	return out
}

const (
	child = `
saga: child
input: {n: integer}
steps:
  - {id: a, http: "POST http://w/child/a", body: {n: "${input.n}"}, compensate: {http: "DELETE http://w/child/a"}}
  - {id: nap, sleep: 1s}
  - {id: b, http: "POST http://w/child/b", body: {}, compensate: {http: "DELETE http://w/child/b"}}
output: ${steps.b.output.id} for ${input.n}
`
	parent = `
saga: parent
steps:
  - {id: before, http: "POST http://w/parent/before", body: {}, compensate: {http: "DELETE http://w/parent/before"}}
  - {id: sub, run: child, input: {n: 7}}
  - {id: after, http: "POST http://w/parent/after", body: {sub: "${steps.sub.output}"}, compensate: {http: "DELETE http://w/parent/after"}}
`
	grandparent = `
saga: grandparent
steps:
  - {id: mid, run: parent}
  - {id: last, http: "POST http://w/last", body: {}}
`
)

func TestChildSucceeds(t *testing.T) {
	r := newRig(t, child, parent)
	id := r.start("parent", "null")
	m := r.ends(id, saga.Succeeded)
	kid := r.children(id)["child"]
	c := r.ends(kid, saga.Succeeded)
	if got := string(c.View().Output); got != `"child/b for 7"` {
		t.Errorf("the child's output is %s", got)
	}
	head, err := r.store.Saga(t.Context(), kid)
	if err != nil || head.Parent != id {
		t.Errorf("the child's parent is %s, %v", head.Parent, err)
	}
	if m.At().After(c.At()) {
		t.Error("the child had ended before its parent")
	}
}

func TestParentFails(t *testing.T) {
	r := newRig(t, child, parent, grandparent)
	r.world.stop["POST last"] = true
	id := r.start("grandparent", "null")
	r.ends(id, saga.Compensated)
	for name, kid := range r.children(id) {
		r.ends(kid, saga.Compensated)
		_ = name
	}
	want := []string{"POST parent/before", "POST child/a", "POST child/b", "POST parent/after", "DELETE parent/after", "DELETE child/b", "DELETE child/a", "DELETE parent/before"}
	if got := r.world.requests(); !slices.Equal(got, want) {
		t.Errorf("the world saw\n%q, want\n%q", got, want)
	}
}

func TestChildFails(t *testing.T) {
	r := newRig(t, child, parent)
	r.world.stop["POST child/b"] = true
	id := r.start("parent", "null")
	m := r.ends(id, saga.Compensated)
	r.ends(r.children(id)["child"], saga.Compensated)
	if m.Reason().Step != "sub" || m.Reason().Code != "step_failed" {
		t.Errorf("reason %+v", m.Reason())
	}
	want := []string{"POST parent/before", "POST child/a", "DELETE child/a", "DELETE parent/before"}
	if got := r.world.requests(); !slices.Equal(got, want) {
		t.Errorf("the world saw %q, want %q", got, want)
	}
}

func TestCancelGoesDown(t *testing.T) {
	r := newRig(t, child, parent, grandparent)
	id := r.start("grandparent", "null")
	var kid uuid.UUID
	r.await(id, "two deep", func(*machine.Machine) bool {
		kid = r.children(id)["child"]
		m := r.machine(kid)
		return m != nil && m.Status() == saga.Waiting
	})
	data, _ := json.Marshal(saga.Command{Do: saga.Cancel{}, Reason: "enough"})
	if err := r.engine.Send(t.Context(), journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: id, Kind: "command", Data: data}); err != nil {
		t.Fatal(err)
	}
	r.ends(id, saga.Compensated)
	r.ends(kid, saga.Compensated)
	r.ends(r.children(id)["parent"], saga.Compensated)
}

// The node dies, or stops, at any time: the family continues, and every child runs once.
func TestRestarts(t *testing.T) {
	r := newRig(t, child, parent, grandparent)
	r.world.stop["POST last"] = true
	id := r.start("grandparent", "null")
	for range 12 {
		time.Sleep(60 * time.Millisecond)
		r.stop()
		r.boot()
	}
	r.ends(id, saga.Compensated)
	if kids := r.children(id); len(kids) != 2 {
		t.Errorf("%d children, want 2", len(kids))
	}
	seen := r.world.requests()
	slices.Sort(seen)
	if want := 8; len(slices.Compact(seen)) != want || len(seen) != want {
		t.Errorf("the world saw %q", seen)
	}
}

func TestRefused(t *testing.T) {
	r := newRig(t, "saga: wrong\nsteps:\n  - {id: sub, run: child, input: {n: x}}\n", child, "saga: missing\nsteps:\n  - {id: sub, run: nobody}\n", "saga: itself\nsteps:\n  - {id: sub, run: itself}\n",
		"saga: old\nsteps:\n  - {id: sub, run: child@v9}\n")
	for name, code := range map[string]string{"wrong": "invalid_start", "missing": "definition_not_found", "old": "definition_not_found", "itself": "step_failed"} {
		m := r.ends(r.start(name, "null"), saga.Compensated)
		if m.Reason().Error != code {
			t.Errorf("%s: reason %+v, want %s", name, m.Reason(), code)
		}
	}
}
