package world_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"recourse/examples/world"

	"github.com/google/go-cmp/cmp"
)

var writes = []request{
	{method: "POST", path: "/air/bookings", body: `{"route":"CPH-LIS"}`},
	{method: "POST", path: "/hotels/reservations", body: `{"nights":2}`},
	{method: "POST", path: "/pay/charges", body: `{"amount":19.10}`},
	{method: "POST", path: "/pay/refunds", body: `{"order":"o1","amount":5}`},
	{method: "POST", path: "/stock/expected-returns", body: `{"sku":"s"}`},
	{method: "POST", path: "/shipping/labels", body: `{"order":"o1"}`},
	{method: "POST", path: "/ship/orders", body: `{"charge":"ch_1"}`},
	{method: "POST", path: "/things", body: `{"n":1}`},
	{method: "PUT", path: "/things/lamp", body: `{"n":1}`},
}

func TestKeyReplaysTheAnswer(t *testing.T) {
	for _, r := range writes {
		t.Run(r.method+r.path, func(t *testing.T) {
			w := world.New(world.Config{})
			r.key = "k1"
			first := want(t, w, r, http.StatusCreated)
			second := want(t, w, r, http.StatusCreated)
			if first.header.Get("Idempotency-Replayed") != "" || second.header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("Idempotency-Replayed: got %v then %v", first.header, second.header)
			}
			if diff := cmp.Diff(first.body, second.body); diff != "" {
				t.Errorf("replayed body (-first +second):\n%s", diff)
			}
			l := w.Ledger()
			if got := []int{len(l.Requests()), len(l.Effects()), len(l.Key("k1"))}; !cmp.Equal(got, []int{2, 1, 3}) {
				t.Errorf("requests, effects, entries of the key: got %v, want [2 1 3]", got)
			}
			if got := l.Requests(); got[0].Replayed || !got[1].Replayed {
				t.Errorf("replayed in the ledger: got %v, %v", got[0].Replayed, got[1].Replayed)
			}
			r.key = ""
			want(t, w, r, map[string]int{"PUT": 200, "POST": 201}[r.method])
			if got := len(w.Ledger().Effects()); got != 2 {
				t.Errorf("effects after a request without key: got %d, want 2", got)
			}
		})
	}
}

func TestKeyInBody(t *testing.T) {
	w := world.New(world.Config{})
	r := request{method: "POST", path: "/hotels/reservations", body: `{"city":"LIS","nights":3,"client_token":"k1"}`}
	first := want(t, w, r, 201)
	if second := want(t, w, r, 201); second.body != first.body {
		t.Errorf("got %s, want %s", second.body, first.body)
	}
	if strings.Contains(first.body, "client_token") {
		t.Errorf("the token is shown: %s", first.body)
	}
	if got := w.Ledger().EffectsByKey(); !cmp.Equal(got, map[string]int{"k1": 1}) {
		t.Errorf("effects by key: got %v", got)
	}
	undo := request{method: "POST", path: "/hotels/reservations/" + first.id(t) + "/cancel", body: `{"client_token":"k2"}`}
	want(t, w, undo, 200)
	if got := want(t, w, undo, 200).header.Get("Idempotency-Replayed"); got != "true" {
		t.Errorf("second undo under the same token: replayed %q", got)
	}
}

