package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/machine"
)

const fetchDef = `saga: fetch
input: {url: string}
budget: 1.00 EUR
steps:
  - id: page
    task: page.fetch
    input: {url: "${input.url}", key: "${key}"}
    heartbeat: 1h
    timeout: 2h
    in_doubt: ask
    retry: {attempts: 3, initial: 1ms, max: 1ms}
    compensate: none
output: {page: "${steps.page.output}"}
`

// claim claims tasks of a type, and fails unless it gets this many.
func (x *fixture) claim(kind string, most, want int) []taskView {
	x.t.Helper()
	a := x.do("POST", "/v1/tasks/claim", fmt.Sprintf(`{"types": [%q], "worker": "w-1", "max": %d, "wait": "20s"}`, kind, most)).want(200)
	var list page[taskView]
	a.into(&list)
	if len(list.Data) != want {
		x.t.Fatalf("%d tasks, want %d: %s", len(list.Data), want, a.Body)
	}
	return list.Data
}

// tell reports about a task with its lease; more is further fields.
func (x *fixture) tell(t taskView, what, more string) *answer {
	x.t.Helper()
	return x.do("POST", "/v1/tasks/"+t.ID+"/"+what, fmt.Sprintf(`{"lease": %q%s}`, t.Lease, more))
}

func (x *fixture) fetch() string {
	x.t.Helper()
	return x.do("POST", "/v1/sagas", `{"definition": "fetch", "input": {"url": "https://a.example"}}`).want(201).saga().ID
}

// A lease is no longer than the task may take, whether the step or the claim says how long it is.
func TestLeaseIsWithinTheTimeout(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(strings.Replace(fetchDef, "timeout: 2h", "timeout: 20m", 1))
		for _, lease := range []string{"", `, "lease": "30m"`} {
			x.fetch()
			var list page[taskView]
			x.do("POST", "/v1/tasks/claim", `{"types": ["page.fetch"], "wait": "20s"`+lease+`}`).want(200).into(&list)
			if got := list.Data[0]; got.LeaseMS != 1_200_000 || !got.LeaseUntil.Equal(got.Deadline.Time) {
				t.Errorf("%s: a lease of %d ms until %v, and a deadline at %v", lease, got.LeaseMS, got.LeaseUntil, got.Deadline)
			}
		}
	})
}

// traceOf returns the trace of a saga that was started without a traceparent.
func traceOf(id string) *saga.Trace {
	t := saga.NewTrace(uuid.FromStringOrNil(id), saga.StartedData{})
	return &t
}

func TestTask(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(fetchDef)
		id := x.fetch()
		got := x.claim("page.fetch", 100, 1)[0]
		want := taskView{ID: machine.TaskID(uuid.FromStringOrNil(id), "page", journal.Do, 1).String(), Type: "page.fetch", Saga: id, Step: "page", Attempt: 1, Way: "do",
			Key: got.Key, Input: json.RawMessage(`{"url":"https://a.example","key":"` + got.Key + `"}`), Lease: got.Lease, LeaseUntil: got.LeaseUntil, LeaseMS: 3_600_000, Deadline: got.Deadline,
			Traceparent: traceOf(id).At(traceOf(id).Attempt("page", journal.Do, 0, 1))}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if d := got.Deadline.Sub(got.LeaseUntil.Time); d != time.Hour {
			t.Errorf("the deadline is %v after the lease, want 1h", d)
		}
		if v := x.do("GET", "/v1/sagas/"+id, "").saga(); v.Status != saga.Waiting {
			t.Errorf("status %s", v.Status)
		}
		x.do("POST", "/v1/tasks/claim", `{"types": ["page.fetch"]}`).want(204)
		var beat struct {
			LeaseUntil saga.Time `json:"lease_until"`
			Cancel     bool      `json:"cancel"`
		}
		x.tell(got, "heartbeat", "").want(200).into(&beat)
		if beat.LeaseUntil.Before(got.LeaseUntil.Time) || beat.Cancel {
			t.Errorf("heartbeat %+v", beat)
		}
		done := `, "output": {"words": 9007199254740993, "price": 19.10}, "cost": "0.02"`
		if a := x.tell(got, "complete", done).want(200); string(a.Body) != `{"id":"`+got.ID+`","outcome":"completed"}`+"\n" {
			t.Errorf("%s", a.Body)
		}
		end := x.until(id, is(saga.Succeeded))
		if want := `{"page":{"words":9007199254740993,"price":19.10}}`; string(end.Output) != want || end.Cost.Spent != "0.02" {
			t.Errorf("output %s, cost %+v", end.Output, end.Cost)
		}
		x.tell(got, "complete", done).want(200)
		x.tell(got, "complete", `, "cost":"0.02","output":{ "price":19.10,"words":9007199254740993}`).want(200)
		x.tell(got, "complete", `, "output": 2`).problem(409, "lease_lost")
		x.tell(got, "fail", `, "error": "no"`).problem(409, "lease_lost")
		x.tell(got, "heartbeat", "").problem(409, "lease_lost")
	})
}

