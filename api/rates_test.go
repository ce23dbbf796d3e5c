package api

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A principal has one bucket for all its keys, and each principal has its own. A refusal says when
// to retry, and does nothing.
func TestRates(t *testing.T) {
	x := newFixture(t, func(c *Config) {
		c.RequireKeys = true
		c.Rates = Rates{Each: Rate{Every: 1000 * time.Second, Burst: 3}, Names: map[string]Rate{"key of admin": {}, "key of viewer": {Every: 100 * time.Second}}}
	})
	with := func(role string) header {
		_, secret := addKey(x, role, time.Time{})
		return header{"Authorization", "Bearer " + secret}
	}
	admin, one, two, operator, viewer := with("admin"), with("client"), with("client"), with("operator"), with("viewer")
	x.do("GET", "/v1/sagas", "", one).want(200)
	x.do("GET", "/v1/sagas", "", two).want(200)
	x.do("GET", "/v1/whoami", "", one).want(200)
	for _, key := range []header{one, two} {
		a := x.do("POST", "/v1/sagas", `{"definition": "none"}`, key)
		a.problem(429, "rate_limited")
		if s, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || s < 900 || s > 1000 {
			t.Errorf("Retry-After %q", a.Header.Get("Retry-After"))
		}
	}
	x.do("GET", "/v1/sagas", "", operator).want(200)
	x.do("GET", "/v1/sagas", "", viewer).want(200)
	x.do("GET", "/v1/sagas", "", viewer).problem(429, "rate_limited")
	x.do("GET", "/healthz", "").want(200)
	for range 20 {
		x.do("GET", "/v1/sagas", "", admin).want(200)
	}
	if m := x.do("GET", "/metrics", "", admin).want(200); !strings.Contains(string(m.Body), `recourse_http_rate_limited_total{role="client"} 2`) {
		t.Error("the metric does not count them")
	}
	// A returned token is one request, and refused requests take none.
	b := buckets{rates: Rates{Each: Rate{Every: time.Second}}}
	now := time.Unix(0, 0)
	got := []time.Duration{b.wait("a", now), b.wait("a", now), b.wait("a", now), b.wait("a", now.Add(time.Second)), b.wait("a", now.Add(1500*time.Millisecond))}
	want := []time.Duration{0, time.Second, time.Second, 0, 500 * time.Millisecond}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("waits %v, want %v", got, want)
			break
		}
	}
}

// Refused requests take no token from a later one, however many there are.
func TestRefusedRequestsTakeNoToken(t *testing.T) {
	now := time.Unix(0, 0)
	for range 10 {
		b := buckets{rates: Rates{Each: Rate{Every: time.Second}}}
		b.wait("a", now)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 10_000 {
					b.wait("a", now)
				}
			})
		}
		all.Wait()
		if wait := b.wait("a", now.Add(time.Second)); wait > 0 {
			t.Fatalf("a request a second later waits for %v", wait)
		}
	}
}

// Subjects of an issuer may be many: full buckets are dropped, and one that is not full is kept.
func TestBucketsAreBounded(t *testing.T) {
	b := buckets{rates: Rates{Each: Rate{Every: time.Hour, Burst: 2}}}
	now := time.Now()
	for i := range mostBuckets {
		b.wait(strconv.Itoa(i), now)
	}
	now = now.Add(90 * time.Minute)
	b.wait("busy", now)
	if len(b.of) != 1 {
		t.Errorf("%d buckets", len(b.of))
	}
	for i := range mostBuckets {
		b.wait(strconv.Itoa(i), now)
	}
	if b.wait("busy", now); b.wait("busy", now) == 0 {
		t.Error("a bucket that is not full was dropped")
	}
}
