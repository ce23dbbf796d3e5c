package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"

	"recourse/catalog"
	"recourse/engine"
	"recourse/examples/llmstub"
	"recourse/internal/egress"
	"recourse/internal/test/pgserver"
	"recourse/journal"
	"recourse/journal/postgres"
	"recourse/journal/sqlite"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/kinds"
	"recourse/saga/kinds/llm"
	llmclient "recourse/saga/kinds/llm/client"
	"recourse/saga/machine"
)

// database is a database whose clock a test sets forward. Engines know no other clock.
type database struct {
	open  func() journal.Store
	ahead atomic.Int64              // of the real time, in nanoseconds
	move  func(ahead time.Duration) // nil: the store asks for now
}

func (d *database) now() time.Time { return time.Now().Add(time.Duration(d.ahead.Load())) }

// advance sets the clock forward to a time; a time that has passed changes nothing.
func (d *database) advance(to time.Time) {
	if by := to.Sub(d.now()); by > 0 {
		ahead := d.ahead.Add(int64(by))
		if d.move != nil {
			d.move(time.Duration(ahead))
		}
	}
}

func onSQLite(t *testing.T) *database {
	path := filepath.Join(t.TempDir(), "cooldown.db")
	d := &database{}
	d.open = func() journal.Store {
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{Migrate: true, Now: d.now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return d
}

// onPostgres replaces the function by which the database's statements read the clock.
func onPostgres(t *testing.T) *database {
	dsn := pgserver.DSN(t)
	d := &database{}
	d.open = func() journal.Store {
		s, err := postgres.Open(t.Context(), dsn, postgres.Options{Migrate: true, MaxConns: 4})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if err := d.open().Close(); err != nil { // it has migrated
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	do := func(query string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), query, args...); err != nil {
			t.Fatal(err)
		}
	}
	do(`CREATE SCHEMA movable`)
	do(`CREATE TABLE movable.clock (ahead_us bigint NOT NULL)`)
	do(`INSERT INTO movable.clock VALUES (0)`)
	do(`CREATE FUNCTION movable.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
		$$ SELECT pg_catalog.clock_timestamp() + (SELECT ahead_us FROM movable.clock) * interval '1 microsecond' $$`)
	do(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = movable, pg_catalog, public', current_database()); END $$`)
	d.move = func(ahead time.Duration) { do(`UPDATE movable.clock SET ahead_us = $1`, ahead.Microseconds()) }
	return d
}

// mortal is the store of an engine whose process may die: from then on the engine writes nothing.
type mortal struct {
	journal.Store
	dead atomic.Bool
}

var errDead = errors.New("the process is dead")

func (s *mortal) Append(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	if s.dead.Load() {
		return nil, errDead
	}
	return s.Store.Append(ctx, node, batch)
}

func (s *mortal) Renew(ctx context.Context, node string, ttl time.Duration) (journal.Lease, error) {
	if s.dead.Load() {
		return journal.Lease{}, errDead
	}
	return s.Store.Renew(ctx, node, ttl)
}

func (s *mortal) Release(ctx context.Context, node string) error {
	if s.dead.Load() {
		return errDead
	}
	return s.Store.Release(ctx, node)
}

// cooling is a saga of examples/cooldown.yaml, and the provider that turns away its third request
// for 45 minutes.
type cooling struct {
	t     *testing.T
	db    *database
	model *llmstub.Server
	until atomic.Int64 // when the provider's cooldown ends, in Unix nanoseconds
	id    uuid.UUID
	eng   *engine.Engine
	store *mortal
	end   func() // ends the engine, and waits for it
}

const (
	cooldownTime = 45 * time.Minute
	modelKey     = "sk-cooldown"
)

func newCooling(t *testing.T, db *database) *cooling {
	x := &cooling{t: t, db: db}
	var err error
	x.model, err = llmstub.New(llmstub.Config{APIKey: modelKey, Fault: func(c llmstub.Call) llmstub.Fault {
		if strings.Contains(string(c.Body), "Correct this page") && db.now().UnixNano() < x.until.Load() {
			return llmstub.Fault{Status: http.StatusTooManyRequests, Code: "rate_limit_exceeded"}
		}
		return llmstub.Fault{}
	}}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.model.Close() })
	x.until.Store(math.MaxInt64) // until the saga has begun
	return x
}

// begin starts an engine, as a new process does.
func (x *cooling) begin() *catalog.Catalog {
	x.t.Helper()
	guard, err := egress.NewGuard([]string{"127.0.0.1"})
	if err != nil {
		x.t.Fatal(err)
	}
	models := llm.Config{Providers: []llm.Provider{{Name: "openai", BaseURL: x.model.URL + "/v1", APIKey: modelKey}}, Currency: "USD", Prices: map[string]llm.Price{"gpt-5-mini": {Input: "0.25", Output: "2.00"}}}
	x.store = &mortal{Store: x.db.open()}
	caller := llmclient.New(llmclient.Config{LLM: models, Egress: egress.Config{Guard: guard}})
	cat := catalog.New(x.store, catalog.Options{Kinds: kinds.With(kinds.Options{LLM: models})})
	// A node learns of the clock's jump when it renews its lease, which is every 100 ms.
	x.eng = engine.New(engine.Config{Store: x.store, Definitions: cat, Callers: map[string]engine.Caller{"llm": caller}, Lease: 300 * time.Millisecond, Poll: 20 * time.Millisecond, Drain: time.Second})
	ctx, stop := context.WithCancel(context.Background())
	ended, eng, store := make(chan error, 1), x.eng, x.store
	go func() { ended <- eng.Run(ctx) }()
	x.end = func() {
		stop()
		if err := <-ended; err != nil {
			x.t.Error(err)
		}
		caller.Close()
		if err := store.Close(); err != nil {
			x.t.Error(err)
		}
	}
	x.await("the engine is ready", eng.Ready)
	return cat
}

// kill ends the engine as the death of its process does, and starts another one.
func (x *cooling) kill() {
	x.t.Helper()
	x.store.dead.Store(true)
	x.end()
	x.begin()
}

func (x *cooling) await(what string, holds func() bool) {
	x.t.Helper()
	for until := time.Now().Add(time.Minute); !holds(); {
		if time.Now().After(until) {
			x.t.Fatalf("%s: not within a minute", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func (x *cooling) start(edit ...string) {
	x.t.Helper()
	src, err := os.ReadFile("../examples/cooldown.yaml")
	if err != nil {
		x.t.Fatal(err)
	}
	text := strings.NewReplacer(edit...).Replace(string(src))
	_, def, _, err := x.begin().Publish(x.t.Context(), "cooldown", []byte(text), "")
	if err != nil {
		x.t.Fatal(err)
	}
	data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1, Input: []byte(`{"topic": "tea"}`)})
	if wrong != nil {
		x.t.Fatal(wrong)
	}
	begun, err := x.eng.Start(x.t.Context(), def, journal.Start{Definition: "cooldown", Version: 1}, data, false)
	if err != nil {
		x.t.Fatal(err)
	}
	begun.Stop()
	x.id = begun.ID
	x.until.Store(x.records()[0].At.Add(cooldownTime).UnixNano())
}

func (x *cooling) head() journal.Head {
	x.t.Helper()
	h, err := x.store.Saga(x.t.Context(), x.id)
	if err != nil {
		x.t.Fatal(err)
	}
	return h
}

func (x *cooling) records() []journal.Record {
	x.t.Helper()
	list, err := x.store.Records(x.t.Context(), x.id, 0, 10_000)
	if err != nil {
		x.t.Fatal(err)
	}
	return list
}

// holds counts the outcomes that hold the saga, and whether the last record is one.
func (x *cooling) holds() (n int, now bool) {
	for _, r := range x.records() {
		d, ok := history.DataOf[saga.OutcomeData](&r)
		if now = ok && d.Next == saga.NextHold; now {
			n++
		}
	}
	return n, now
}

// hold lets the time of the backoffs pass, until the saga is on hold for the nth time.
func (x *cooling) hold(n int) {
	x.t.Helper()
	x.await("the saga is on hold", func() bool {
		held, now := x.holds()
		if !now {
			x.skip(saga.NextRetry)
		}
		return held == n && now
	})
}

// skip sets the clock forward to the time at which the saga continues by itself, if what it waits
// for follows from its last outcome in this way.
func (x *cooling) skip(next saga.Next) {
	records := x.records()
	last := records[len(records)-1]
	if d, ok := history.DataOf[saga.OutcomeData](&last); ok && d.Next == next && d.RetryAt != nil {
		x.db.advance(d.RetryAt.Time)
	}
}

func (x *cooling) ended() bool { return !x.head().EndedAt.IsZero() }

// paid checks that the saga has succeeded with three requests that were billed once each, though
// the third was made so often.
func (x *cooling) paid(asked int) {
	x.t.Helper()
	x.await("the saga ends", x.ended)
	keys, refused, bill := make(map[string]int), 0, 0
	for _, b := range x.model.Bills() {
		if b.Billed {
			keys[b.Key]++
			bill += 25*b.Input + 200*b.Output // of 10^-8 USD
		} else {
			refused++
		}
	}
	for key, n := range keys {
		if n != 1 {
			x.t.Errorf("the request with the key %s was billed %d times", key, n)
		}
	}
	if len(keys) != 3 || refused != asked-1 {
		x.t.Errorf("%d requests were billed and %d refused, want 3 and %d", len(keys), refused, asked-1)
	}
	intents := make(map[string]int)
	records := x.records()
	for _, r := range records {
		if r.Kind == journal.Intent {
			intents[r.Path]++
		}
	}
	if intents["sources"] != 1 || intents["draft"] != 1 || intents["review"] != asked {
		x.t.Errorf("intents %v, want 1, 1 and %d", intents, asked)
	}
	def, err := catalog.New(x.store, catalog.Options{Kinds: kinds.All()}).Definition(x.t.Context(), "cooldown", 1)
	if err != nil {
		x.t.Fatal(err)
	}
	m, err := machine.Replay(def, x.id, records)
	if err != nil {
		x.t.Fatal(err)
	}
	v := m.View()
	if v.Status != saga.Succeeded || v.Cost.Spent != fmt.Sprintf("0.%08d", bill) || strings.Trim(v.Cost.Reserved, "0.") != "" {
		x.t.Errorf("%s, cost %+v; the provider's bill is %d", v.Status, v.Cost, bill)
	}
	if took := records[len(records)-1].At.Sub(records[0].At); took < cooldownTime || took > cooldownTime+5*time.Minute {
		x.t.Errorf("the saga took %v of the database's time", took)
	}
}

// TestCooldown: a provider turns a saga away for 45 minutes, and the engine's process dies
// meanwhile. The cooldown costs time and no work: nothing is undone, and each answer is paid once.
// The time is that of the databases, which the test sets forward.
func TestCooldown(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *database{"sqlite": onSQLite, "postgres": onPostgres} {
		// The saga tries again by itself after each hold_for, of 15 minutes, and another process
		// carries on after each hold.
		t.Run(name+", by time", func(t *testing.T) {
			t.Parallel()
			x := newCooling(t, open(t))
			x.start()
			defer func() { x.end() }()
			for n := 1; n <= 3; n++ {
				x.hold(n)
				x.kill()
				x.skip(saga.NextHold)
			}
			x.paid(3*4 + 1)
		})
		// A person resumes it, once too early.
		t.Run(name+", by a person", func(t *testing.T) {
			t.Parallel()
			x := newCooling(t, open(t))
			x.start("hold_for: 15m", "hold_for: 7h")
			defer func() { x.end() }()
			x.hold(1)
			x.db.advance(x.db.now().Add(10 * time.Minute))
			x.resume()
			x.hold(2)
			x.kill()
			before := len(x.model.Bills())
			x.db.advance(time.Unix(0, x.until.Load()).Add(time.Second))
			// The new process has seen the clock.
			x.await("the clock is known", func() bool { return !x.eng.Now().Before(time.Unix(0, x.until.Load())) })
			if n := len(x.model.Bills()) - before; n != 0 {
				t.Errorf("%d requests were made before anybody has resumed the saga", n)
			}
			x.resume()
			x.paid(2*4 + 1)
		})
	}
}

// resume resumes the saga, as a person does.
func (x *cooling) resume() {
	x.t.Helper()
	message, err := uuid.NewV7AtTime(x.eng.Now())
	if err != nil {
		x.t.Fatal(err)
	}
	m, err := saga.Command{Do: saga.Resume{}, Actor: "ann", Reason: "the cooldown is over"}.Message(message, x.id)
	if err != nil {
		x.t.Fatal(err)
	}
	if err := x.eng.Send(x.t.Context(), m); err != nil {
		x.t.Fatal(err)
	}
	x.await("the saga is resumed", func() bool { _, now := x.holds(); return !now })
}
