package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
)

// gate is an engine whose Send blocks until it is released.
type gate struct {
	Engine
	arrived chan struct{}
	open    chan struct{}
}

func (g gate) Send(ctx context.Context, m journal.Message) error {
	g.arrived <- struct{}{}
	<-g.open
	return g.Engine.Send(ctx, m)
}

func TestKeyInFlight(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(sleepDef)
		id := x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID
		cfg := x.cfg
		g := gate{cfg.Engine, make(chan struct{}, 1), make(chan struct{})}
		cfg.Engine = g
		y := *x
		y.url = serve(t, cfg)
		path, key := "/v1/sagas/"+id+"/pause", header{"Idempotency-Key", "k"}
		first := make(chan *answer, 1)
		go func() { first <- y.do("POST", path, `{"reason": "a"}`, key) }()
		<-g.arrived
		a := y.do("POST", path, `{"reason": "a"}`, key)
		a.problem(409, "key_in_flight")
		if a.Header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After %q", a.Header.Get("Retry-After"))
		}
		y.do("POST", path, `{"reason": "b"}`, key).problem(422, "idempotency_key_reused")
		y.do("POST", "/v1/sagas/"+id+"/resume", `{"reason": "a"}`, key).problem(422, "idempotency_key_reused")
		close(g.open)
		want := (<-first).want(202)
		got := y.do("POST", path, `{"reason":"a"}`, key).want(202)
		if got.Header.Get(replayHeader) != "true" || string(got.Body) != string(want.Body) || got.Header.Get("ETag") != want.Header.Get("ETag") || got.Header.Get("Content-Type") != "application/json" {
			t.Errorf("replay %v %s, want %s", got.Header, got.Body, want.Body)
		}
	})
}

// Concurrent requests with one key: one pause.
func TestKeyConcurrent(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(sleepDef)
		id := x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID
		var wg sync.WaitGroup
		for range 12 {
			wg.Go(func() {
				if a := x.do("POST", "/v1/sagas/"+id+"/pause", "", header{"Idempotency-Key", "p"}); a.Status != 202 && a.Status != 409 {
					t.Errorf("%d %s", a.Status, a.Body)
				}
			})
		}
		wg.Wait()
		var p page[journal.Record]
		x.do("GET", "/v1/sagas/"+id+"/journal", "").want(200).into(&p)
		paused := 0
		for _, r := range p.Data {
			if r.Kind == journal.Paused || r.Kind == journal.Operator {
				paused++
			}
		}
		if paused != 1 {
			t.Errorf("%d commands in the journal, want 1", paused)
		}
	})
}

// A refusal releases the key, and so does a panic; a reply is kept for a day.
func TestKeyLifetime(t *testing.T) {
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	requests := memory.New(memory.Config{Now: clock})
	x := newFixture(t, func(c *Config) { c.Store = ownRequests{c.Store, requests} })
	x.publish(sleepDef)
	id := x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID
	path, key := "/v1/sagas/"+id, header{"Idempotency-Key", "k"}
	x.do("POST", path+"/resume", "", key).problem(409, "not_paused")
	x.do("POST", path+"/compensate", `{}`, key).problem(422, "invalid_command")
	y := *x
	cfg := x.cfg
	cfg.Engine = panicking{cfg.Engine}
	y.url = serve(t, cfg)
	y.do("POST", path+"/pause", "", key).problem(500, "internal")

	x.do("POST", path+"/pause", "", key).want(202)
	if a := x.do("POST", path+"/pause", "", key).want(202); a.Header.Get(replayHeader) != "true" {
		t.Error("not a replay")
	}
	mu.Lock()
	now = now.Add(24*time.Hour + time.Second)
	mu.Unlock()
	x.do("POST", path+"/pause", "", key).problem(409, "paused") // by now a new request
	if v := x.do("GET", path, "").want(200).saga(); v.Status != saga.PausedStatus {
		t.Errorf("status %s", v.Status)
	}
}

// lossy is an engine that sends a message, and then fails once.
type lossy struct {
	Engine
	fails *error
}

func (l lossy) Send(ctx context.Context, m journal.Message) error {
	err := l.Engine.Send(ctx, m)
	if *l.fails != nil {
		err, *l.fails = *l.fails, nil
	}
	return err
}

