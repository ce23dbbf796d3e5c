package world_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"recourse/examples/world"

	"github.com/google/go-cmp/cmp"
)

var charge = request{method: "POST", path: "/pay/charges", key: "k1", body: `{"amount":19.10}`}

func failsWith(target error) func(testing.TB, response, error) {
	return func(t testing.TB, _ response, err error) {
		t.Helper()
		if !errors.Is(err, target) {
			t.Errorf("error: got %v, want %v", err, target)
		}
	}
}

func answers(status int, header, value, body string) func(testing.TB, response, error) {
	return func(t testing.TB, got response, err error) {
		t.Helper()
		if err != nil || got.status != status || got.header.Get(header) != value || !strings.Contains(got.body, body) {
			t.Errorf("got %d %s=%q %s, %v; want %d %q … %s", got.status, header, got.header.Get(header), got.body, err, status, value, body)
		}
	}
}

func biggerThan(size int) func(testing.TB, response, error) {
	return func(t testing.TB, got response, err error) {
		t.Helper()
		if err != nil || len(got.body) <= size || !json.Valid([]byte(got.body)) {
			t.Errorf("got %d bytes, %v; want JSON of more than %d", len(got.body), err, size)
		}
	}
}

// Each fault over a network: the client's view, the ledger, and the search by key afterwards.
func TestFaults(t *testing.T) {
	tests := []struct {
		name    string
		do      world.Do
		sees    func(testing.TB, response, error)
		effects int
		status  string
		fault   string
	}{
		{"before drop", world.Do{Before: "drop"}, failsWith(io.EOF), 0, "dropped", "before=drop"},
		{"before reset", world.Do{Before: "reset"}, failsWith(syscall.ECONNRESET), 0, "dropped", "before=reset"},
		{"before status", world.Do{Before: "status", Status: 503, RetryAfter: "9223372037"},
			answers(503, "Retry-After", "9223372037", "injected"), 0, "503", "before=status status=503"},
		{"before status with body", world.Do{Before: "status", Status: 402, Body: `{"no":"money"}`},
			answers(402, "Content-Type", "application/json", `{"no":"money"}`), 0, "402", "before=status status=402"},
		{"redirect", world.Do{Redirect: "http://127.0.0.1:1/x"},
			answers(307, "Location", "http://127.0.0.1:1/x", ""), 0, "307", "before=status status=307"},
		{"redirect 302", world.Do{Redirect: "/x", Status: 302}, answers(302, "Location", "/x", ""), 0, "302", "before=status status=302"},
		{"after drop", world.Do{After: "drop"}, failsWith(io.EOF), 1, "dropped", "after=drop"},
		{"after reset", world.Do{After: "reset"}, failsWith(syscall.ECONNRESET), 1, "dropped", "after=reset"},
		{"after cut", world.Do{After: "cut"}, func(t testing.TB, got response, err error) {
			failsWith(io.ErrUnexpectedEOF)(t, got, err)
			if promised, err := strconv.Atoi(got.header.Get("Content-Length")); err != nil || promised <= len(got.body) || got.body == "" {
				t.Errorf("got %d bytes of Content-Length %v", len(got.body), got.header)
			}
		}, 1, "201", "after=cut"},
		{"after truncate", world.Do{After: "truncate"}, func(t testing.TB, got response, err error) {
			if err != nil || got.status != 201 || got.body == "" || json.Valid([]byte(got.body)) {
				t.Errorf("got %d %q, %v; want 201 and half of the JSON", got.status, got.body, err)
			}
		}, 1, "201", "after=truncate"},
		{"after garbage", world.Do{After: "garbage"}, answers(200, "Content-Type", "application/json", "<html>"), 1, "200", "after=garbage"},
		{"after status", world.Do{After: "status", Status: 500}, answers(500, "Content-Type", "application/problem+json", "injected"),
			1, "500", "after=status status=500"},
		{"after oversize", world.Do{After: "oversize", MiB: 3}, biggerThan(3 << 20), 1, "201", "after=oversize"},
		{"after oversize by default", world.Do{After: "oversize"}, biggerThan(16 << 20), 1, "201", "after=oversize"},
		{"after slow", world.Do{After: "slow", SlowMS: 1}, answers(201, "Content-Type", "application/json", "19.10"), 1, "201", "after=slow"},
		{"delay", world.Do{DelayMS: 1}, answers(201, "Content-Type", "application/json", "19.10"), 1, "201", "delay=1ms"},
		{"late drop", world.Do{LateMS: 1, DelayMS: 1, Before: "drop"}, failsWith(io.EOF), 0, "dropped", "late=1ms delay=1ms before=drop"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := mustListen(t, world.Config{})
			mustFault(t, n.World, world.Rule{Times: 1, Do: tt.do})
			got, err := n.do(t, charge)
			tt.sees(t, got, err)

			l := n.Ledger()
			if len(l.Effects()) != tt.effects || l[0].Status != tt.status || l[0].Fault != tt.fault {
				t.Errorf("effects, status, fault: got %d, %q, %q; want %d, %q, %q",
					len(l.Effects()), l[0].Status, l[0].Fault, tt.effects, tt.status, tt.fault)
			}
			again := n.mustDo(t, charge, 201)
			if replayed := again.header.Get("Idempotency-Replayed") == "true"; replayed != (tt.effects == 1) {
				t.Errorf("replayed afterwards: got %v with %d effects before", replayed, tt.effects)
			}
			if again.field(t, "amount") != "19.10" {
				t.Errorf("afterwards: got %s", again.body)
			}
			if got := len(n.Ledger().Effects()); got != 1 {
				t.Errorf("effects in the end: got %d, want 1", got)
			}
		})
	}
}

