package api

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// prompt is an engine whose sagas end as soon as they start.
type prompt struct {
	Engine
	id uuid.UUID
	m  *machine.Machine
}

func (p prompt) Start(context.Context, *saga.Definition, journal.Start, saga.StartedData, bool) (machine.Begun, error) {
	ended := make(chan *machine.Machine, 1)
	ended <- p.m
	return machine.Begun{ID: p.id, Ended: ended, Stop: func() {}}, nil
}

// discard is a connection that nobody reads.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

// BenchmarkStart measures the API's own share of a start that waits for its saga's end.
func BenchmarkStart(b *testing.B) {
	x := newFixture(b)
	x.publish("saga: x\ninput: {trip: string}\nsteps:\n  - {id: say, set: \"${input.trip}\"}\n")
	const body = `{"definition":"x","input":{"trip":"a-1"}}`
	id := uuid.Must(uuid.FromString(x.do("POST", "/v1/sagas", body, header{"Prefer", "wait=30"}).want(201).saga().ID))
	l, err := (&server{cfg: x.cfg}).load(b.Context(), id)
	if err != nil {
		b.Fatal(err)
	}
	x.cfg.Engine = prompt{x.eng, id, l.m}
	h := New(x.cfg)
	ctx, cancel := context.WithCancel(b.Context()) // cancellable, as a request's context is
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, "POST", "http://127.0.0.1:8080/v1/sagas", nil)
	r.Header = http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"a-1"}, "Prefer": {"wait=30"}}
	r.ContentLength = int64(len(body))
	b.ReportAllocs()
	for b.Loop() {
		r.Body = io.NopCloser(strings.NewReader(body))
		w := &discard{header: http.Header{}}
		h.ServeHTTP(w, r)
		if w.status != http.StatusCreated {
			b.Fatalf("status %d", w.status)
		}
	}
}

// timedAppends is a store that notes how long its commits take.
type timedAppends struct {
	journal.Store
	took chan<- time.Duration
}

func (s timedAppends) Append(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	began := time.Now()
	results, err := s.Store.Append(ctx, node, batch)
	if batch[0].Start != nil {
		s.took <- time.Since(began)
	}
	return results, err
}

// BenchmarkFirstRequest measures how long a start takes until its first request arrives, and its
// commit.
func BenchmarkFirstRequest(b *testing.B) {
	for _, name := range []string{"sqlite", "postgres"} {
		b.Run(name, func(b *testing.B) {
			commits, arrived := make(chan time.Duration, 1), make(chan time.Time, 1)
			remote := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived <- time.Now() }))
			defer remote.Close()
			x := newFixtureOn(b, timedAppends{stores[name](b), commits})
			x.publish("saga: x\nsteps:\n  - {id: say, http: POST " + remote.URL + ", body: {}, compensate: none}\n")
			var requests, starts []time.Duration
			for b.Loop() {
				began := time.Now()
				x.do("POST", "/v1/sagas", `{"definition":"x"}`, header{"Prefer", "wait=30"}).want(201)
				requests, starts = append(requests, (<-arrived).Sub(began)), append(starts, <-commits)
			}
			p50 := func(list []time.Duration) float64 {
				slices.Sort(list)
				return list[len(list)/2].Seconds() * 1000
			}
			b.ReportMetric(p50(requests), "p50-ms")
			b.ReportMetric(p50(starts), "p50-ms-commit")
		})
	}
}