func TestTaskFails(t *testing.T) {
	tests := []struct {
		name, more string
		status     saga.Status
		class      journal.Class
		error      saga.Failure
		spent      string
	}{
		{"text", `, "error": "no such page"`, saga.Compensated, journal.Refused, saga.Failure{Code: "task_failed", Detail: "no such page"}, "0"},
		{"object", `, "error": {"code": "gone", "title": "it is gone", "detail": "since 1999"}, "cost": 0.50`, saga.Compensated, journal.Refused, saga.Failure{Code: "gone", Detail: "it is gone: since 1999"}, "0.50"},
		{"detail", `, "error": {"detail": "since 1999"}`, saga.Compensated, journal.Refused, saga.Failure{Code: "task_failed", Detail: "since 1999"}, "0"},
		{"no words", `, "error": {"code": "gone"}`, saga.Compensated, journal.Refused, saga.Failure{Code: "gone", Detail: "the worker gave no reason"}, "0"},
		{"in doubt", `, "error": "half done", "in_doubt": true`, saga.Stuck, journal.InDoubt, saga.Failure{Code: "task_failed", Detail: "half done"}, "0"},
		{"long", `, "error": "` + strings.Repeat("é", 5000) + `"`, saga.Compensated, journal.Refused, saga.Failure{Code: "task_failed", Detail: strings.Repeat("é", 1999) + "…"}, "0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := newFixture(t)
			x.publish(fetchDef)
			id := x.fetch()
			task := x.claim("page.fetch", 1, 1)[0]
			x.tell(task, "fail", tt.more).want(200)
			x.tell(task, "fail", tt.more).want(200)
			end := x.until(id, is(tt.status))
			if end.Cost.Spent != tt.spent {
				t.Errorf("spent %s, want %s", end.Cost.Spent, tt.spent)
			}
			var step machine.StepView
			x.do("GET", "/v1/sagas/"+id+"/steps/page", "").want(200).into(&step)
			if len(step.Attempts) != 1 || step.Attempts[0].Class != tt.class {
				t.Fatalf("attempts %+v", step.Attempts)
			}
			tt.error.Title = "the worker says that the task page.fetch has failed"
			if d := cmp.Diff(&tt.error, step.Attempts[0].Error); d != "" {
				t.Error(d)
			}
		})
	}
}

// A retryable failure is retried with the same key.
func TestTaskRetryable(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(fetchDef)
		id := x.fetch()
		first := x.claim("page.fetch", 1, 1)[0]
		x.tell(first, "fail", `, "error": "busy", "retryable": true`).want(200)
		second := x.claim("page.fetch", 1, 1)[0]
		if second.Key != first.Key || second.ID == first.ID || second.Attempt != 2 || second.Lease == first.Lease {
			t.Errorf("%+v after %+v", second, first)
		}
		x.do("POST", "/v1/tasks/"+second.ID+"/complete", fmt.Sprintf(`{"lease": %q}`, first.Lease)).problem(409, "lease_lost")
		x.tell(second, "complete", "").want(200)
		if end := x.until(id, is(saga.Succeeded)); string(end.Output) != `{"page":null}` {
			t.Errorf("output %s", end.Output)
		}
	})
}

