package api

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/internal/costs/tally"
	"recourse/journal"
	"recourse/saga"
)

const dearDef = `saga: dear
input: {price: decimal}
steps:
  - {id: buy, http: "POST ${vars.things}/things", body: {}, cost: {from: input.price, reserve: 99 USD}}
`

// spend runs a saga with these costs.
func (x *fixture) spend(price, tier string) string {
	x.t.Helper()
	id := x.do("POST", "/v1/sagas", fmt.Sprintf(`{"definition": "dear", "input": {"price": %s}, "labels": {"tier": %q}}`, price, tier)).want(201).saga().ID
	x.until(id, is(saga.Succeeded))
	return id
}

func (x *fixture) costs(query string) costsView {
	x.t.Helper()
	var v costsView
	x.do("GET", "/v1/costs"+query, "").want(200).into(&v)
	return v
}

func TestCosts(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(dearDef)
		x.publish(echoDef)
		for range 3 {
			x.spend("0.10", "gold")
		}
		dear := x.spend("0.31", "gold")
		x.spend("0.3", "Silver & Co")
		x.until(x.do("POST", "/v1/sagas", `{"definition": "echo"}`).want(201).saga().ID, is(saga.Succeeded))
		day := x.do("GET", "/v1/sagas/"+dear, "").want(200).saga().CreatedAt.UTC().Format(time.DateOnly)

		above := []tally.Outlier{{Saga: dear, Spent: "0.31"}}
		free := tally.Group{Sagas: 1, Ended: 1, Spent: "0", Wasted: "0", Median: "0", P90: "0", Max: "0", Outliers: []tally.Outlier{}}
		usd := tally.Group{Currency: "USD", Sagas: 5, Ended: 5, Spent: "0.91", Wasted: "0", Median: "0.10", P90: "0.31", Max: "0.31", Outliers: above}
		group := func(g tally.Group, key string) tally.Group {
			g.Key = key
			return g
		}
		gold := tally.Group{Key: "gold", Currency: "USD", Sagas: 4, Ended: 4, Spent: "0.61", Wasted: "0", Median: "0.10", P90: "0.31", Max: "0.31", Outliers: above}
		silver := tally.Group{Key: "Silver & Co", Currency: "USD", Sagas: 1, Ended: 1, Spent: "0.3", Wasted: "0", Median: "0.3", P90: "0.3", Max: "0.3", Outliers: []tally.Outlier{}}
		spread := group(usd, "dear")
		spread.Buckets = []tally.Bucket{{From: "0.1", To: "0.11", Sagas: 3}, {From: "0.11", To: "0.12"}, {From: "0.12", To: "0.13"}, {From: "0.13", To: "0.15"},
			{From: "0.15", To: "0.16"}, {From: "0.16", To: "0.18"}, {From: "0.18", To: "0.2"}, {From: "0.2", To: "0.22"}, {From: "0.22", To: "0.24"},
			{From: "0.24", To: "0.27"}, {From: "0.27", To: "0.3"}, {From: "0.3", To: "0.33", Sagas: 2}}
		hour := func(d time.Duration) string { return url.QueryEscape(x.eng.Now().Add(d).Format(time.RFC3339)) }
		for _, tt := range []struct {
			query string
			sagas int
			want  []tally.Group
		}{
			{"", 6, []tally.Group{group(usd, "dear"), group(free, "echo")}},
			{"?group_by=day", 6, []tally.Group{group(usd, day), group(free, day)}},
			{"?group_by=label.tier", 6, []tally.Group{gold, silver, free}},
			{"?group_by=model", 6, []tally.Group{}},
			{"?group_by=day&definition=dear", 5, []tally.Group{group(usd, day)}},
			{"?group_by=definition&definition=dear", 5, []tally.Group{spread}},
			{"?definition=none", 0, []tally.Group{}},
			{"?since=" + hour(-time.Hour) + "&until=" + hour(time.Hour), 6, []tally.Group{group(usd, "dear"), group(free, "echo")}},
			{"?until=" + hour(-time.Hour), 0, []tally.Group{}},
			{"?until=1960-01-01T00:00:00Z", 0, []tally.Group{}},
			{"?definition=dear&since=" + hour(-2*time.Hour) + "&until=" + hour(-time.Hour), 0, []tally.Group{}},
		} {
			got := x.costs(tt.query)
			if d := cmp.Diff(tt.want, got.Groups); d != "" || got.Sagas != tt.sagas || !got.Complete {
				t.Errorf("%s: %d sagas, complete %v (-want +got):\n%s", tt.query, got.Sagas, got.Complete, d)
			}
		}
		if v := x.costs("?group_by=model"); v.GroupBy != "model" || v.Until.Sub(v.Since.Time) != defaultWindow || x.eng.Now().Sub(v.Until.Time).Abs() > time.Minute {
			t.Errorf("the window is %+v", v)
		}
	})
}

