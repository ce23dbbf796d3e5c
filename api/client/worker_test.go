package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"recourse/api"
	"recourse/api/client"
	"recourse/journal"
)

func square(ctx context.Context, t client.Task) (any, error) {
	var in struct{ N int }
	if err := json.Unmarshal(t.Input, &in); err != nil {
		return nil, client.Refuse("bad_input", "the input: %w", err)
	}
	client.Cost(ctx, "0.01")
	return map[string]int{"square": in.N * in.N}, nil
}

func TestWorker(t *testing.T) {
	r := newRig(t)
	r.publish(squareDef)
	var now, most atomic.Int64
	keys := sync.Map{}
	r.run(client.Worker{Concurrency: 4, Handle: func(ctx context.Context, task client.Task) (any, error) {
		defer now.Add(-1)
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		if _, double := keys.LoadOrStore(task.Key, true); double || task.Key == "" || task.Step != "it" || task.Way != "do" || task.Attempt != 1 {
			t.Errorf("task %+v", task)
		}
		if d, ok := ctx.Deadline(); !ok || time.Until(d) > time.Hour || time.Until(d) < 50*time.Minute {
			t.Errorf("deadline %v %v", d, ok)
		}
		return square(ctx, task)
	}})
	ids := make([]string, 40)
	for i := range ids {
		ids[i] = r.square(i)
	}
	for i, id := range ids {
		s, err := r.Wait(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := json.Marshal(map[string]int{"square": i * i})
		if s.Status != "succeeded" || string(s.Output) != string(want) {
			t.Errorf("%d: %s %s", i, s.Status, s.Output)
		}
	}
	if most.Load() > 4 {
		t.Errorf("%d handlers at once", most.Load())
	}
}

// A server that dies during a claim leaves the claim's key in flight for minutes: the worker claims
// with a new key.
func TestClaimUnderAnotherKey(t *testing.T) {
	r := newRig(t)
	r.publish(squareDef)
	var dead atomic.Pointer[string]
	wire := func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if key := req.Header.Get("Idempotency-Key"); strings.HasSuffix(req.URL.Path, "/claim") {
			if dead.CompareAndSwap(nil, &key) || *dead.Load() == key {
				w.WriteHeader(http.StatusConflict)
				w.Write([]byte(`{"type":"urn:recourse:problem:key_in_flight","title":"A request with this Idempotency-Key is in flight","status":409}`))
				return
			}
		}
		next.ServeHTTP(w, req)
	}
	r.wire.Store(&wire)
	r.run(client.Worker{Handle: square})
	id := r.square(3)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if s, err := r.Wait(ctx, id); err != nil || string(s.Output) != `{"square":9}` {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestFailures(t *testing.T) {
	r := newRig(t)
	r.publish(squareDef)
	broken := errors.New("the wheel came off")
	tests := []struct {
		name   string
		out    any
		err    error
		status string
		class  journal.Class
		code   string
		detail string
	}{
		{name: "refused", err: client.Refuse("no_such_page", "page %d: %w", 7, broken), status: "compensated", class: journal.Refused, code: "no_such_page", detail: "page 7: the wheel came off"},
		{name: "in doubt", err: client.InDoubt(broken), status: "stuck", class: journal.InDoubt, code: "task_failed", detail: "the wheel came off"},
		{name: "plain", err: broken, status: "stuck", class: journal.InDoubt, code: "task_failed", detail: "the wheel came off"},
		{name: "retryable", err: client.Retryable(broken), status: "compensated", class: journal.Transient, code: "task_failed", detail: "the wheel came off"},
		{name: "wrapped", err: errors.Join(broken, client.Refuse("gone", "gone")), status: "compensated", class: journal.Refused, code: "gone", detail: "the wheel came off\ngone"},
		{name: "no JSON", out: make(chan int), status: "stuck", class: journal.InDoubt, code: "bad_result", detail: "unsupported type"},
		{name: "too large", out: strings.Repeat("x", 1<<20), status: "stuck", class: journal.InDoubt, code: "bad_result", detail: "at most 1048576 bytes"},
		{name: "no such code", err: client.Refuse("No Such", "x"), status: "stuck", class: journal.InDoubt, code: "bad_result", detail: "a code is"},
		{name: "panic", out: "panic", status: "stuck", class: journal.InDoubt, code: "task_failed", detail: "the handler panicked: oh"},
	}
	r.run(client.Worker{Handle: func(ctx context.Context, task client.Task) (any, error) {
		var in struct{ N int }
		if err := json.Unmarshal(task.Input, &in); err != nil {
			return nil, err
		}
		if tests[in.N].out == "panic" {
			panic("oh")
		}
		return tests[in.N].out, tests[in.N].err
	}})
	for n, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			id := r.square(n)
			s := r.wait(id)
			class, f := r.failure(id)
			if s.Status != tt.status || class != tt.class || f.Code != tt.code || !strings.Contains(f.Detail, tt.detail) {
				t.Errorf("%s, %s, %+v", s.Status, class, f)
			}
		})
	}
}

