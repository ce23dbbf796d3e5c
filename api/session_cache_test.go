package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga/machine"
)

// Sessions that nobody uses are dropped as soon as all of them take too much memory or are too
// many, and those in use stay.
func TestSharedSessions(t *testing.T) {
	t.Parallel()
	var a sharedSessions
	id := func(n int) uuid.UUID { return uuid.UUID{byte(n), byte(n >> 8)} }
	used := a.enter(id(1))
	for n := 2; n < 10; n++ {
		a.leave(a.enter(id(n)), sharedMemory/4)
	}
	if len(a.all) != 5 || a.bytes != sharedMemory || a.all[id(1)] != used {
		t.Errorf("%d entries with %d bytes", len(a.all), a.bytes)
	}
	a.leave(used, sharedMemory+1) // it is dropped itself, or all others and then it
	if a.bytes > sharedMemory {
		t.Errorf("%d entries with %d bytes", len(a.all), a.bytes)
	}
	for n := range mostShared + 100 {
		a.leave(a.enter(id(n)), 1)
		a.leave(a.enter(id(n)), 2) // it has grown
	}
	sum := 0
	for _, e := range a.all {
		sum += e.bytes
	}
	if len(a.all) != mostShared || a.bytes != sum {
		t.Errorf("%d entries with %d bytes, want %d with %d", len(a.all), a.bytes, mostShared, sum)
	}
}

// A feed has the records as the store returns them.
func TestFollow(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		a := openAgent(t, x, `, "budget": "1.00 USD"`)
		feed := x.eng.Follow(uuid.FromStringOrNil(a.id))
		defer feed.Stop()
		from := x.records(a.id)
		after := from[len(from)-1].Seq
		a.call(`{"action": "charge", "input": {"order": "A", "amount": 10}}`)
		a.ask("/llm/openai/v1/chat/completions", `{"model": "priced", "max_tokens": 20, "messages": [{"role": "user", "content": "a"}]}`).want(200)
		a.do("POST", "/abort", `{"reason": "enough"}`).want(202)
		a.do("POST", "/detach", "")
		x.until(a.id, func(v machine.View) bool { return v.Status.Terminal() })
		want := x.records(a.id)[len(from):]
		got := feed.After(after)
		for len(got) == 0 || got[len(got)-1].Seq < want[len(want)-1].Seq { // the store has records first
			select {
			case <-feed.Grown():
			case <-time.After(10 * time.Second):
				t.Fatalf("the feed ends with %+v", got)
			}
			got = feed.After(after)
		}
		got = slices.DeleteFunc(got, func(r journal.Record) bool { return r.Seq > want[len(want)-1].Seq })
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || len(want) < 8 {
			t.Errorf("of %d records (-store +feed):\n%s", len(want), diff)
		}
	})
}

// lateStore is a store whose appends are durable for a while before the engine knows it.
type lateStore struct{ journal.Store }

func (s lateStore) Append(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	defer time.Sleep(150 * time.Millisecond)
	return s.Store.Append(ctx, node, batch)
}

// A request sees what the response to an earlier one has shown, even if the engine does not know
// yet that it is durable.
func TestSharedSessionIsFresh(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newFixtureOn(t, lateStore{open(t)})
			a := openAgent(t, x, "")
			for i := range 3 {
				body := fmt.Sprintf(`{"id": "step%d", "effect": "irreversible"}`, i)
				a.begin(201, body)
				a.follow()
				a.do("POST", "/steps", body).problem(409, "in_doubt")
				x.do("POST", fmt.Sprintf("/v1/sagas/%s/steps/own.step%d/resolve", a.id, i), `{"outcome": "retry", "reason": "do it"}`, header{"If-Match", "*"}).want(200)
				a.begin(201, body)
				a.finish(fmt.Sprintf("step%d", i), `{"attempt": 2, "status": "succeeded"}`).want(200)
			}
		})
	}
}

// slowBody is a request's body of which nothing arrives until rest is closed.
type slowBody struct {
	began chan struct{} // closed at the first read
	rest  chan struct{}
	once  sync.Once
}

func (b *slowBody) Read([]byte) (int, error) {
	b.once.Do(func() { close(b.began) })
	<-b.rest
	return 0, io.EOF
}

// While a client sends its prompt, or does not read a response, the other requests of its session
// are served: heartbeats, which keep the lease, and the abort by a person.
func TestSlowClients(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, "")
	served := func(what string, request func() *answer) {
		t.Helper()
		done := make(chan *answer, 1)
		go func() { done <- request() }()
		select {
		case got := <-done:
			got.want(http.StatusOK)
		case <-time.After(10 * time.Second):
			t.Fatalf("%s waits for the client of another request", what)
		}
	}
	send := func(w http.ResponseWriter, method, path string, body io.Reader) (ended chan struct{}) {
		req := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+path, body)
		req.Header.Set("Authorization", "Bearer "+a.token())
		ended = make(chan struct{})
		go func() {
			defer close(ended)
			x.h.ServeHTTP(w, req)
		}()
		return ended
	}
	prompt := &slowBody{began: make(chan struct{}), rest: make(chan struct{})}
	ended := send(httptest.NewRecorder(), "POST", modelRequests[0].path, prompt)
	<-prompt.began
	served("a heartbeat", func() *answer { return a.do("POST", "/heartbeat", "") })
	close(prompt.rest)
	<-ended
	for _, path := range []string{"", "/calls", "/summary"} {
		w := &slowReader{ResponseRecorder: httptest.NewRecorder(), written: make(chan struct{}), read: make(chan struct{})}
		ended := send(w, "GET", "/v1/sessions/"+a.id+path, nil)
		<-w.written
		served("a heartbeat", func() *answer { return a.do("POST", "/heartbeat", "") })
		close(w.read)
		<-ended
	}
}

// A request whose client leaves does not wait for its turn.
func TestSessionTurnIsLeft(t *testing.T) {
	t.Parallel()
	var s server
	id := uuid.UUID{1}
	e := s.sessions.enter(id)
	e.turn <- struct{}{}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	k := &call{Context: echo.New().NewContext(httptest.NewRequestWithContext(ctx, "GET", "/", nil), nil)}
	if _, err := s.session(k, id); !errors.Is(err, context.Canceled) || k.release != nil || e.users != 1 {
		t.Errorf("%v, %d users", err, e.users)
	}
}