// Beyond the limit only the newest sagas count, and `since` says from which time on.
func TestCostsAreBounded(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(dearDef)
		var list []string
		for _, price := range []string{"1", "2", "3", "4"} {
			list = append(list, x.spend(price, "gold"))
		}
		limited := func(n int) costsView {
			y := *x
			y.cfg.Limits.CostSagas = n
			y.url = serve(t, y.cfg)
			return y.costs("?group_by=definition")
		}
		for n, want := range map[int]string{1: "4", 3: "9", 4: "10", 5: "10"} {
			got := limited(n)
			if got.Groups[0].Spent != want || got.Complete != (n >= 4) || got.Sagas != min(n, 4) {
				t.Errorf("at most %d: %+v", n, got)
			}
			if n < 4 {
				if at := x.do("GET", "/v1/sagas/"+list[4-n], "").want(200).saga().CreatedAt; got.Since.Sub(at.Time).Abs() > time.Second {
					t.Errorf("at most %d: since %s, the saga is of %s", n, got.Since, at)
				}
			}
		}
	})
}

func TestCostsRefused(t *testing.T) {
	x := newFixture(t)
	for query, detail := range map[string]string{
		"?group_by=tier":                     "label.tier",
		"?group_by=":                         "definition, day",
		"?group_by=label.":                   "label.tier",
		"?group_by=label.A":                  "label.tier",
		"?since=yesterday":                   "2026",
		"?since=0000-01-01T00:00:00%2B23:59": "2026", // before the year 0: clients could not parse it in the response
		"?until=7d":                          "2026",
		"?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z": "before until",
		"?since=2999-01-02T00:00:00Z":                            "before now",
		"?groupby=day":                                           `did you mean "group_by"?`,
		"?label.tier=gold":                                       "there is no parameter",
		"?since=2026-01-02T00:00:00Z&since=2026-01-02T00:00:00Z": "twice",
		"?definition=%00":                                        "UTF-8",
	} {
		p := x.do("GET", "/v1/costs"+query, "", outside).problem(400, "invalid_request")
		text := p.Detail
		for _, f := range p.Errors {
			text += " " + f.Detail
		}
		if !strings.Contains(text, detail) {
			t.Errorf("%s: %q does not say %q", query, text, detail)
		}
	}
	for _, broken := range []string{"0000-00-00", "9999"} {
		x.do("GET", "/v1/costs?since="+broken, "", outside).problem(400, "invalid_request")
	}
}

// The number of cached results is bounded.
func TestCostsKept(t *testing.T) {
	r, now := newRecentCosts(), time.Now()
	for i := range 10 * mostKept {
		if _, err := r.views(t.Context(), strconv.Itoa(i), func() time.Time { return now }, time.Minute, func() (costsViews, error) { return costsViews{}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.kept) > mostKept {
		t.Errorf("%d answers are kept", len(r.kept))
	}
	if r.find(strconv.Itoa(10*mostKept-1), now) == nil {
		t.Error("the last one is not")
	}
}

// counting counts the reads of costs of a store, and blocks them until released.
type counting struct {
	journal.Store
	mu    sync.Mutex
	asked int
	hold  chan struct{}
}

func (s *counting) Costs(ctx context.Context, f journal.CostFilter) ([]journal.Cost, error) {
	s.mu.Lock()
	s.asked++
	s.mu.Unlock()
	<-s.hold
	return s.Store.Costs(ctx, f)
}

// Concurrent requests for the same costs count once; the result expires.
func TestCostsAreKept(t *testing.T) {
	store := &counting{hold: make(chan struct{})}
	x := newFixture(t, func(c *Config) {
		store.Store = c.Store
		c.Store = store
		c.Limits.Costs = time.Minute
	})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { x.send(t, "GET", "/v1/costs?group_by=day", "") })
	}
	store.hold <- struct{}{}
	close(store.hold)
	all.Wait()
	if store.asked != 1 {
		t.Errorf("counted %d times", store.asked)
	}
	x.costs("?group_by=model")
	x.costs("")
	if store.asked != 1 {
		t.Errorf("what is counted together was counted %d times", store.asked)
	}
	x.costs("?group_by=label.tier")
	x.costs("?group_by=label.tier")
	x.costs("?group_by=day&definition=x")
	if store.asked != 3 {
		t.Errorf("counted %d times, want three", store.asked)
	}
	r, now := newRecentCosts(), time.Now()
	clock := func() time.Time { return now }
	n, takes := 0, time.Duration(0)
	ask := func() {
		count := func() (costsViews, error) {
			n++
			now = now.Add(takes)
			return costsViews{}, nil
		}
		if _, err := r.views(t.Context(), "q", clock, time.Second, count); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	now = now.Add(time.Second - 1)
	ask()
	if n != 1 {
		t.Errorf("%d counts, want one", n)
	}
	now = now.Add(1)
	ask()
	if n != 2 {
		t.Errorf("%d counts after it is too old, want two", n)
	}
	takes = 10 * time.Second
	now = now.Add(time.Second)
	ask()
	now = now.Add(39 * time.Second)
	ask()
	if n != 3 {
		t.Errorf("%d counts, want three: what took long is kept for longer", n)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r.turn <- struct{}{}
	if _, err := r.views(gone, "other", clock, time.Second, nil); err == nil {
		t.Error("nobody waits for the one who counts")
	}
}