func TestKeyRefusesAnotherRequest(t *testing.T) {
	charge := request{method: "POST", path: "/pay/charges", key: "k1", body: `{"amount":1}`}
	for name, other := range map[string]request{
		"body": {method: "POST", path: "/pay/charges", key: "k1", body: `{"amount":1} `},
		"path": {method: "POST", path: "/pay/refunds", key: "k1", body: `{"amount":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := world.New(world.Config{})
			want(t, w, charge, 201)
			got := want(t, w, other, http.StatusUnprocessableEntity)
			if ct := got.header.Get("Content-Type"); ct != "application/problem+json" {
				t.Errorf("Content-Type: got %q", ct)
			}
			want(t, w, charge, 201)
			if got := len(w.Ledger().Effects()); got != 1 {
				t.Errorf("effects: got %d, want 1", got)
			}
		})
	}
	t.Run("of another service is free", func(t *testing.T) {
		w := world.New(world.Config{})
		want(t, w, charge, 201)
		want(t, w, request{method: "POST", path: "/things", key: "k1", body: `{}`}, 201)
	})
}

func TestRefusalLeavesTheKeyFree(t *testing.T) {
	w := world.New(world.Config{})
	want(t, w, request{method: "POST", path: "/pay/charges", key: "k1", body: `{"amount":-1}`}, 400)
	want(t, w, request{method: "POST", path: "/pay/charges", key: "k1", body: `{"amount":1}`}, 201)
}

func TestKeyInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(world.Config{})
		mustFault(t, w, world.Rule{Times: 1, Do: world.Do{DelayMS: 5000}})
		r := request{method: "POST", path: "/pay/charges", key: "k1", body: `{"amount":1}`}
		first := make(chan response)
		go func() { first <- call(t, w, r) }()
		synctest.Wait()
		busy := want(t, w, r, http.StatusConflict)
		if got := busy.header.Get("Retry-After"); got != "1" {
			t.Errorf("Retry-After: got %q, want 1", got)
		}
		if got := len(w.Ledger().Effects()); got != 0 {
			t.Fatalf("effects while in flight: got %d, want 0", got)
		}
		made := <-first
		if again := want(t, w, r, 201); again.body != made.body || made.status != 201 {
			t.Errorf("after the flight: got %s, want %d %s", again.body, made.status, made.body)
		}
		if got := len(w.Ledger().Effects()); got != 1 {
			t.Errorf("effects: got %d, want 1", got)
		}
		w.Close()
	})
}

// A late request has not claimed its key: the second request has the effect, and the late one is a
// replay.
func TestLateRequestIsReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(world.Config{})
		mustFault(t, w, world.Rule{Times: 1, Do: world.Do{LateMS: 5000}})
		r := request{method: "POST", path: "/pay/charges", key: "k1", body: `{"amount":1}`}
		late := make(chan response)
		go func() { late <- call(t, w, r) }()
		synctest.Wait()
		want(t, w, r, 201)
		if got := <-late; got.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("late request: got %d %v, want a replay", got.status, got.header)
		}
		if got := w.Ledger().EffectsByKey(); !cmp.Equal(got, map[string]int{"k1": 1}) {
			t.Errorf("effects by key: got %v", got)
		}
		w.Close()
	})
}

func TestConcurrentRequestsUnderOneKey(t *testing.T) {
	n := mustListen(t, world.Config{})
	r := request{method: "POST", path: "/things", key: "k1", body: `{"n":1}`}
	var all sync.WaitGroup
	got := make([]response, 32)
	for i := range got {
		all.Go(func() {
			resp, err := n.do(t, r)
			if err != nil {
				t.Error(err)
			}
			got[i] = resp
		})
	}
	all.Wait()
	fresh := 0
	for _, g := range got {
		switch {
		case g.status == 201 && g.header.Get("Idempotency-Replayed") == "":
			fresh++
		case g.status != 201 && g.status != 409:
			t.Errorf("got %d %s", g.status, g.body)
		}
	}
	l := n.Ledger()
	if fresh != 1 || len(l.Effects()) != 1 || len(l.Requests()) != len(got) {
		t.Errorf("fresh answers, effects, requests: got %d, %d, %d; want 1, 1, %d", fresh, len(l.Effects()), len(l.Requests()), len(got))
	}
}

func TestKeyWindow(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	w := world.New(world.Config{KeyWindow: time.Hour, Now: func() time.Time { return now }})
	r := request{method: "POST", path: "/pay/charges", key: "k1", body: `{"amount":1}`}
	want(t, w, r, 201)
	now = now.Add(time.Hour - time.Nanosecond)
	want(t, w, r, 201)
	if got := len(w.Ledger().Effects()); got != 1 {
		t.Fatalf("effects inside the window: got %d, want 1", got)
	}
	now = now.Add(time.Nanosecond)
	want(t, w, r, 201)
	if got := len(w.Ledger().Effects()); got != 2 {
		t.Errorf("effects past the window: got %d, want 2", got)
	}
}

func TestMailIgnoresKeys(t *testing.T) {
	w := world.New(world.Config{})
	r := request{method: "POST", path: "/mail/send", key: "k1", body: `{"to":"a@example.com"}`}
	first, second := want(t, w, r, 202), want(t, w, r, 202)
	if first.id(t) == second.id(t) {
		t.Errorf("the same mail twice: %s", first.body)
	}
	if got := w.Ledger().EffectsByKey(); !cmp.Equal(got, map[string]int{"k1": 2}) {
		t.Errorf("effects by key: got %v, want k1: 2", got)
	}
}