// A worker whose lease is lost is stopped, and its later report changes nothing.
func TestLeaseLost(t *testing.T) {
	r := newRig(t)
	r.publish(beating("1s"))
	cause := make(chan error, 1)
	r.run(client.Worker{Handle: func(ctx context.Context, task client.Task) (any, error) {
		r.ahead.Add(int64(2 * time.Second))
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return "late", nil
	}})
	id := r.square(3)
	if err := <-cause; !errors.Is(err, client.ErrLeaseLost) {
		t.Errorf("cause %v", err)
	}
	if s, err := r.Get(t.Context(), id); err != nil || s.Ended() {
		t.Errorf("%+v %v", s, err)
	}
}

// The handler's context ends at the task's deadline, even with heartbeats.
func TestDeadline(t *testing.T) {
	r := newRig(t)
	r.publish(strings.Replace(beating("1s"), "timeout: 1h", "timeout: 200ms", 1))
	cause := make(chan error, 1)
	r.run(client.Worker{Handle: func(ctx context.Context, task client.Task) (any, error) {
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return nil, nil
	}})
	r.square(3)
	if err := <-cause; !errors.Is(err, client.ErrLeaseLost) {
		t.Errorf("cause %v", err)
	}
}

func TestUnwanted(t *testing.T) {
	r := newRig(t)
	r.publish(beating("6s"))
	cause, begun := make(chan error, 1), make(chan string, 1)
	r.run(client.Worker{Handle: func(ctx context.Context, task client.Task) (any, error) {
		begun <- task.Saga
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return nil, client.Refuse("stopped", "stopped in time")
	}})
	id := r.square(3)
	resp, err := http.Post(r.url+"/v1/sagas/"+<-begun+"/cancel", "application/json", strings.NewReader("{}"))
	if err != nil || resp.StatusCode != 202 {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	if err := <-cause; !errors.Is(err, client.ErrUnwanted) {
		t.Errorf("cause %v", err)
	}
	if s := r.wait(id); s.Status != "compensated" {
		t.Errorf("status %s", s.Status)
	}
}

// A task's result is delivered although the server is down when the work is done.
func TestOutage(t *testing.T) {
	r := newRig(t)
	r.publish(squareDef)
	var tried atomic.Int64
	ends := func(req *http.Request) bool { return strings.HasSuffix(req.URL.Path, "/complete") }
	restore := r.cut(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if !ends(req) {
			next.ServeHTTP(w, req)
			return
		}
		switch tried.Add(1) {
		case 1:
			drop()
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		default: // the request arrives, but its response is lost
			next.ServeHTTP(httptest.NewRecorder(), req)
			drop()
		}
	})
	r.run(client.Worker{Handle: square})
	id := r.square(3)
	eventually(t, "the answer is lost", func() bool { return tried.Load() >= 3 })
	restore()
	if s := r.wait(id); s.Status != "succeeded" || string(s.Output) != `{"square":9}` {
		t.Errorf("%+v", s)
	}
}

// Tasks in a lost response are claimed again with the same key.
func TestClaimAnswerLost(t *testing.T) {
	r := newRig(t)
	r.publish(squareDef)
	var lost atomic.Int64
	r.cut(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if !strings.HasSuffix(req.URL.Path, "/claim") || lost.Load() > 0 {
			next.ServeHTTP(w, req)
			return
		}
		rec := httptest.NewRecorder()
		if next.ServeHTTP(rec, req); rec.Code == 200 {
			lost.Add(1)
		}
		drop()
	})
	r.run(client.Worker{Handle: square})
	id := r.square(5)
	s := r.wait(id)
	if class, f := r.failure(id); s.Status != "succeeded" || lost.Load() != 1 || class != journal.Succeeded {
		t.Errorf("%s %s %+v, %d answers lost", s.Status, class, f, lost.Load())
	}
}

