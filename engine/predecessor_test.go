package engine_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/machine"
)

// registrations notes the ids that nodes register under, and the predecessors that they name.
type registrations struct {
	journal.Store
	mu   sync.Mutex
	list [][]string
}

func (r *registrations) Register(ctx context.Context, node string, ttl time.Duration, dead ...string) (journal.Lease, error) {
	r.mu.Lock()
	r.list = append(r.list, append([]string{node}, dead...))
	r.mu.Unlock()
	return r.Store.Register(ctx, node, ttl, dead...)
}

func (r *registrations) all() [][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// A node whose predecessor is known to have ended takes over its sagas at once, although the lease
// is valid for an hour.
func TestPredecessor(t *testing.T) {
	def := compile(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\"}\n")
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			t.Cleanup(func() { _ = store.Close() })
			const ghost = "ghost"
			if _, err := store.Register(t.Context(), ghost, time.Hour); err != nil {
				t.Fatal(err)
			}
			id := begunAs(t, store, ghost, def)
			n := startNode(t, store, definitions{"x": def}, func(c *engine.Config) {
				c.Callers, c.Lease, c.Predecessor = map[string]engine.Caller{"http": fine{}}, time.Hour, ghost
			})
			n.head(id, "succeeded", func(h journal.Head) bool { return h.Status == string(saga.Succeeded) })
		})
	}
}

// Each id is recorded before anything is written under it, and is the predecessor of the next
// registration.
func TestRegistered(t *testing.T) {
	def := compile(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\"}\n")
	store := &registrations{Store: memory.New(memory.Config{})}
	var mu sync.Mutex
	var noted []string
	n := startNode(t, store, definitions{"x": def}, func(c *engine.Config) {
		c.Callers, c.Lease = map[string]engine.Caller{"http": fine{}}, 300*time.Millisecond
		c.Registered = func(node string) error {
			mu.Lock()
			defer mu.Unlock()
			noted = append(noted, node)
			infos, err := store.Nodes(t.Context())
			if err != nil || !slices.ContainsFunc(infos, func(i journal.NodeInfo) bool { return i.Node == node && i.Sagas == 0 }) {
				t.Errorf("%s is recorded, and the nodes are %+v, %v", node, infos, err)
			}
			return err
		}
	})
	until(t, "the node registers", func() bool { return len(store.all()) == 1 && n.Ready() })
	first := store.all()[0][0]
	if _, err := store.Store.Register(t.Context(), "thief", time.Hour, first); err != nil { // which fences the node off
		t.Fatal(err)
	}
	until(t, "the node registers again", func() bool { return len(store.all()) == 2 })
	id := n.start(def, "null", nil)
	n.head(id, "succeeded", func(h journal.Head) bool { return h.Status == string(saga.Succeeded) })
	list := store.all()
	if len(list[0]) != 1 || len(list[1]) != 2 || list[1][1] != first {
		t.Errorf("registrations %v: want one without a predecessor, and one whose predecessor is the first", list)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{list[0][0], list[1][0]}; !slices.Equal(noted, want) {
		t.Errorf("recorded %v, want %v", noted, want)
	}
}

// begunAs starts a saga as a node that then does nothing more.
func begunAs(t *testing.T, store journal.Store, node string, def *saga.Definition) uuid.UUID {
	t.Helper()
	data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1})
	if wrong != nil {
		t.Fatal(wrong)
	}
	id, now := uuid.Must(uuid.NewV7()), time.Now().UTC().Truncate(time.Millisecond)
	m := machine.New(def, id)
	started, err := m.Append(m.Start(data), now, node)
	if err != nil {
		t.Fatal(err)
	}
	row := m.Row()
	out, err := store.Append(t.Context(), node, []journal.Append{{Saga: id, Records: []journal.Record{started}, Row: &row,
		Start: &journal.Start{Definition: def.Name, Version: 1, SHA256: def.SHA256, CreatedAt: now}}})
	if err != nil || out[0].Err != nil {
		t.Fatal(err, out)
	}
	return id
}