// A worker learns that its saga is being undone, and its result is recorded nevertheless.
func TestTaskCancel(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(fetchDef)
		id := x.fetch()
		task := x.claim("page.fetch", 1, 1)[0]
		x.do("POST", "/v1/sagas/"+id+"/cancel", "").want(202)
		deadline := time.Now().Add(time.Minute)
		for cancel := false; !cancel; {
			var beat struct{ Cancel bool }
			x.tell(task, "heartbeat", "").want(200).into(&beat)
			if cancel = beat.Cancel; time.Now().After(deadline) {
				t.Fatal("the heartbeat does not say that the task is cancelled")
			}
		}
		x.tell(task, "complete", "").want(200)
		if end := x.until(id, is(saga.Failed)); len(end.Residual) != 1 || end.Residual[0].Path != "page" {
			t.Errorf("residual %+v", end.Residual)
		}
	})
}

func TestTaskUndo(t *testing.T) {
	x := newFixture(t)
	x.publish("saga: twice\nsteps:\n  - id: a\n    task: make\n    in_doubt: retry\n    compensate:\n      task: unmake\n      input: {made: \"${output.id}\", of: \"${key}\"}\n  - id: b\n    fail: no\n")
	id := x.do("POST", "/v1/sagas", `{"definition": "twice"}`).want(201).saga().ID
	made := x.claim("make", 1, 1)[0]
	x.tell(made, "complete", `, "output": {"id": 7}`).want(200)
	undo := x.claim("unmake", 1, 1)[0]
	if undo.Way != "undo" || string(undo.Input) != `{"made":7,"of":"`+made.Key+`"}` || undo.Key == made.Key {
		t.Errorf("%+v", undo)
	}
	x.tell(undo, "complete", "").want(200)
	x.until(id, is(saga.Compensated))
}

// A worker that stopped sending heartbeats has lost its task, whatever it reports later.
func TestLeaseLost(t *testing.T) {
	var ahead atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	x := newFixtureOn(t, memory.New(memory.Config{Now: clock}))
	x.publish(fetchDef)
	x.fetch()
	var list page[taskView]
	x.do("POST", "/v1/tasks/claim", `{"types": ["page.fetch"], "wait": "20s", "lease": "5s"}`).want(200).into(&list)
	task := list.Data[0]
	if task.LeaseMS != 5000 {
		t.Errorf("a lease of %d ms", task.LeaseMS)
	}
	x.tell(task, "heartbeat", "").want(200)
	ahead.Add(int64(6 * time.Second))
	for _, what := range []string{"heartbeat", "complete"} {
		x.tell(task, what, "").problem(409, "lease_lost")
	}
	x.tell(task, "fail", `, "error": "late"`).problem(409, "lease_lost")
}

// A lease is valid only for its own task, and any change makes it invalid.
func TestLeaseForged(t *testing.T) {
	x := newFixture(t)
	x.publish(fetchDef)
	x.fetch()
	x.fetch()
	two := x.claim("page.fetch", 2, 2)
	one, other := two[0], two[1]
	own, ok := parseLease(one.Lease, uuid.FromStringOrNil(one.ID))
	if !ok {
		t.Fatal("its own lease is none")
	}
	change := func(f func(*lease)) string {
		l := own
		f(&l)
		return l.String()
	}
	for name, text := range map[string]string{
		"other":   other.Lease,
		"token":   change(func(l *lease) { l.token[3]++ }),
		"saga":    change(func(l *lease) { l.saga = uuid.FromStringOrNil(other.Saga) }),
		"path":    change(func(l *lease) { l.path = "pages" }),
		"way":     change(func(l *lease) { l.way = journal.Undo }),
		"attempt": change(func(l *lease) { l.attempt = 2 }),
		"cut":     one.Lease[:20],
		"none":    "x",
	} {
		x.do("POST", "/v1/tasks/"+one.ID+"/complete", fmt.Sprintf(`{"lease": %q}`, text)).problem(409, "lease_lost")
		if name == "none" {
			x.do("POST", "/v1/tasks/none/complete", fmt.Sprintf(`{"lease": %q}`, text)).problem(404, "not_found")
		}
	}
	x.tell(one, "complete", "").want(200)
	x.tell(other, "complete", "").want(200)
}