// If the response to a claim was lost, the work begins only once a heartbeat has shown that the
// task is still this worker's, and wanted.
func TestRepeatedClaimIsConfirmed(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		answer string // to the third heartbeat; before, there is none
		calls  string
	}{
		"the lease is lost":      {http.StatusConflict, `{"type": "urn:recourse:problem:lease_lost", "title": "The lease is lost"}`, "heartbeat heartbeat heartbeat claim"},
		"the work is not wanted": {http.StatusOK, `{"cancel": true}`, "heartbeat heartbeat heartbeat fail claim"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.publish(squareDef)
			calls := make(chan string, 100)
			claims, beats, used := atomic.Int64{}, atomic.Int64{}, atomic.Bool{}
			r.cut(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
				what := req.URL.Path[strings.LastIndexByte(req.URL.Path, '/')+1:]
				switch claimed := claims.Load() > 0; {
				case what == "claim" && !used.Swap(true):
					_, _ = w.Write([]byte(`{"data": []}`)) // net/http keeps the connection for the next request
				case what == "claim" && !claimed:
					rec := httptest.NewRecorder()
					if next.ServeHTTP(rec, req); rec.Code == http.StatusOK {
						claims.Add(1)
					}
					drop()
				case what == "claim":
					if claims.Add(1) > 2 {
						calls <- what
					}
					next.ServeHTTP(w, req)
				case what == "heartbeat":
					calls <- what
					if beats.Add(1) < 3 {
						w.WriteHeader(http.StatusServiceUnavailable)
						return
					}
					w.WriteHeader(tt.status)
					_, _ = w.Write([]byte(tt.answer))
				case what == "fail", what == "complete":
					calls <- what
					_, _ = w.Write([]byte("{}"))
				default:
					next.ServeHTTP(w, req)
				}
			})
			r.run(client.Worker{Handle: func(context.Context, client.Task) (any, error) {
				calls <- "work"
				return nil, nil
			}})
			r.square(3)
			var got []string
			for len(got) == 0 || got[len(got)-1] != "claim" {
				got = append(got, <-calls)
			}
			if text := strings.Join(got, " "); text != tt.calls {
				t.Errorf("got %s, want %s", text, tt.calls)
			}
		})
	}
}

// A worker that is stopping claims no more tasks, and finishes those in flight.
func TestDrain(t *testing.T) {
	r := newRig(t)
	r.publish(squareDef)
	begun, resume := make(chan bool), make(chan bool)
	stop := r.run(client.Worker{Handle: func(ctx context.Context, task client.Task) (any, error) {
		begun <- true
		<-resume
		return square(ctx, task)
	}})
	id := r.square(4)
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	later := r.square(5)
	close(resume)
	if err := <-stopped; err != nil {
		t.Errorf("Run: %v", err)
	}
	if s := r.wait(id); s.Status != "succeeded" {
		t.Errorf("status %s", s.Status)
	}
	if s, err := r.Get(t.Context(), later); err != nil || s.Status != "waiting" {
		t.Errorf("%+v %v", s, err)
	}
}

func TestDrainOver(t *testing.T) {
	r := newRig(t)
	r.publish(squareDef)
	begun, cause := make(chan bool), make(chan error, 1)
	stop := r.run(client.Worker{Drain: time.Millisecond, Handle: func(ctx context.Context, task client.Task) (any, error) {
		begun <- true
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return nil, client.Retryable(ctx.Err())
	}})
	id := r.square(4)
	<-begun
	if err := stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if err := <-cause; !errors.Is(err, client.ErrStopping) {
		t.Errorf("cause %v", err)
	}
	r.run(client.Worker{Handle: square})
	if s := r.wait(id); s.Status != "succeeded" {
		t.Errorf("status %s", s.Status)
	}
}

func TestRefused(t *testing.T) {
	r := newRig(t, func(c *api.Config) { c.RequireKeys = true })
	w := client.Worker{Client: client.New(r.url, "rk_wrong"), Types: []string{"a"}, Handle: square}
	err := w.Run(t.Context())
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Status != 401 || e.Code != "key_invalid" || !strings.Contains(err.Error(), "recourse keys create") {
		t.Errorf("Run: %v", err)
	}
	if err := (client.Worker{}).Run(t.Context()); err == nil {
		t.Error("a worker of nothing runs")
	}
}

