package api

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/journal"
)

// brokenStore fails reads of sagas, pings and counts.
type brokenStore struct{ journal.Store }

var errBroken = errors.New("disk full at /secret/path")

func (brokenStore) Ping(context.Context) error { return errBroken }
func (brokenStore) Stats(context.Context) (journal.Stats, error) {
	return journal.Stats{}, errBroken
}
func (brokenStore) Sagas(context.Context, journal.Filter) (journal.Listed, error) {
	panic("index out of range")
}

func TestHealth(t *testing.T) {
	x := newFixture(t)
	x.do("GET", "/healthz", "").want(200)
	x.do("GET", "/readyz", "").want(200)
	y := newFixture(t, func(c *Config) { c.Engine = engineStub{c.Engine, nil, false} })
	y.do("GET", "/healthz", "").want(200)
	y.do("GET", "/readyz", "").problem(503, "not_ready")
	z := newFixture(t, func(c *Config) { c.Store = brokenStore{c.Store} })
	z.do("GET", "/readyz", "").problem(503, "not_ready")
}

// Internal errors do not show internals, and other routes keep working.
func TestServerFaults(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.Store = brokenStore{c.Store} })
	for _, path := range []string{"/v1/sagas", "/v1/stats"} {
		a := x.do("GET", path, "")
		a.problem(500, "internal")
		for _, inside := range []string{"secret", "index out of range", "goroutine", ".go:"} {
			if strings.Contains(string(a.Body), inside) {
				t.Errorf("%s shows %q: %s", path, inside, a.Body)
			}
		}
	}
	a := x.do("GET", "/metrics", "").want(200)
	for _, want := range []string{"recourse_store_up 0", `recourse_http_requests_total{method="GET",route="/v1/sagas",status="500"} 1`} {
		if !strings.Contains(string(a.Body), want) {
			t.Errorf("metrics do not have %s", want)
		}
	}
}

// unwritable is a store that can be read but not written.
type unwritable struct{ journal.Store }

func (unwritable) Ping(context.Context) error { return errBroken }

// A database without writes is not up, even if no node tries to commit; its counts are shown
// nevertheless.
func TestMetricsOfAnUnwritableStore(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.Store = unwritable{c.Store} })
	a := x.do("GET", "/metrics", "").want(200)
	for _, want := range []string{"recourse_store_up 0", `recourse_sagas{status="running"} 0`, "recourse_nodes 1"} {
		if !strings.Contains(string(a.Body), want) {
			t.Errorf("metrics do not have %s", want)
		}
	}
}

func TestMetrics(t *testing.T) {
	x := newFixture(t)
	v, _ := doubtful(x)
	x.do("GET", "/v1/none", "", outside).want(404)
	x.do("GET", "/v1/sagas/01a1fd50-0000-7000-8000-000000000000", "").want(404)
	a := x.do("GET", "/metrics", "").want(200)
	for _, want := range []string{
		`recourse_sagas{status="stuck"} 1`, `recourse_sagas{status="failed"} 0`, `recourse_inbox_entries{kind="in_doubt"} 1`,
		"recourse_store_up 1", "recourse_nodes 1", `recourse_inbox_oldest_seconds{kind="in_doubt"} `, `recourse_inbox_oldest_seconds{kind="held"} 0`, "recourse_engine_commits_total ", "recourse_engine_requests_sent_total 2",
		`recourse_http_requests_total{method="GET",route="/v1/sagas/:id",status="404"} 1`, `recourse_http_requests_total{method="GET",route="none",status="404"} 1`,
	} {
		if !strings.Contains(string(a.Body), want) {
			t.Errorf("metrics do not have %s", want)
		}
	}
	if strings.Contains(string(a.Body), v.ID) || strings.Contains(string(a.Body), "01a1fd50") {
		t.Error("metrics have the id of a saga")
	}
}

// Prometheus requests OpenMetrics, where the names of counters must end in _total.
func TestOpenMetrics(t *testing.T) {
	x := newFixture(t)
	doubtful(x)
	x.do("GET", "/metrics", "").want(200)
	names := func(accept string) []string {
		a := x.do("GET", "/metrics", "", header{"Accept", accept}).want(200)
		if got := a.Header.Get("Content-Type"); !strings.HasPrefix(got, strings.SplitN(accept, ";", 2)[0]) {
			t.Errorf("asked for %s, got %s", accept, got)
		}
		var list []string
		for line := range strings.Lines(string(a.Body)) {
			if !strings.HasPrefix(line, "#") {
				list = append(list, line[:strings.IndexAny(line, "{ ")])
			}
		}
		return slices.Compact(list)
	}
	if d := cmp.Diff(names("text/plain"), names("application/openmetrics-text; version=1.0.0")); d != "" {
		t.Errorf("(-text +OpenMetrics):\n%s", d)
	}
}

func TestIndexAndSchema(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.Version = "1.2.3" })
	var index struct{ Links map[string]string }
	x.do("GET", "/", "").want(200).into(&index)
	if len(index.Links) == 0 {
		t.Error("no links")
	}
	for name, path := range index.Links {
		if a := x.do("GET", path, ""); a.Status != 200 {
			t.Errorf("%s: %d", name, a.Status)
		}
	}
	a := x.do("GET", "/v1/schemas/saga.json", "").want(200)
	if !json.Valid(a.Body) || !strings.Contains(string(a.Body), "json-schema.org/draft/2020-12") {
		t.Errorf("schema of %d bytes", len(a.Body))
	}
}