func TestClaimRefused(t *testing.T) {
	x := newFixture(t)
	many := strings.TrimSuffix(strings.Repeat(`"a",`, 65), ",")
	for body, pointer := range map[string]string{
		`{}`:                               "/types",
		`{"types": []}`:                    "/types",
		`{"types": "a"}`:                   "/types",
		`{"types": ["A"]}`:                 "/types/0",
		`{"types": [` + many + `]}`:        "/types",
		`{"types": ["a"], "max": 0}`:       "/max",
		`{"types": ["a"], "max": 101}`:     "/max",
		`{"types": ["a"], "max": 1.5}`:     "/max",
		`{"types": ["a"], "wait": 30}`:     "/wait",
		`{"types": ["a"], "wait": "61s"}`:  "/wait",
		`{"types": ["a"], "wait": "soon"}`: "/wait",
		`{"types": ["a"], "lease": "1ms"}`: "/lease",
		`{"types": ["a"], "lease": "2h"}`:  "/lease",
		`{"types": ["a"], "worker": "` + strings.Repeat("w", 129) + `"}`: "/worker",
		`{"types": ["a"], "worker": "a\nb"}`:                             "/worker",
		`{"type": ["a"]}`:                                                "/type",
	} {
		if p := x.do("POST", "/v1/tasks/claim", body, outside).problem(400, "invalid_request"); len(p.Errors) != 1 || p.Errors[0].Pointer != pointer {
			t.Errorf("%s: %+v", body, p.Errors)
		}
	}
}

func TestTaskEndsRefused(t *testing.T) {
	x := newFixture(t)
	x.publish(fetchDef)
	x.fetch()
	task := x.claim("page.fetch", 1, 1)[0]
	for _, tt := range []struct{ what, more, pointer string }{
		{"complete", `, "cost": "1e3"`, "/cost"},
		{"complete", `, "cost": -1`, "/cost"},
		{"complete", `, "cost": "1.00 EUR"`, "/cost"},
		{"complete", `, "result": 1`, "/result"},
		{"fail", ``, "/error"},
		{"fail", `, "error": 3`, "/error"},
		{"fail", `, "error": {"code": "Gone"}`, "/error/code"},
		{"fail", `, "error": {"code": "` + strings.Repeat("x", 65) + `"}`, "/error/code"},
		{"fail", `, "error": {"code": "timeout"}`, "/error/code"},
		{"fail", `, "error": {"code": 3}`, "/error/code"},
		{"fail", `, "error": {"titel": "x"}`, "/error/titel"},
		{"fail", `, "error": "x", "retryable": true, "in_doubt": true`, "/retryable"},
		{"fail", `, "error": "x", "retryable": "yes"`, "/retryable"},
	} {
		a := x.do("POST", "/v1/tasks/"+task.ID+"/"+tt.what, fmt.Sprintf(`{"lease": %q%s}`, task.Lease, tt.more), outside)
		if p := a.problem(400, "invalid_request"); len(p.Errors) != 1 || p.Errors[0].Pointer != tt.pointer {
			t.Errorf("%s %s: %+v", tt.what, tt.more, p.Errors)
		}
	}
	x.do("POST", "/v1/tasks/"+task.ID+"/heartbeat", `{}`, outside).problem(400, "invalid_request")
	large := `, "output": "` + strings.Repeat("x", maxOutput-2)
	x.tell(task, "complete", large+`x"`).problem(413, "body_too_large")
	x.tell(task, "complete", large+`"`).want(200)
}

