package linearizability_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"recourse/api"
	"recourse/catalog"
	"recourse/engine"
	"recourse/internal/test/linearizability"
	"recourse/internal/test/pgserver"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/journal/postgres"
	"recourse/journal/sqlite"
	"recourse/saga"
	"recourse/saga/kinds"
)

// trip has all states that commands can meet: waits, a step that a person resolves, a budget, a
// point of no return.
const trip = `saga: trip
input: {n: integer}
budget: {amount: 5.00 USD}
steps:
  - {id: a, http: "POST http://w.example/a", body: {n: "${input.n}"}, cost: 0.01 USD, timeout: 1s, retry: {initial: 20ms, attempts: 3}, compensate: {http: "DELETE http://w.example/a?key=${key}", timeout: 1s, retry: {initial: 20ms}}}
  - {id: nap, sleep: 150ms}
  - {id: b, http: "POST http://w.example/b", body: {}, cost: 0.01 USD, timeout: 1s, in_doubt: ask, retry: {initial: 20ms, attempts: 2}, compensate: {http: "DELETE http://w.example/b?key=${key}", timeout: 1s, retry: {initial: 20ms}}}
  - {id: rest, sleep: 500ms}
  - {id: c, http: "POST http://w.example/c", body: {}, timeout: 1s, retry: {initial: 20ms, attempts: 3}, pivot: true}
  - {id: d, http: "POST http://w.example/d", body: {}, timeout: 1s, retry: {initial: 20ms, attempts: 3}}
`

// tripSteps are the steps that may need a person.
var tripSteps = []string{"a", "b", "c", "d"}

// others is the remote service: it does what it is asked to; if it is moody, only mostly.
type others struct{ moody bool }

// Call implements engine.Caller.
func (o others) Call(context.Context, saga.Request) saga.Answer {
	pause(4)
	switch n := rand.IntN(100); {
	case !o.moody:
	case n < 6:
		return saga.Answer{Sent: true, Status: 503}
	case n < 12:
		return saga.Answer{Sent: true, Code: "timeout"}
	case n < 16:
		return saga.Answer{Sent: true, Status: 422, Body: json.RawMessage(`{}`)}
	case n < 18:
		return saga.Answer{Sent: true, Status: 401, Body: json.RawMessage(`{}`)}
	}
	return saga.Answer{Sent: true, Status: 201, Body: json.RawMessage(`{"id":"x"}`)}
}

// setup configures a cluster.
type setup struct {
	stores []journal.Store // the store of each place; places may share a store
	others others
	log    io.Writer
	wrap   func(http.Handler) http.Handler // around each node's API; nil: nothing
}

// cluster is a few nodes on one database, all in this process.
type cluster struct {
	t      *testing.T
	faults *faults
	setup
	ended sync.WaitGroup // engines that are stopping

	mu    sync.Mutex
	nodes []*node // by place; nil: none runs there
	count int
}

// node is one life of a node.
type node struct {
	name  string
	store *faulty
	srv   *httptest.Server
	stop  context.CancelFunc
	done  chan struct{} // of the API: waits end
}

// databases open what the histories run on: the number of nodes, and each one's store.
var databases = map[string]func(t *testing.T) []journal.Store{
	"memory": func(*testing.T) []journal.Store {
		s := memory.New(memory.Config{})
		return []journal.Store{s, s, s}
	},
	"sqlite": func(t *testing.T) []journal.Store {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"), sqlite.Options{Migrate: true})
		if err != nil {
			t.Fatal(err)
		}
		return []journal.Store{s}
	},
	"postgres": func(t *testing.T) []journal.Store {
		var out []journal.Store
		dsn := pgserver.DSN(t)
		for range 3 {
			s, err := postgres.Open(t.Context(), dsn, postgres.Options{Migrate: true})
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, s)
		}
		return out
	},
}

