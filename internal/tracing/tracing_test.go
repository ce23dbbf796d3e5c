package tracing_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/kinds/llm"
	"recourse/saga/machine"
)

const incoming = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// spanOf returns the only span with an id.
func spanOf(t *testing.T, spans []*otlp.Span, id saga.SpanID) *otlp.Span {
	t.Helper()
	var found *otlp.Span
	for _, s := range spans {
		if saga.SpanID(s.SpanId) == id {
			if found != nil {
				t.Errorf("span %s %s is exported twice", id, s.Name)
			}
			found = s
		}
	}
	if found == nil {
		t.Fatalf("there is no span %s", id)
	}
	return found
}

// One saga with retries, blocks, a failure and a compensation is one trace, and each span is below
// the one that it belongs to.
func TestOneTrace(t *testing.T) {
	c, w := newReceiver(t), newWorld(t, map[string][]int{"POST /hotel": {429}, "POST /pay": {422}})
	r := newRig(t, llm.Config{}, strings.ReplaceAll(`
saga: trip
budget: 5.00 EUR
steps:
  - {id: flight, http: "POST W/flight?q=1", body: {}, cost: 1.50 EUR, compensate: {http: "DELETE W/flight/${output.id}"}}
  - {id: hotel, http: POST W/hotel, body: {}, compensate: {http: "DELETE W/hotel"}, retry: {initial: 1ms}}
  - id: pages
    foreach: [1, 2]
    steps:
      - id: which
        switch: [{when: "item == 1", steps: [{id: page, http: GET W/page}]}, {steps: [{id: nap, sleep: 10ms}]}]
  - {id: pay, http: POST W/pay, body: {}}
`, "W", w.URL))
	n := r.node(c)
	id := n.start("trip", "null", incoming)
	spans := c.await(t, id)
	trace := saga.NewTrace(id, saga.StartedData{Traceparent: incoming})
	want := `b7ad6b7169203331:
  trip compensated
    flight succeeded
      POST succeeded 201
    hotel succeeded (waiting) (woke)
      POST transient 429 !
      POST succeeded 201
    pages succeeded (decided)
      which succeeded (decided)
        page succeeded
          GET succeeded 201
      which succeeded (decided)
        nap succeeded (waiting) (woke)
    pay failed !
      POST refused 422 !
    undo hotel undone
      DELETE succeeded 201
    undo flight undone
      DELETE succeeded 201
`
	got := tree(spans, "recourse.status", "recourse.class", "http.response.status_code")
	if d := cmp.Diff(want, strings.Replace(got, " (compensating)", "", 1)); d != "" {
		t.Error(d)
	}
	root := spanOf(t, spans, trace.Root())
	if saga.TraceID(root.TraceId) != trace.ID || value(root.Events[0].Attributes, "recourse.reason") != "step_failed" {
		t.Errorf("root %v", root)
	}
	for key, want := range map[string]string{"recourse.definition": "trip", "recourse.version": "v1", "recourse.reason": "step_failed", "recourse.reason.step": "pay", "recourse.cost.spent": "1.50",
		"recourse.cost.wasted": "0", "recourse.cost.currency": "EUR", "recourse.label.shop": "north"} {
		if got := attr(root, key); got != want {
			t.Errorf("%s of the root is %q, want %q", key, got, want)
		}
	}
	first := spanOf(t, spans, trace.Attempt("flight", journal.Do, 0, 1))
	for key, want := range map[string]string{"http.request.method": "POST", "url.full": w.URL + "/flight", "server.address": "127.0.0.1", "recourse.attempt": "1", "recourse.generation": "0",
		"recourse.cost": "1.50", "recourse.step": "flight", "recourse.way": "do"} {
		if got := attr(first, key); got != want {
			t.Errorf("%s of the attempt is %q, want %q", key, got, want)
		}
	}
	if key := attr(first, "recourse.key"); len(key) != 36 {
		t.Errorf("the key is %q", key)
	}
	for what, attempts := range map[string][]saga.SpanID{
		"POST /flight":      {trace.Attempt("flight", journal.Do, 0, 1)},
		"POST /hotel":       {trace.Attempt("hotel", journal.Do, 0, 1), trace.Attempt("hotel", journal.Do, 0, 2)},
		"DELETE /flight/x1": {trace.Attempt("flight", journal.Undo, 0, 1)},
	} {
		var sent []string
		for _, a := range attempts {
			sent = append(sent, trace.At(a))
		}
		if d := cmp.Diff(sent, w.parents(what)); d != "" {
			t.Errorf("%s: traceparents %s", what, d)
		}
	}
	// The times are those of the records.
	records, err := r.store.Records(t.Context(), id, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if from, to := uint64(records[0].At.UnixNano()), uint64(records[len(records)-1].At.UnixNano()); root.StartTimeUnixNano != from || root.EndTimeUnixNano != to {
		t.Errorf("the root is from %d to %d, want %d to %d", root.StartTimeUnixNano, root.EndTimeUnixNano, from, to)
	}
	if got := value(c.resource.Attributes, "service.name") + " " + value(c.resource.Attributes, "service.version") + " " + value(c.resource.Attributes, "service.instance.id"); got != "recourse v1.2.3 i-1" {
		t.Errorf("the resource is %s", got)
	}
}

// A node dies with a request in flight, and another one continues: the trace is the same, and each
// span is exported once and complete.
func TestTakenOver(t *testing.T) {
	c, w := newReceiver(t), newWorld(t, map[string][]int{})
	w.hangs = "POST /b"
	r := newRig(t, llm.Config{}, strings.ReplaceAll(`
saga: three
steps:
  - {id: a, http: POST W/a, body: {}}
  - {id: block, parallel: [{id: b, http: POST W/b, body: {}, retry: {initial: 1ms}}]}
  - {id: c, http: POST W/c, body: {}}
`, "W", w.URL))
	one := r.node(c)
	id := one.start("three", "null", "")
	<-w.hung
	one.store.dead.Store(true)
	two := r.node(c)
	spans := c.await(t, id)
	want := `three succeeded
  a succeeded
    POST succeeded
  block succeeded (decided)
    b succeeded (waiting) (woke)
      POST in_doubt !
      POST succeeded
  c succeeded
    POST succeeded
`
	if d := cmp.Diff(want, tree(spans, "recourse.status", "recourse.class")); d != "" {
		t.Error(d)
	}
	trace := saga.NewTrace(id, saga.StartedData{})
	root := spanOf(t, spans, trace.Root())
	if saga.TraceID(root.TraceId) != saga.TraceID(id) {
		t.Errorf("the trace is %x", root.TraceId)
	}
	first, second := spanOf(t, spans, trace.Attempt("b", journal.Do, 0, 1)), spanOf(t, spans, trace.Attempt("b", journal.Do, 0, 2))
	if by, then := attr(first, "recourse.node"), attr(second, "recourse.node"); by == then || by != attr(spanOf(t, spans, trace.Attempt("a", journal.Do, 0, 1)), "recourse.node") {
		t.Errorf("b was tried by %s, then by %s", by, then)
	}
	exported := func() int64 { return one.tracer.Exported() + two.tracer.Exported() }
	// They are counted when the collector's response has arrived.
	for until := time.Now().Add(time.Minute); exported() < int64(len(spans)) && time.Now().Before(until); {
		<-time.After(5 * time.Millisecond)
	}
	if one.tracer.Exported() == 0 || exported() != int64(len(spans)) {
		t.Errorf("%d and %d spans were exported, %d came", one.tracer.Exported(), two.tracer.Exported(), len(spans))
	}
}

// Actions of people, and waits, are events of spans. The trace of a saga that was parked in between
// is complete.
func TestPeople(t *testing.T) {
	c, w := newReceiver(t), newWorld(t, map[string][]int{"POST /pay": {500}})
	r := newRig(t, llm.Config{}, strings.ReplaceAll(`
saga: people
steps:
  - {id: pay, http: POST W/pay, body: {}, in_doubt: ask}
  - {id: ok, approval: {title: Ship it?}}
  - {id: came, signal: parcel}
`, "W", w.URL))
	n := r.node(c)
	id := n.start("people", "null", "")
	r.reaches(id, saga.Stuck)
	n.command(id, saga.Command{Do: saga.Pause{}, Actor: "ann", Reason: "lunch"})
	n.command(id, saga.Command{Do: saga.Resume{}, Actor: "ann", Reason: "done"})
	n.command(id, saga.Command{Do: saga.Resolve{Outcome: "succeeded"}, Path: "pay", Actor: "ann", Reason: "it is on the statement"})
	r.reaches(id, saga.Waiting)
	m, err := r.machine(id)
	if err != nil {
		t.Fatal(err)
	}
	n.command(id, saga.Command{Do: saga.Approve{Shown: m.Inbox()[0].ShownHash}, Path: "ok", Actor: "bob", Role: "approver"})
	n.command(id, saga.Command{Do: saga.Signal{Name: "parcel"}, Actor: "dhl"})
	spans := c.await(t, id)
	want := `people succeeded (paused) (resumed) (signalled)
  pay succeeded (waiting) (operator)
    POST in_doubt !
  ok succeeded (waiting) (operator)
  came succeeded (waiting)
`
	if d := cmp.Diff(want, tree(spans, "recourse.status", "recourse.class")); d != "" {
		t.Error(d)
	}
	trace := saga.NewTrace(id, saga.StartedData{})
	e := spanOf(t, spans, trace.Step("pay", journal.Do)).Events[1]
	if got := value(e.Attributes, "recourse.actor") + ", " + value(e.Attributes, "recourse.outcome") + ", " + value(e.Attributes, "recourse.command.reason"); got != "ann, succeeded, it is on the statement" {
		t.Errorf("the operator's event says %s", got)
	}
}

// The lives of a session's agent are events of the session, and each call is a step.
func TestSession(t *testing.T) {
	c, w := newReceiver(t), newWorld(t, map[string][]int{})
	r := newRig(t, llm.Config{})
	src := "action: pay\nagents: approve\nhttp: POST " + w.URL + "/pay\nbody: {}\n"
	if _, _, _, err := r.catalog.PublishAction(t.Context(), "pay", []byte(src), ""); err != nil {
		t.Fatal(err)
	}
	def, err := r.catalog.Session(t.Context(), &saga.SessionData{Name: "support", Actions: []string{"pay@1"}})
	if err != nil {
		t.Fatal(err)
	}
	data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1, Input: json.RawMessage("null")})
	if wrong != nil {
		t.Fatal(wrong)
	}
	n := r.node(c)
	begun, err := n.Start(t.Context(), def, journal.Start{Definition: def.Name, Version: 1, SHA256: def.SHA256}, data, false)
	if err != nil {
		t.Fatal(err)
	}
	id := begun.ID
	m, err := r.machine(id)
	until := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !is(); <-time.After(5 * time.Millisecond) {
			if m, err = r.machine(id); err != nil || time.Now().After(end) {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	n.command(id, saga.Command{Do: saga.Attach{Token: "aa", Holder: "host-1"}})
	until("it is attached", func() bool { return m.Live() })
	n.command(id, saga.Command{Do: saga.CallAction{Life: 1, Action: "pay"}})
	until("it waits for an approval", func() bool { return len(m.Inbox()) > 0 })
	n.command(id, saga.Command{Do: saga.Approve{Shown: m.Inbox()[0].ShownHash}, Path: "pay[0]", Actor: "bob", Role: "approver"})
	until("the call has ended", func() bool { return m.CallStatus("pay[0]").Ended() })
	n.command(id, saga.Command{Do: saga.CommitSession{Life: 1}})
	spans := c.await(t, id)
	want := `~support succeeded (attached) (committed)
  pay succeeded (called) (waiting) (operator)
    POST succeeded
`
	if d := cmp.Diff(want, tree(spans, "recourse.status", "recourse.class")); d != "" {
		t.Error(d)
	}
	trace := saga.NewTrace(id, saga.StartedData{})
	if e := spanOf(t, spans, trace.Root()).Events[0]; value(e.Attributes, "recourse.life") != "1" || value(e.Attributes, "recourse.holder") != "host-1" {
		t.Errorf("the event of the life says %v", e.Attributes)
	}
}

// A child belongs to its parent's trace, below the attempt that started it.
func TestChild(t *testing.T) {
	c, w := newReceiver(t), newWorld(t, map[string][]int{})
	r := newRig(t, llm.Config{}, strings.ReplaceAll(`
saga: child
steps:
  - {id: a, http: POST W/a, body: {}}
`, "W", w.URL), "saga: parent\nsteps:\n  - {id: sub, run: child}\n")
	n := r.node(c)
	id := n.start("parent", "null", "")
	heads := func() []journal.Head {
		list, err := r.store.Sagas(t.Context(), journal.Filter{Definition: "child", Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		return list.Heads
	}
	c.await(t, id)
	kid := heads()[0].ID
	spans := c.await(t, kid)
	want := `parent
  sub
    run child
      child (decided) (operator)
        a
          POST
`
	if d := cmp.Diff(want, tree(spans)); d != "" {
		t.Error(d)
	}
}

// No span contains a secret, a prompt or a completion.
func TestNothingSecret(t *testing.T) {
	const canary = "c4n4ry-0451"
	c, w := newReceiver(t), newWorld(t, map[string][]int{"POST /in": {422}})
	r := newRig(t, llm.Config{}, strings.ReplaceAll(`
saga: secrets
secrets: [KEY]
steps:
  - {id: fine, http: "POST W/fine", query: {k: "${secrets.KEY}"}, headers: {X-Key: "${secrets.KEY}"}, body: {said: "${input.said}", k: "${secrets.KEY}"}}
  - {id: path, http: "POST W/in?part=1", auth: "${secrets.KEY}", body: {}}
output: ${input.said}
`, "W", w.URL))
	r.secret = canary
	n := r.node(c)
	id := n.start("secrets", `{"said":"w0rds"}`, "")
	spans := c.await(t, id)
	if got := w.seen["POST /in"][0].Get("Authorization"); got != "Bearer "+canary || len(spans) != 5 {
		t.Fatalf("the secret was not sent, but %q, or there are not 5 spans, but %d", got, len(spans))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, word := range []string{canary, "w0rds", "x1"} {
		if strings.Contains(string(c.bodies), word) {
			t.Errorf("%s is in a span", word)
		}
	}
	trace := saga.NewTrace(id, saga.StartedData{})
	if got := attr(spanOf(t, spans, trace.Attempt("path", journal.Do, 0, 1)), "url.full"); got != w.URL+"/in" {
		t.Errorf("url.full is %s", got)
	}
}