// Only a limited number of workers wait; each new task goes to one of them.
func TestClaimsWait(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(fetchDef)
		const workers = 8
		got := make(chan string, workers)
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() { got <- x.claim("page.fetch", 1, 1)[0].ID })
		}
		for range workers {
			x.fetch()
		}
		wg.Wait()
		close(got)
		ids := map[string]bool{}
		for id := range got {
			ids[id] = true
		}
		if len(ids) != workers {
			t.Errorf("%d tasks for %d workers", len(ids), workers)
		}
	})
}

func TestClaimsLimited(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.Limits.Polls = 1 })
	x.publish(fetchDef)
	ctx, leave := context.WithCancel(t.Context())
	first := make(chan error, 1)
	waits := `{"types": ["page.fetch"], "wait": "20s"}`
	go func() {
		for { // until it is accepted
			req, _ := http.NewRequestWithContext(ctx, "POST", x.url+"/v1/tasks/claim", strings.NewReader(waits))
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				resp.Body.Close()
			}
			if err != nil || resp.StatusCode != http.StatusTooManyRequests {
				first <- err
				return
			}
		}
	}()
	short := `{"types": ["other"], "wait": "1ms"}`
	for deadline := time.Now().Add(time.Minute); ; {
		if a := x.do("POST", "/v1/tasks/claim", short); a.Status != 204 {
			if a.problem(429, "too_many_polls"); a.Header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no claim is refused")
		}
	}
	x.do("POST", "/v1/tasks/claim", `{"types": ["other"]}`).want(204) // without `wait` it returns at once
	leave()
	if <-first == nil {
		t.Error("the first claim was answered")
	}
	for deadline := time.Now().Add(time.Minute); x.do("POST", "/v1/tasks/claim", short).Status != 204; {
		if time.Now().After(deadline) {
			t.Fatal("who left waits still")
		}
	}
	x.fetch()
	x.claim("page.fetch", 1, 1) // the worker that left has not claimed it
}

// A claim whose response was lost is repeated with its key, and gets the same tasks.
func TestClaimAgain(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(fetchDef)
		x.fetch()
		key, body := header{"Idempotency-Key", "claim-1"}, `{"types": ["page.fetch"], "wait": "20s"}`
		first := x.do("POST", "/v1/tasks/claim", body, key).want(200)
		again := x.do("POST", "/v1/tasks/claim", body, key).want(200)
		if again.Header.Get(replayHeader) != "true" || string(again.Body) != string(first.Body) {
			t.Errorf("%v %s", again.Header, again.Body)
		}
		x.do("POST", "/v1/tasks/claim", `{"types": ["other"]}`, key).problem(422, "idempotency_key_reused")
		none := header{"Idempotency-Key", "claim-2"}
		body = `{"types": ["page.fetch"]}`
		x.do("POST", "/v1/tasks/claim", body, none).want(204)
		x.fetch()
		if a := x.do("POST", "/v1/tasks/claim", body, none).want(200); a.Header.Get(replayHeader) != "" {
			t.Error("a claim that found nothing was replayed")
		}
	})
}

// A server that stops ends the waits of its workers.
func TestClaimsEndWithTheServer(t *testing.T) {
	done := make(chan struct{})
	x := newFixture(t, func(c *Config) { c.Done = done })
	time.AfterFunc(50*time.Millisecond, func() { close(done) })
	began := time.Now()
	x.do("POST", "/v1/tasks/claim", `{"types": ["other"], "wait": "60s"}`).want(204)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestTaskMetrics(t *testing.T) {
	x := newFixture(t)
	x.publish(fetchDef)
	x.fetch()
	x.fetch()
	task := x.claim("page.fetch", 1, 1)[0]
	text := string(x.do("GET", "/metrics", "").want(200).Body)
	for _, line := range []string{`recourse_tasks{state="waiting",type="page.fetch"} 1`, `recourse_tasks{state="claimed",type="page.fetch"} 1`, `recourse_task_oldest_seconds{type="page.fetch"} `} {
		if !strings.Contains(text, line) {
			t.Errorf("no %s", line)
		}
	}
	if strings.Contains(text, task.ID) {
		t.Error("a label has an id")
	}
}
