package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/examples/world"
	"recourse/internal/egress"
	"recourse/internal/test/pgserver"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/journal/postgres"
	"recourse/journal/sqlite"
	"recourse/migrations"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	httpclient "recourse/saga/kinds/http/client"
	"recourse/saga/machine"
)

// definitions is a fixed set of compiled definitions.
type definitions map[string]*saga.Definition

func (d definitions) Of(_ context.Context, start *saga.StartedData) (*saga.Definition, error) {
	if def := d[start.Definition]; def != nil {
		return def, nil
	}
	return nil, fmt.Errorf("%s: %w", start.Definition, saga.ErrUnusable)
}

func compile(t testing.TB, src string) *saga.Definition {
	t.Helper()
	def, errs := dsl.Parse("test", []byte(src), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	return def
}

// stores opens each kind of store.
func stores(t *testing.T) map[string]func(t *testing.T) journal.Store {
	return map[string]func(t *testing.T) journal.Store{
		"memory": func(*testing.T) journal.Store { return memory.New(memory.Config{}) },
		"sqlite": func(t *testing.T) journal.Store {
			path := filepath.Join(t.TempDir(), "recourse.db")
			if err := migrations.Up(t.Context(), migrations.SQLite(path)); err != nil {
				t.Fatal(err)
			}
			s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"postgres": func(t *testing.T) journal.Store {
			dsn := pgserver.DSN(t)
			if err := migrations.Up(t.Context(), migrations.Postgres(dsn)); err != nil {
				t.Fatal(err)
			}
			s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	}
}

// node is a running engine.
type node struct {
	*engine.Engine
	t     testing.TB
	store journal.Store
	stop  func()
}

func startNode(t testing.TB, store journal.Store, defs definitions, edit func(*engine.Config)) *node {
	t.Helper()
	guard, err := egress.NewGuard([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	caller := httpclient.New(httpclient.Config{Egress: egress.Config{Guard: guard}})
	cfg := engine.Config{
		Store: store, Definitions: defs, Callers: map[string]engine.Caller{"http": caller},
		Log: slog.New(slog.NewTextHandler(testLog{t}, nil)), Poll: 10 * time.Millisecond, Lease: 2 * time.Second, Drain: 5 * time.Second,
	}
	if edit != nil {
		edit(&cfg)
	}
	n := &node{Engine: engine.New(cfg), t: t, store: store}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	stopped := false
	n.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
		caller.Close()
	}
	t.Cleanup(n.stop)
	return n
}

type testLog struct{ t testing.TB }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func (n *node) start(def *saga.Definition, input string, vars map[string]string) uuid.UUID {
	n.t.Helper()
	raw := make(map[string]json.RawMessage)
	for k, v := range vars {
		raw[k] = json.RawMessage(fmt.Sprintf("%q", v))
	}
	data, unique, wrong := machine.Begin(def, machine.StartOptions{Version: 1, Input: json.RawMessage(input), Vars: raw})
	if wrong != nil {
		n.t.Fatalf("begin: %v", wrong)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		begun, err := n.Start(n.t.Context(), def, journal.Start{Definition: def.Name, Version: 1, SHA256: def.SHA256, Unique: unique}, data, false)
		id := begun.ID
		if errors.Is(err, saga.ErrUnavailable) {
			<-time.After(5 * time.Millisecond) // the node was still registering
			continue
		}
		if err != nil {
			n.t.Fatalf("start: %v", err)
		}
		return id
	}
	n.t.Fatal("the node did not become ready")
	return uuid.Nil
}

// await waits until want holds for the saga's machine.
func (n *node) await(def *saga.Definition, id uuid.UUID, what string, want func(*machine.Machine) bool) (*machine.Machine, []journal.Record) {
	n.t.Helper()
	grown, stop := n.Watch(id)
	defer stop()
	deadline := time.After(time.Minute)
	for {
		records, err := n.store.Records(context.Background(), id, 0, 100_000)
		if err != nil {
			n.t.Fatal(err)
		}
		m, err := machine.Replay(def, id, records)
		if err != nil {
			n.t.Fatal(err)
		}
		if want(m) {
			if err := journal.Verify(id, nil, 1, records); err != nil {
				n.t.Error(err)
			}
			return m, records
		}
		select {
		case <-grown:
		case <-time.After(50 * time.Millisecond): // another node may run it
		case <-deadline:
			n.t.Fatalf("saga %s did not become %s; it is %s: %+v", id, what, m.Status(), m.View())
		}
	}
}

func (n *node) ended(def *saga.Definition, id uuid.UUID, want saga.Status) *machine.Machine {
	n.t.Helper()
	m, _ := n.await(def, id, string(want), func(m *machine.Machine) bool { return m.Status().Terminal() })
	if m.Status() != want {
		n.t.Errorf("saga ended as %s, want %s: %+v", m.Status(), want, m.Reason())
	}
	return m
}

const booking = `
saga: booking
steps:
  - id: flight
    http: POST ${vars.air}/bookings
    body: {route: HAM-LIS, date: "2026-12-24", passenger: p1}
    timeout: 2s
    retry: {attempts: 4, initial: 20ms}
    compensate: {http: "DELETE ${vars.air}/bookings/${output.id}", retry: {initial: 20ms}}
  - id: hotel
    http: POST ${vars.hotels}/reservations
    idempotency: {body: client_token}
    body: {city: LIS, nights: 3}
    retry: {attempts: 4, initial: 20ms}
    compensate: {http: "POST ${vars.hotels}/reservations/${output.id}/cancel", retry: {initial: 20ms}}
  - id: charge
    http: POST ${vars.pay}/charges
    body: {amount: "${steps.flight.output.price + steps.hotel.output.total}"}
    retry: {attempts: 4, initial: 20ms}
    compensate: {http: "POST ${vars.pay}/charges/${output.id}/refund", retry: {initial: 20ms}}
`

func worldVars(url string) map[string]string {
	return map[string]string{"air": url + "/air", "hotels": url + "/hotels", "pay": url + "/pay", "mail": url + "/mail", "things": url + "/things"}
}

func startWorld(t testing.TB) *world.Server {
	t.Helper()
	w, err := world.Start("127.0.0.1:0")
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

func TestStoriesOnEveryStore(t *testing.T) {
	def := compile(t, booking)
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			t.Cleanup(func() { _ = store.Close() })
			w := startWorld(t)
			n := startNode(t, store, definitions{"booking": def}, nil)

			t.Run("succeeds", func(t *testing.T) {
				n.ended(def, n.start(def, `{}`, worldVars(w.URL)), saga.Succeeded)
			})
			t.Run("refused and undone", func(t *testing.T) {
				w.Reset()
				fault(t, w, world.Rule{Match: world.Match{PathPrefix: "/pay/charges"}, Times: 1, Do: world.Do{Before: "status", Status: 402}})
				n.ended(def, n.start(def, `{}`, worldVars(w.URL)), saga.Compensated)
				if net := w.Balance().Net(); net != 0 {
					t.Errorf("effects that remain: %d", net)
				}
				undos := w.Ledger().Undos()
				if len(undos) != 2 || undos[0].Service != "hotels" || undos[1].Service != "air" {
					t.Errorf("undone: %+v, want hotels before air", undos)
				}
			})
			t.Run("answer lost", func(t *testing.T) {
				w.Reset()
				fault(t, w, world.Rule{Match: world.Match{PathPrefix: "/pay/charges"}, Times: 1, Do: world.Do{After: "drop"}})
				n.ended(def, n.start(def, `{}`, worldVars(w.URL)), saga.Succeeded)
				if got := len(w.Ledger().Op("pay", "charge").Effects()); got != 1 {
					t.Errorf("%d charges, want 1", got)
				}
			})
		})
	}
}

func fault(t testing.TB, w *world.Server, r world.Rule) {
	t.Helper()
	if err := w.AddFault(r); err != nil {
		t.Fatal(err)
	}
}

// A node that stops releases its sagas, and the next node continues them at the same point.
func TestHandOver(t *testing.T) {
	def := compile(t, booking)
	store := memory.New(memory.Config{})
	w := startWorld(t)
	release := make(chan struct{})
	first := startNode(t, store, definitions{"booking": def}, func(c *engine.Config) {
		inner := c.Callers["http"]
		c.Callers = map[string]engine.Caller{"http": callerFunc(func(ctx context.Context, r saga.Request) saga.Answer {
			a := inner.Call(ctx, r)
			if strings.Contains(r.URL, "/hotels/") {
				<-release // the effect exists, the response has not arrived
			}
			return a
		})}
	})
	id := first.start(def, `{}`, worldVars(w.URL))
	first.await(def, id, "at the hotel", func(m *machine.Machine) bool { return len(w.Ledger().Service("hotels").Effects()) == 1 })
	go func() {
		<-time.After(50 * time.Millisecond) // the engine is draining by then; if not, the test is only weaker
		close(release)
	}()
	first.stop()
	if charges := len(w.Ledger().Service("pay")); charges != 0 {
		t.Fatalf("a draining node continued with the next step: %d requests to pay", charges)
	}
	second := startNode(t, store, definitions{"booking": def}, nil)
	second.ended(def, id, saga.Succeeded)
	for _, service := range []string{"air", "hotels", "pay"} {
		if got := len(w.Ledger().Service(service).Effects()); got != 1 {
			t.Errorf("%s: %d effects, want 1", service, got)
		}
	}
}

type callerFunc func(context.Context, saga.Request) saga.Answer

func (f callerFunc) Call(ctx context.Context, r saga.Request) saga.Answer { return f(ctx, r) }

// A parked saga gets its commands, and continues.
func TestCommandToAParkedSaga(t *testing.T) {
	def := compile(t, `
saga: asks
steps:
  - id: pay
    http: POST ${vars.pay}/charges
    body: {amount: 1}
    in_doubt: ask
`)
	store := memory.New(memory.Config{})
	w := startWorld(t)
	fault(t, w, world.Rule{Match: world.Match{PathPrefix: "/pay/"}, Times: 1, Do: world.Do{After: "drop"}})
	n := startNode(t, store, definitions{"asks": def}, nil)
	id := n.start(def, `null`, worldVars(w.URL))
	n.await(def, id, "stuck", func(m *machine.Machine) bool { return m.Status() == saga.Stuck })
	inbox, err := store.Inbox(t.Context(), journal.InboxFilter{Limit: 10})
	for err == nil && len(inbox) == 0 {
		<-time.After(time.Millisecond)
		inbox, err = store.Inbox(t.Context(), journal.InboxFilter{Limit: 10})
	}
	if err != nil || len(inbox) != 1 || inbox[0].Kind != saga.InboxInDoubt {
		t.Fatalf("inbox: %+v, %v", inbox, err)
	}
	command, err := json.Marshal(saga.Command{Do: saga.Resolve{Outcome: "succeeded", Output: json.RawMessage(`{"id":"x"}`)}, Path: "pay", Reason: "seen"})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Send(t.Context(), journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: id, Kind: saga.CommandMessage, Data: command}); err != nil {
		t.Fatal(err)
	}
	n.ended(def, id, saga.Succeeded)
}
