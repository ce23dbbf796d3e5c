// Package rig runs nodes, their clients and a remote service in one process, for tests of faults.
// At the end it checks the journals against the ledger of the service.
package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/api"
	"recourse/catalog"
	"recourse/engine"
	"recourse/examples/world"
	"recourse/internal/egress"
	"recourse/internal/invariant"
	"recourse/internal/test/buffer"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	httpclient "recourse/saga/kinds/http/client"
)

// Two sagas that send, wait and send: one succeeds, the other fails at its end and is undone.
const books = `saga: books
steps:
  - id: flight
    http: POST ${vars.air}/bookings
    body: {route: HAM-LIS, date: "2026-12-24", passenger: p}
    timeout: 2s
    retry: {attempts: 60, initial: 20ms, max: 500ms}
    compensate: {http: "DELETE ${vars.air}/bookings/${output.id}", timeout: 2s, retry: {initial: 20ms, max: 500ms}}
  - {id: nap, sleep: 50ms}
  - id: charge
    http: POST ${vars.pay}/charges
    body: {amount: "${steps.flight.output.price}"}
    timeout: 2s
    retry: {attempts: 60, initial: 20ms, max: 500ms}
    compensate: {http: "POST ${vars.pay}/charges/${output.id}/refund", timeout: 2s, retry: {initial: 20ms, max: 500ms}}
`

var fails = strings.Replace(books, "saga: books", "saga: fails", 1) + `  - id: enough
    fail: no seats left after all
`

// ends are how sagas of these definitions are to end.
var ends = map[string]saga.Status{"books": saga.Succeeded, "fails": saga.Compensated}

// System is a world, a database, and nodes between them.
type System struct {
	t     *testing.T
	world *world.Server
	store journal.Store // by a wire that is whole
	vars  map[string]json.RawMessage
	nodes []*Node

	mu     sync.Mutex
	starts []invariant.Start // acknowledged
}

// Node is an engine and its API.
type Node struct {
	Engine *engine.Engine
	URL    string // of the API
	Stop   func() // may be called twice
	log    *buffer.Buffer
}

// New publishes the definitions in the nodes' database, which store reaches whatever happens. steps
// is where nodes find the world; "" is its own address.
func New(t *testing.T, store journal.Store, w *world.Server, steps string) *System {
	t.Helper()
	if steps == "" {
		steps = w.URL
	}
	sys := &System{t: t, world: w, store: store, vars: map[string]json.RawMessage{}}
	for _, name := range []string{"air", "pay"} {
		sys.vars[name] = json.RawMessage(`"` + steps + "/" + name + `"`)
	}
	cat := catalog.New(store, catalog.Options{Kinds: kinds.All()})
	for _, source := range []string{books, fails} {
		if _, _, _, err := cat.Publish(t.Context(), strings.Fields(source)[1], []byte(source), ""); err != nil {
			t.Fatal(err)
		}
	}
	return sys
}