func TestGzipBomb(t *testing.T) {
	for name, do := range map[string]world.Do{"shorthand": {GzipBomb: true, MiB: 4}, "after": {After: "gzip_bomb", MiB: 4}} {
		t.Run(name, func(t *testing.T) {
			n := mustListen(t, world.Config{})
			n.client.Transport.(*http.Transport).DisableCompression = false // the client decompresses
			mustFault(t, n.World, world.Rule{Do: do})
			got, err := n.do(t, charge)
			biggerThan(4<<20)(t, got, err)
			n.client.Transport.(*http.Transport).DisableCompression = true
			got, err = n.do(t, charge)
			if err != nil || got.header.Get("Content-Encoding") != "gzip" || len(got.body) > 64<<10 {
				t.Errorf("on the wire: got %d bytes, %v, %v", len(got.body), got.header, err)
			}
		})
	}
}

func TestHang(t *testing.T) {
	for _, tt := range []struct {
		do      world.Do
		effects int
	}{{world.Do{Before: "hang"}, 0}, {world.Do{After: "hang"}, 1}} {
		t.Run(tt.do.Before+tt.do.After, func(t *testing.T) {
			n := mustListen(t, world.Config{})
			mustFault(t, n.World, world.Rule{Times: 1, Do: tt.do})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() {
				resp, err := n.client.Do(charge.build(t, n.URL).WithContext(ctx))
				if err == nil {
					err = resp.Body.Close()
				}
				ended <- err
			}()
			l := mustAwait(t, n.World, func(l world.Ledger) bool { return len(l) > 0 && l[0].Status == "dropped" })
			if got := len(l.Effects()); got != tt.effects {
				t.Errorf("effects: got %d, want %d", got, tt.effects)
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("error: got %v, want canceled", err)
			}
			n.mustDo(t, charge, 201)
		})
	}
}

// A hanging request ends when its client disconnects.
func TestHangEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(world.Config{})
		mustFault(t, w, world.Rule{Do: world.Do{Before: "hang"}})
		ctx, goAway := context.WithCancel(t.Context())
		ended := make(chan any)
		go func() {
			defer func() { ended <- recover() }()
			w.ServeHTTP(httptest.NewRecorder(), charge.build(t, "http://world").WithContext(ctx))
		}()
		synctest.Wait()
		goAway()
		if got := <-ended; got != any(http.ErrAbortHandler) {
			t.Errorf("got %v, want ErrAbortHandler: a recorder has no connection to close", got)
		}
		w.Close()
	})
}

func mustAwait(t testing.TB, w *world.World, holds func(world.Ledger) bool) world.Ledger {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := w.Await(ctx, holds)
	if err != nil {
		t.Fatalf("await: %v; ledger %+v", err, l)
	}
	return l
}

