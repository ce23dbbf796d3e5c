package client_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"recourse/api"
	"recourse/api/client"
	"recourse/catalog"
	"recourse/engine"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

// rig is a real server in this process. The test can advance its clock and intercept its requests.
type rig struct {
	t     *testing.T
	ahead atomic.Int64
	store *memory.Store
	// wire is called before each request reaches the server, and may respond in its place.
	wire atomic.Pointer[func(w http.ResponseWriter, r *http.Request, next http.Handler)]
	url  string
	*client.Client
}

func newRig(t *testing.T, more ...func(*api.Config)) *rig {
	t.Helper()
	r := &rig{t: t}
	r.store = memory.New(memory.Config{Now: func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }})
	cat := catalog.New(r.store, catalog.Options{Kinds: kinds.All()})
	eng := engine.New(engine.Config{Store: r.store, Definitions: cat, Poll: 10 * time.Millisecond, Drain: time.Second, Lease: time.Hour})
	cfg := api.Config{Store: r.store, Catalog: cat, Engine: eng, Limits: api.Limits{Poll: 10 * time.Millisecond, TaskPoll: 10 * time.Millisecond}}
	for _, m := range more {
		m(&cfg)
	}
	h := api.New(cfg)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if f := r.wire.Load(); f != nil {
			(*f)(w, req, h)
			return
		}
		h.ServeHTTP(w, req)
	}))
	r.url, r.Client = srv.URL, client.New(srv.URL, "")
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(ctx) }()
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		r.store.Close()
	})
	eventually(t, "the engine is ready", eng.Ready)
	return r
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); !holds(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it does not come about that %s", what)
		}
	}
}

// cut installs f as wire until restore is called.
func (r *rig) cut(f func(w http.ResponseWriter, req *http.Request, next http.Handler)) (restore func()) {
	r.wire.Store(&f)
	return func() { r.wire.Store(nil) }
}

// drop closes the connection without a response.
func drop() { panic(http.ErrAbortHandler) }

func (r *rig) publish(source string) {
	r.t.Helper()
	name := strings.TrimPrefix(strings.SplitN(source, "\n", 2)[0], "saga: ")
	req, err := http.NewRequestWithContext(r.t.Context(), "PUT", r.url+"/v1/definitions/"+name, strings.NewReader(source))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/yaml")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 201 {
		r.t.Fatalf("publish: %d", resp.StatusCode)
	}
}

// squareDef has a lease long enough for a worker on a busy machine; see beating.
const squareDef = `saga: square
input: {n: integer}
budget: 9.00 EUR
steps:
  - id: it
    task: square
    input: {n: "${input.n}"}
    heartbeat: 1m
    timeout: 1h
    in_doubt: ask
    retry: {attempts: 3, initial: 1ms, max: 1ms}
    compensate: none
output: ${steps.it.output}
`

// beating is squareDef with another lease. Its worker learns about changes of its task within a
// third of the lease.
func beating(lease string) string {
	return strings.Replace(squareDef, "heartbeat: 1m", "heartbeat: "+lease, 1)
}

func (r *rig) square(n int) string {
	r.t.Helper()
	s, err := r.Start(r.t.Context(), client.Start{Definition: "square", Input: map[string]int{"n": n}})
	if err != nil {
		r.t.Fatal(err)
	}
	return s.ID
}

// wait waits until the saga has ended or needs a person.
func (r *rig) wait(id string) *client.Saga {
	r.t.Helper()
	var s *client.Saga
	eventually(r.t, "the saga ends or is stuck", func() bool {
		var err error
		if s, err = r.Get(r.t.Context(), id); err != nil {
			r.t.Fatal(err)
		}
		return s.Ended() || s.Status == "stuck"
	})
	return s
}

// failure returns the last error of the saga's step.
func (r *rig) failure(id string) (class journal.Class, f saga.Failure) {
	r.t.Helper()
	resp, err := http.Get(r.url + "/v1/sagas/" + id + "/steps/it")
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	var step machine.StepView
	if err := json.NewDecoder(resp.Body).Decode(&step); err != nil {
		r.t.Fatal(err)
	}
	last := step.Attempts[len(step.Attempts)-1]
	if last.Error != nil {
		f = *last.Error
	}
	return last.Class, f
}

// run runs a worker until stop is called, which returns the result of Run.
func (r *rig) run(w client.Worker) (stop func() error) {
	w.Client, w.Log = r.Client, slog.New(slog.DiscardHandler)
	if w.Types == nil {
		w.Types = []string{"square"}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	var err error
	done := false
	stop = func() error {
		if cancel(); !done {
			err, done = <-ended, true
		}
		return err
	}
	r.t.Cleanup(func() { _ = stop() })
	return stop
}