func TestStart(t *testing.T) {
	r := newRig(t)
	r.publish(squareDef)
	var tried atomic.Int64
	restore := r.cut(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if tried.Add(1) <= 2 { // the request arrives, but its response is lost
			next.ServeHTTP(httptest.NewRecorder(), req)
			drop()
		}
		next.ServeHTTP(w, req)
	})
	one, err := r.Start(t.Context(), client.Start{Definition: "square", Input: map[string]int{"n": 2}, Labels: map[string]string{"a": "b"}})
	restore()
	if err != nil || one.Definition != "square" || one.Labels["a"] != "b" || one.Ended() {
		t.Fatalf("%+v %v", one, err)
	}
	with := client.Start{Definition: "square", Input: map[string]int{"n": 2}, Key: "order-7"}
	two, err := r.Start(t.Context(), with)
	if err != nil || two.ID == one.ID {
		t.Fatalf("%+v %v", two, err)
	}
	if again, err := r.Start(t.Context(), with); err != nil || again.ID != two.ID {
		t.Errorf("%+v %v", again, err)
	}
	if list, err := r.store.Sagas(t.Context(), journal.Filter{Limit: 10}); err != nil || len(list.Heads) != 2 {
		t.Errorf("%d sagas, %v", len(list.Heads), err)
	}
	_, err = r.Start(t.Context(), client.Start{Definition: "cube"})
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "definition_not_found" || e.Status != 404 {
		t.Errorf("Start: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := r.Wait(ctx, one.ID); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait: %v", err)
	}
}

// A batch survives a server that is away, that cuts the response, and that is at its limits, and
// starts each saga once.
func TestStartBatch(t *testing.T) {
	r := newRig(t)
	r.publish(squareDef)
	const many = 2500 // three requests
	starts := make([]client.Start, many)
	for i := range starts {
		starts[i] = client.Start{Definition: "square", Input: map[string]int{"n": i}, Key: fmt.Sprint("order-", i)}
	}
	starts[1].Definition = "cube"
	starts[2].Input = func() {} // no JSON
	starts[3].Key = ""
	var tried atomic.Int64
	restore := r.cut(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		switch tried.Add(1) {
		case 1: // the request arrives, but its response is lost
			next.ServeHTTP(httptest.NewRecorder(), req)
			drop()
		case 2: // the response is cut
			whole := httptest.NewRecorder()
			next.ServeHTTP(whole, req)
			w.WriteHeader(http.StatusOK)
			_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
			_ = http.NewResponseController(w).Flush()
			drop()
		case 3:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			next.ServeHTTP(w, req)
		}
	})
	results := r.StartBatch(t.Context(), starts)
	restore()
	ids := map[string]bool{}
	for i, s := range results {
		e, refused := errors.AsType[*client.Error](s.Err)
		switch {
		case i == 1 && (!refused || e.Code != "definition_not_found" || e.Status != 404 || s.ID != ""), i == 2 && (s.Err == nil || refused), i == 3 && s.Key == "",
			(i == 0 || i > 2) && (s.Err != nil || s.ID == ""), i > 3 && s.Key != starts[i].Key:
			t.Fatalf("start %d: %+v", i, s)
		}
		ids[s.ID] = true
	}
	if again := r.StartBatch(t.Context(), starts[:1]); again[0].ID != results[0].ID {
		t.Errorf("%+v, before %+v", again[0], results[0])
	}
	stats, err := r.store.Stats(t.Context())
	// The id of the two that failed is "".
	if n := stats.ByDefinition["square"]; err != nil || n != many-2 || len(ids) != many-1 {
		t.Errorf("%d sagas and %d ids, %v", n, len(ids), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s := r.StartBatch(ctx, starts[:1])[0]; !errors.Is(s.Err, context.Canceled) {
		t.Errorf("%+v after the end of the context", s)
	}
	if e, ok := errors.AsType[*client.Error](client.New(r.url+"/nowhere", "").StartBatch(t.Context(), starts[:1])[0].Err); !ok || e.Status != 404 {
		t.Errorf("a batch for another path: %v", e)
	}
}