// The client of a delayed request disconnects; the effect happens nevertheless.
func TestDelayOutlivesTheClient(t *testing.T) {
	for _, do := range []world.Do{{DelayMS: 1000}, {LateMS: 1000}} {
		synctest.Test(t, func(t *testing.T) {
			w := world.New(world.Config{})
			mustFault(t, w, world.Rule{Do: do})
			ctx, goAway := context.WithCancel(t.Context())
			served := make(chan struct{})
			go func() {
				defer close(served)
				w.ServeHTTP(httptest.NewRecorder(), charge.build(t, "http://world").WithContext(ctx))
			}()
			synctest.Wait()
			goAway()
			synctest.Wait()
			if got := len(w.Ledger().Effects()); got != 0 {
				t.Errorf("%v: effects before the time: got %d, want 0", do, got)
			}
			<-served
			if got := len(w.Ledger().Effects()); got != 1 {
				t.Errorf("%v: effects: got %d, want 1", do, got)
			}
			w.Close()
		})
	}
}

// Close drops hanging and delayed requests; the delayed ones have no effect.
func TestCloseEndsRequestsInFlight(t *testing.T) {
	for _, do := range []world.Do{{Before: "hang"}, {DelayMS: 3_600_000}, {LateMS: 3_600_000}, {DelayMS: 3_600_000, Before: "drop"}} {
		t.Run(do.String(), func(t *testing.T) {
			s, err := world.Start("127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			mustFault(t, s.World, world.Rule{Do: do})
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			ended := make(chan error)
			go func() {
				resp, err := client.Do(charge.build(t, s.URL))
				if err == nil {
					err = resp.Body.Close()
				}
				ended <- err
			}()
			mustAwait(t, s.World, func(l world.Ledger) bool { return len(l) == 1 })
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			if err := <-ended; err == nil {
				t.Error("the request was answered")
			}
			l := s.Ledger()
			if len(l) != 1 || l[0].Status != "dropped" {
				t.Errorf("ledger: got %+v, want one dropped request", l)
			}
		})
	}
}

func TestDuplicateDelivery(t *testing.T) {
	for _, tt := range []struct {
		key     string
		effects int
	}{{"k1", 1}, {"", 3}} {
		w := world.New(world.Config{})
		mustFault(t, w, world.Rule{Times: 1, Do: world.Do{Duplicate: 2}})
		r := charge
		r.key = tt.key
		want(t, w, r, 201)
		l := w.Ledger()
		dup := l.Requests().Where(func(e world.Entry) bool { return e.Fault == world.Duplicate })
		if len(l.Requests()) != 3 || len(dup) != 2 || len(l.Effects()) != tt.effects {
			t.Errorf("key %q: requests, duplicates, effects: got %d, %d, %d; want 3, 2, %d",
				tt.key, len(l.Requests()), len(dup), len(l.Effects()), tt.effects)
		}
	}
}

func TestRulesCount(t *testing.T) {
	w := world.New(world.Config{})
	status := func(s int) world.Do { return world.Do{Before: "status", Status: s} }
	mustFault(t, w, world.Rule{Match: world.Match{Method: "post", PathPrefix: "/pay/"}, Skip: 1, Times: 2, Do: status(500)})
	mustFault(t, w, world.Rule{Match: world.Match{BodyContains: "special"}, Do: status(429)})
	mustFault(t, w, world.Rule{Match: world.Match{Key: "k9"}, Times: 1, Do: status(503)})
	pay := request{method: "POST", path: "/pay/charges", body: `{"amount":1}`}
	special := request{method: "POST", path: "/pay/charges", body: `{"amount":1,"note":"special"}`}
	keyed := request{method: "POST", path: "/things", key: "k9"}
	steps := []struct {
		request
		status int
	}{
		{pay, 201}, {request{method: "GET", path: "/pay/charges/x"}, 404}, {pay, 500}, {special, 500}, {pay, 201},
		{special, 429}, {special, 429}, {keyed, 503}, {keyed, 201},
	}
	for i, s := range steps {
		if got := call(t, w, s.request); got.status != s.status {
			t.Errorf("request %d: got %d, want %d", i, got.status, s.status)
		}
	}
	var counts [][2]int
	for _, f := range w.Faults() {
		counts = append(counts, [2]int{f.Matched, f.Fired})
	}
	if diff := cmp.Diff([][2]int{{6, 2}, {2, 2}, {2, 1}}, counts); diff != "" {
		t.Errorf("matched, fired (-want +got):\n%s", diff)
	}
	w.ClearFaults()
	want(t, w, special, 201)
}

func TestFaultsOfReadsAndReplays(t *testing.T) {
	w := world.New(world.Config{})
	want(t, w, charge, 201)
	mustFault(t, w, world.Rule{Times: 2, Do: world.Do{After: "status", Status: 502}})
	want(t, w, charge, 502)
	want(t, w, request{method: "GET", path: "/pay/charges?idempotency_key=k1"}, 502)
	want(t, w, charge, 201)
	if got := len(w.Ledger().Effects()); got != 1 {
		t.Errorf("effects: got %d, want 1", got)
	}
}

func TestBadRules(t *testing.T) {
	for name, r := range map[string]world.Rule{
		"nothing":            {},
		"negative":           {Skip: -1, Do: world.Do{Before: "drop"}},
		"before":             {Do: world.Do{Before: "cut"}},
		"after":              {Do: world.Do{After: "explode"}},
		"both":               {Do: world.Do{Before: "drop", After: "drop"}},
		"no status":          {Do: world.Do{Before: "status"}},
		"stray status":       {Do: world.Do{Before: "drop", Status: 500}},
		"stray retry-after":  {Do: world.Do{After: "drop", RetryAfter: "1"}},
		"stray mib":          {Do: world.Do{After: "drop", MiB: 1}},
		"too many mib":       {Do: world.Do{After: "oversize", MiB: 1025}},
		"slow without pace":  {Do: world.Do{After: "slow"}},
		"pace without slow":  {Do: world.Do{After: "drop", SlowMS: 1}},
		"bomb and drop":      {Do: world.Do{After: "drop", GzipBomb: true}},
		"bomb before":        {Do: world.Do{Before: "drop", GzipBomb: true}},
		"duplicate of none":  {Do: world.Do{Before: "drop", Duplicate: 1}},
		"redirect of a drop": {Do: world.Do{Before: "drop", Redirect: "/x"}},
	} {
		w := world.New(world.Config{})
		if err := w.AddFault(r); !errors.Is(err, world.ErrRule) {
			t.Errorf("%s: got %v, want ErrRule", name, err)
		}
		if got := w.Faults(); len(got) != 0 {
			t.Errorf("%s: the rule was added: %+v", name, got)
		}
	}
}

// A request in flight at a reset is not in the new ledger.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var file bytes.Buffer
		w := world.New(world.Config{Tokens: map[string]string{"stock": "s"}, LedgerTo: &file})
		mustFault(t, w, world.Rule{Do: world.Do{DelayMS: 1000}})
		w.SetToken("stock", "")
		late := make(chan response)
		go func() { late <- call(t, w, charge) }()
		synctest.Wait()
		w.Reset()
		<-late
		if got := w.Ledger(); len(got) != 0 {
			t.Errorf("ledger: got %+v, want none", got)
		}
		if got := want(t, w, charge, 201).header.Get("Idempotency-Replayed"); got != "" {
			t.Errorf("replayed from before the reset")
		}
		if got := w.Ledger()[0].N; got != 2 {
			t.Errorf("n after the reset: got %d, want 2", got)
		}
		want(t, w, request{method: "POST", path: "/stock/expected-returns"}, 401)
		read, err := world.ReadLedger(&file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(w.Ledger(), read[1:]); diff != "" || read[0].Status != "" {
			t.Errorf("ledger file: first entry %+v, then (-want +got):\n%s", read[0], diff)
		}
		w.Close()
	})
}

func TestAwaitOutlivesAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(world.Config{})
		got := make(chan world.Ledger)
		go func() {
			l, err := w.Await(t.Context(), func(l world.Ledger) bool { return len(l.Effects()) == 1 })
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		synctest.Wait()
		w.Reset()
		want(t, w, charge, 201)
		if l := <-got; len(l) != 2 {
			t.Errorf("got %+v", l)
		}
		w.Close()
	})
}
