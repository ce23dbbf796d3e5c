package world_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"recourse/examples/world"

	"github.com/google/go-cmp/cmp"
)

func TestControl(t *testing.T) {
	n := mustListen(t, world.Config{})
	ctx := t.Context()
	c := world.Control{URL: n.URL, Client: n.client}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.AddFault(ctx, world.Rule{Match: world.Match{PathPrefix: "/pay"}, Times: 1, Do: world.Do{After: "drop"}}))
	if _, err := n.do(t, charge); err == nil {
		t.Error("the rule did not fire")
	}
	faults, err := c.Faults(ctx)
	must(err)
	if diff := cmp.Diff(n.Faults(), faults); diff != "" || faults[0].Fired != 1 {
		t.Errorf("faults: %+v\n%s", faults, diff)
	}
	must(c.ClearFaults(ctx))
	must(c.SetToken(ctx, "pay", "right"))
	n.mustDo(t, charge, 401)
	must(c.SetToken(ctx, "pay", ""))
	n.mustDo(t, charge, 201)

	l, err := c.Ledger(ctx, 0, 0)
	must(err)
	if diff := cmp.Diff(n.Ledger(), l); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
	b, err := c.Balance(ctx)
	must(err)
	if diff := cmp.Diff(n.Balance(), b); diff != "" {
		t.Errorf("balance (-want +got):\n%s", diff)
	}
	must(c.Reset(ctx))
	if got := n.Ledger(); len(got) != 0 {
		t.Errorf("ledger after the reset: %+v", got)
	}
}

func TestControlWaitsForTheLedger(t *testing.T) {
	n := mustListen(t, world.Config{})
	c := world.Control{URL: n.URL, Client: n.client}
	n.mustDo(t, charge, 201)
	got := make(chan world.Ledger)
	go func() {
		l, err := c.Ledger(t.Context(), 2, time.Minute)
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	n.mustDo(t, charge, 201)
	if l := <-got; len(l) != 1 || l[0].N != 3 {
		t.Errorf("got %+v, want the entry 3", l)
	}
	if l, err := c.Ledger(t.Context(), 3, time.Millisecond); err != nil || len(l) != 0 {
		t.Errorf("out of time: got %+v, %v; want none", l, err)
	}
}

func TestCloseEndsTheWaitForTheLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(world.Config{})
		began := time.Now()
		answered := make(chan int)
		go func() {
			rec := httptest.NewRecorder()
			req := httptest.NewRequestWithContext(t.Context(), "GET", "/_ledger?wait=1m", nil)
			req.RemoteAddr = "127.0.0.1:9"
			w.ServeHTTP(rec, req)
			answered <- rec.Code
		}()
		synctest.Wait()
		go w.Close()
		if got := <-answered; got != 200 || time.Since(began) != 0 {
			t.Errorf("got %d after %v, want 200 at once", got, time.Since(began))
		}
	})
}

func TestControlRefuses(t *testing.T) {
	w := world.New(world.Config{})
	tests := []struct {
		from, method, path, body string
		status                   int
		say                      string
	}{
		{"127.0.0.1:9", "GET", "/_healthz", "", 200, "ok"},
		{"192.0.2.1:9", "GET", "/_healthz", "", 200, "ok"},
		{"[::1]:9", "GET", "/_ledger", "", 200, "[]"},
		{"192.0.2.1:9", "GET", "/_ledger", "", 403, "loopback"},
		{"192.0.2.1:9", "GET", "/_balance", "", 403, "loopback"},
		{"192.0.2.1:9", "GET", "/_faults", "", 403, "loopback"},
		{"192.0.2.1:9", "POST", "/_faults", `{"do":{"before":"drop"}}`, 403, "loopback"},
		{"192.0.2.1:9", "DELETE", "/_faults", "", 403, "loopback"},
		{"192.0.2.1:9", "POST", "/_auth", `{"service":"pay","token":"x"}`, 403, "loopback"},
		{"192.0.2.1:9", "POST", "/_reset", "", 403, "loopback"},
		{"", "POST", "/_reset", "", 403, "loopback"},
		{"127.0.0.1:9", "POST", "/_faults", `{"do":{"before":"drop"}}`, 201, "drop"},
		{"127.0.0.1:9", "POST", "/_faults", `{"do":{"befor":"drop"}}`, 400, "befor"},
		{"127.0.0.1:9", "POST", "/_faults", `{"do":{}}`, 400, "do is empty"},
		{"127.0.0.1:9", "POST", "/_auth", `{"service":"bank","token":"x"}`, 400, "air, hotels"},
		{"127.0.0.1:9", "POST", "/_auth", `{"service":`, 400, "JSON"},
		{"127.0.0.1:9", "GET", "/_ledger?after=x", "", 400, "after"},
		{"127.0.0.1:9", "GET", "/_ledger?wait=2h", "", 400, "1m0s"},
	}
	for _, tt := range tests {
		rec := httptest.NewRecorder()
		req := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, strings.NewReader(tt.body))
		req.RemoteAddr = tt.from
		w.ServeHTTP(rec, req)
		if rec.Code != tt.status || !strings.Contains(rec.Body.String(), tt.say) {
			t.Errorf("%s %s from %q: got %d %s, want %d … %s", tt.method, tt.path, tt.from, rec.Code, rec.Body, tt.status, tt.say)
		}
	}
	if got := w.Faults(); len(got) != 1 {
		t.Errorf("rules: got %+v, want the one that was allowed", got)
	}
	if got := w.Ledger(); len(got) != 0 {
		t.Errorf("control requests are in the ledger: %+v", got)
	}
}

func TestControlOfNoWorld(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	c := world.Control{URL: s.URL, Client: s.Client()}
	if err := c.Reset(t.Context()); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v, want the status", err)
	}
}