func newCluster(t *testing.T, s setup) *cluster {
	c := &cluster{t: t, setup: s, faults: &faults{}, nodes: make([]*node, len(s.stores))}
	t.Cleanup(func() {
		c.faults.on.Store(false)
		for place := range c.nodes {
			c.end(place, true)
		}
		c.ended.Wait()
		c.faults.late.Wait()
		for _, s := range c.stores {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	if _, _, _, err := catalog.New(s.stores[0], catalog.Options{Kinds: kinds.All()}).Publish(t.Context(), "trip", []byte(trip), ""); err != nil {
		t.Fatal(err)
	}
	for place := range c.nodes {
		c.begin(place)
	}
	return c
}

// begin starts a node, and retries while the store refuses.
func (c *cluster) begin(place int) {
	c.mu.Lock()
	c.count++
	n := &node{name: fmt.Sprintf("n%d", c.count), store: &faulty{Store: c.stores[place], faults: c.faults}, done: make(chan struct{})}
	c.mu.Unlock()
	log := slog.New(slog.NewTextHandler(c.log, nil)).With("n", n.name)
	cat := catalog.New(n.store, catalog.Options{Kinds: kinds.All()})
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	for deadline := time.Now().Add(time.Minute); ; {
		eng := engine.New(engine.Config{Store: n.store, Definitions: cat, Callers: map[string]engine.Caller{"http": c.others}, Log: log,
			Lease: time.Second, Drain: 200 * time.Millisecond, Poll: 10 * time.Millisecond, ParkAfter: 50 * time.Millisecond})
		ended := make(chan error, 1)
		c.ended.Go(func() { ended <- eng.Run(ctx) })
		if ready(eng, ended) {
			n.srv = httptest.NewServer(c.handler(api.Config{Store: n.store, Catalog: cat, Engine: eng, Log: log, Done: n.done,
				Limits: api.Limits{Request: 5 * time.Second, Command: time.Second, Poll: 10 * time.Millisecond}}))
			break
		}
		if time.Now().After(deadline) {
			c.t.Errorf("node %s does not start", n.name)
			stop()
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[place] = n
}

// ready waits for an engine to be ready or to end.
func ready(eng *engine.Engine, ended <-chan error) bool {
	for look := time.NewTicker(time.Millisecond); ; {
		if eng.Ready() {
			return true
		}
		select {
		case <-ended: //nolint:errcheck // the checker judges what clients saw
			return false
		case <-look.C:
		}
	}
}

func (c *cluster) handler(cfg api.Config) http.Handler {
	if c.wrap == nil {
		return api.New(cfg)
	}
	return c.wrap(api.New(cfg))
}

// end stops a node: in an orderly way, or as if it were killed.
func (c *cluster) end(place int, kindly bool) {
	c.mu.Lock()
	n := c.nodes[place]
	c.nodes[place] = nil
	c.mu.Unlock()
	if n == nil {
		return
	}
	if !kindly {
		n.store.dead.Store(true)
	}
	close(n.done)
	n.stop()
	n.srv.CloseClientConnections()
	c.ended.Go(n.srv.Close)
}

// target returns a running node in a random place; the zero Target if there is none.
func (c *cluster) target() linearizability.Target {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, place := range rand.Perm(len(c.nodes)) {
		if n := c.nodes[place]; n != nil {
			return linearizability.Target{Name: n.name, URL: n.srv.URL}
		}
	}
	return linearizability.Target{}
}

// disturb does something to a random node.
func (c *cluster) disturb() {
	place := rand.IntN(len(c.nodes))
	c.mu.Lock()
	n := c.nodes[place]
	c.mu.Unlock()
	if n == nil {
		return
	}
	switch rand.IntN(4) {
	case 0:
		c.end(place, true)
		c.begin(place)
	case 1:
		c.end(place, false)
		c.begin(place)
	case 2: // the lease ends, and others take over
		n.store.stuck.Store(true)
		<-time.After(1300 * time.Millisecond)
		n.store.stuck.Store(false)
	case 3: // the lease is gone at once
		infos, err := c.stores[place].Nodes(context.Background())
		if err == nil && len(infos) > 0 {
			_ = c.stores[place].Release(context.Background(), infos[rand.IntN(len(infos))].Node)
		}
	}
}