// sentTwice sends a command twice with one key, and returns the second response. The first one is
// lost, and the second request is sent once the saga has the status.
func sentTwice(t *testing.T, x *fixture, id, path, body string, then saga.Status) *answer {
	t.Helper()
	fails := journal.ErrUnknown
	cfg, y := x.cfg, *x
	cfg.Engine = lossy{cfg.Engine, &fails}
	y.url = serve(t, cfg)
	path, key := "/v1/sagas/"+id+"/"+path, header{"Idempotency-Key", "k"}
	y.do("POST", path, body, key).problem(503, "unavailable")
	x.until(id, is(then))
	return y.do("POST", path, body, key)
}

// A signal that is sent again with its key, because its response was lost, is one signal.
func TestKeyOfLostSignal(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish("saga: s\nsteps:\n  - {id: a, signal: paid}\n  - {id: b, signal: paid}\noutput: ['${steps.a.output}', '${steps.b.output}']\n")
		id := x.do("POST", "/v1/sagas", `{"definition": "s"}`).want(201).saga().ID
		sentTwice(t, x, id, "signals/paid", `1`, saga.Waiting).want(202)
		x.do("POST", "/v1/sagas/"+id+"/signals/paid", `2`, header{"Idempotency-Key", "other"}).want(202)
		if v := x.until(id, is(saga.Succeeded)); string(v.Output) != "[1,2]" {
			t.Errorf("output %s, want [1,2]", v.Output)
		}
	})
}

// A command whose response was lost is not carried out again, even if the saga has ended since. The
// repetition gets its result.
func TestKeyOfLostCommand(t *testing.T) {
	for path, ends := range map[string]saga.Status{"pause": saga.PausedStatus, "compensate": saga.Compensated, "retry": saga.Succeeded} {
		t.Run(path, func(t *testing.T) {
			x := newFixture(t)
			x.publish(sleepDef)
			id := x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID
			if path == "retry" {
				v, _ := doubtful(x)
				id = v.ID
			}
			if v := sentTwice(t, x, id, path, `{"reason": "r"}`, ends).want(202).saga(); v.ID != id || v.Status != ends {
				t.Errorf("saga %s is %s", v.ID, v.Status)
			}
		})
	}
}

// The key of a command that the saga has refused is free.
func TestKeyOfRefusedCommand(t *testing.T) {
	x := newFixture(t)
	x.publish(sleepDef)
	path, key := "/v1/sagas/"+x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID, header{"Idempotency-Key", "k"}
	overtaken(t, x, rival{before: func() { x.do("POST", path+"/pause", "").want(202) }}).do("POST", path+"/pause", "", key).problem(409, "paused")
	x.do("POST", path+"/resume", "").want(202)
	if v := x.do("POST", path+"/pause", "", key).want(202).saga(); v.Status != saga.PausedStatus {
		t.Errorf("status %s", v.Status)
	}
}

// A request that outlives its reservation, as on a node that was frozen, does not free the key that
// its repetition has reserved.
func TestKeyOfRepetitionStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Config{})
		begin := func(fresh bool) {
			t.Helper()
			if _, got, err := store.Begin(t.Context(), "k", "f", reserved); got != fresh || err != nil {
				t.Errorf("Begin: fresh %t, %v", got, err)
			}
		}
		s := &server{cfg: Config{Store: store, Limits: Limits{Request: 30 * time.Second}}, log: slog.New(slog.DiscardHandler)}
		c := echo.New().NewContext(httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder())
		for _, outlives := range []bool{false, true} {
			begin(true)
			err := s.recorded(c, "k", "f", time.Now().Add(reserved), func(echo.Context) error {
				if outlives {
					time.Sleep(reserved)
					begin(true)
				}
				return echo.ErrBadRequest
			})
			if !errors.Is(err, echo.ErrBadRequest) {
				t.Error(err)
			}
		}
		begin(false)
	})
}

type panicking struct{ Engine }

func (panicking) Send(context.Context, journal.Message) error { panic("post") }

// ownRequests keeps replies in another store, with its own clock.
type ownRequests struct {
	journal.Store
	of journal.Requests
}

func (o ownRequests) Begin(ctx context.Context, key, fingerprint string, ttl time.Duration) (journal.Reply, bool, error) {
	return o.of.Begin(ctx, key, fingerprint, ttl)
}

func (o ownRequests) Finish(ctx context.Context, key string, r journal.Reply, keep time.Duration) error {
	return o.of.Finish(ctx, key, r, keep)
}

func (o ownRequests) Abandon(ctx context.Context, key string) error { return o.of.Abandon(ctx, key) }