// World starts a world that ends with the test.
func World(t *testing.T, cfg world.Config) *world.Server {
	t.Helper()
	w, err := world.New(cfg).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// Add starts a node on a store and waits until it is ready. The times and numbers in cfg hold, but
// for Drain and Poll.
func (sys *System) Add(store journal.Store, cfg engine.Config) *Node {
	t := sys.t
	t.Helper()
	guard, err := egress.NewGuard([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	caller := httpclient.New(httpclient.Config{Egress: egress.Config{Guard: guard}})
	n := &Node{log: new(buffer.Buffer)}
	log := slog.New(slog.NewTextHandler(n.log, nil))
	cat := catalog.New(store, catalog.Options{Kinds: kinds.All(), Vars: sys.vars})
	cfg.Store, cfg.Definitions, cfg.Callers, cfg.Log = store, cat, map[string]engine.Caller{"http": caller}, log
	cfg.Drain, cfg.Poll = 2*time.Second, 20*time.Millisecond
	n.Engine = engine.New(cfg)
	ctx, stop := context.WithCancel(context.Background())
	ended, done := make(chan error, 1), make(chan struct{})
	go func() { ended <- n.Engine.Run(ctx) }()
	srv := httptest.NewServer(api.New(api.Config{Store: store, Catalog: cat, Engine: n.Engine, Vars: sys.vars, Log: log, Done: done,
		Limits: api.Limits{Request: 3 * time.Second, Command: time.Second, Poll: 20 * time.Millisecond}}))
	n.URL = srv.URL
	n.Stop = sync.OnceFunc(func() {
		close(done)
		stop()
		srv.CloseClientConnections()
		srv.Close()
		if err := <-ended; err != nil {
			t.Errorf("engine: %v", err)
		}
		caller.Close()
	})
	t.Cleanup(func() {
		n.Stop()
		if t.Failed() {
			t.Logf("the log of %s:\n%.60000s", n.URL, n.log)
		}
	})
	Until(t, "the node is ready", n.Engine.Ready)
	sys.nodes = append(sys.nodes, n)
	return n
}

// Until waits for something to hold, and fails the test if it does not within a minute.
func Until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// Settle waits until every saga has ended, and returns what is wrong.
func (sys *System) Settle() (wrong []string) {
	sys.t.Helper()
	var heads []journal.Head
	Until(sys.t, "all sagas have ended", func() bool {
		found, err := sys.store.Sagas(sys.t.Context(), journal.Filter{Limit: 10_000})
		if err != nil {
			return false
		}
		heads = found.Heads
		live := 0
		for _, h := range heads {
			if h.EndedAt.IsZero() {
				live++
			}
		}
		return live == 0
	})
	return sys.check(heads)
}

// check compares the journals with the ledger and with the responses that clients got.
func (sys *System) check(heads []journal.Head) (wrong []string) {
	defs := make(map[string]*saga.Definition)
	for _, source := range []string{books, fails} {
		def, errs := dsl.Parse("rig", []byte(source), dsl.Options{Kinds: kinds.All()})
		if errs != nil {
			sys.t.Fatal(errs)
		}
		defs[def.Name] = def
	}
	sys.mu.Lock()
	starts := sys.starts
	sys.mu.Unlock()
	ledger := sys.world.Ledger()
	c := invariant.New(invariant.Config{Ledger: invariant.OfWorld(ledger), Clock: sys.nodes[0].Engine.Now().Add(-time.Second), OneProgram: true, Starts: starts})
	for _, h := range heads {
		if got, want := saga.Status(h.Status), ends[h.Definition]; got != want {
			wrong = append(wrong, fmt.Sprintf("%s %s ended as %s, want %s: %s", h.Definition, h.ID, got, want, h.Reason))
		}
		records, err := sys.store.Records(sys.t.Context(), h.ID, 0, 10_000)
		if err != nil {
			sys.t.Fatal(err)
		}
		c.Add(c.Check(invariant.Saga{ID: h.ID, Definition: defs[h.Definition], Head: &h, Records: records}))
	}
	for _, v := range c.End() {
		wrong = append(wrong, v.String())
	}
	for key, n := range ledger.EffectsByKey() {
		if n != 1 {
			wrong = append(wrong, fmt.Sprintf("%d effects under key %s", n, key))
		}
	}
	return wrong
}

// Acknowledged is how many starts were acknowledged so far.
func (sys *System) Acknowledged() int {
	sys.mu.Lock()
	defer sys.mu.Unlock()
	return len(sys.starts)
}

// Any is a saga that was started.
func (sys *System) Any() uuid.UUID {
	sys.mu.Lock()
	defer sys.mu.Unlock()
	return sys.starts[0].ID
}

// MustSettle fails the test unless all is right, and unless there was something to go wrong.
func (sys *System) MustSettle() {
	sys.t.Helper()
	for _, w := range sys.Settle() {
		sys.t.Error(w)
	}
	if n := sys.Acknowledged(); n < 4 {
		sys.t.Errorf("only %d sagas were started", n)
	}
}
