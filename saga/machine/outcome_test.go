package machine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"recourse/internal/story/storytest"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// undoneInDoubt is a saga whose requests are answered late: pay and its undo time out, and the
// status check finds it. The task and the child saga end by themselves.
const undoneInDoubt = `saga: order
steps:
  - {id: job, task: {type: t}, compensate: none}
  - {id: kid, run: other, compensate: none}
  - id: pay
    http: POST ${vars.pay}/pays
    body: {}
    in_doubt: {verify: {http: "GET ${vars.pay}/pays?key=${key}", found: result.body.found}}
    compensate: {http: "POST ${vars.pay}/pays/undo", body: {}, in_doubt: retry, retry: {initial: 1s, jitter: 0}}
  - {id: no, fail: at the end}
`

// After a replay, the attempts whose answers are lost are those with an intent and without an
// outcome, except those of workers and of child sagas. An attempt whose request may have taken
// effect leaves its step, or its compensation, in doubt until another one settles that.
func TestInFlightAndDoubtful(t *testing.T) {
	p := play(t, map[string]string{"definition": undoneInDoubt, "input": "null", "script": `pay do: timeout
pay query: 200 {"found":true}
pay undo: timeout
`})
	var flying, doubtful []string
	for n := range p.records {
		m, err := machine.Replay(p.def, p.m.ID(), p.records[:n+1])
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range m.InFlight() {
			flying = append(flying, fmt.Sprintf("%s %s %d", a.Path, a.Way, a.Number))
		}
		for _, way := range []journal.Way{journal.Do, journal.Undo} {
			if m.Doubtful("pay", way) {
				doubtful = append(doubtful, string(way))
			}
			if m.Doubtful("none", way) || m.Doubtful("job", way) {
				t.Errorf("after record %d a step that has no doubt is in doubt", n+1)
			}
		}
	}
	if want := []string{"pay do 1", "pay.verify do 1", "pay undo 1", "pay undo 2"}; !slices.Equal(flying, want) {
		t.Errorf("in flight: %q, want %q\n%s", flying, want, p.out.String())
	}
	if want := []string{"do", "undo"}; !slices.Equal(slices.Compact(doubtful), want) {
		t.Errorf("in doubt: %q, want %q\n%s", doubtful, want, p.out.String())
	}
}

// The answer to an attempt that is not in flight changes nothing: it is of a step that the saga
// does not have, of an earlier attempt, or of one that has its outcome.
func TestStaleAnswers(t *testing.T) {
	p := begun(t, "saga: x\nsteps:\n  - {id: look, http: \"GET https://pay.example/x\", retry: {initial: 1s, jitter: 0}}\n")
	p.script = []string{"look do: 503"}
	answer := func(path string, attempt int, stale bool) {
		t.Helper()
		_, err := p.m.RecordOutcome(path, journal.Do, attempt, saga.Answer{Sent: true, Status: 200}, p.now, 0)
		if errors.Is(err, machine.ErrStale) != stale || !stale && err != nil {
			t.Errorf("an answer to attempt %d of %s: %v, want it to be stale: %v", attempt, path, err, stale)
		}
	}
	answer("none", 1, true)
	p.step() // the first attempt, and its answer
	answer("look", 1, true)
	p.step() // the backoff is over
	d, ok := dispatched(p)
	if !ok {
		t.Fatal("it is not sent again")
	}
	p.write(d.Intent)
	answer("look", 1, true)
	answer("look", 3, true)
	answer("look", 2, false)
}

// A record keeps the body of an answer besides the output up to a size, and the length of a larger
// one.
func TestKeptResult(t *testing.T) {
	for _, more := range []int{0, 1} {
		body := `"` + strings.Repeat("x", 16<<10-2+more) + `"`
		p := play(t, map[string]string{
			"definition": "saga: x\nsteps:\n  - {id: look, http: GET https://pay.example/x}\n", "input": "null",
			"script": "look do: 404 " + body,
		})
		var d struct {
			Result struct{ Body json.RawMessage }
		}
		p.decode(string(p.records[2].Data), &d)
		want := body
		if more > 0 {
			want = `{"left_out_bytes":16385}`
		}
		if got := string(d.Result.Body); got != want {
			t.Errorf("of %d bytes the record has %.80s", len(body), got)
		}
	}
}

// The record of a task has what its worker says that it has cost. It has no tokens, which only
// models use.
func TestCostOfATask(t *testing.T) {
	p := begun(t, "saga: x\nsteps:\n  - {id: job, task: {type: t}, compensate: none}\n")
	d, ok := dispatched(p)
	if !ok {
		t.Fatal("there is no task")
	}
	p.write(d.Intent)
	result := saga.TaskResult{Outcome: saga.TaskCompleted, Output: json.RawMessage(`1`), Cost: "0.05"}
	r, err := p.m.RecordOutcome("job", journal.Do, 1, result.Answer(), p.now, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(saga.Encode(r.Data)), `{"status_code":200,"output":1,"cost":"0.05"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The answer of a model that an agent has asked is kept for the lives that ask again. A failure is
// not: the agent asks again.
func TestKeptAnswer(t *testing.T) {
	def := storytest.ParseSession(t, guardActions)
	p := storytest.PlayDefinition(t, def, storytest.Script{Commands: guardCommands(nil), Answer: func(s machine.Send, _ time.Time) saga.Answer { return guardAnswer(s) }})
	i := slices.IndexFunc(p.Records, func(r journal.Record) bool { return r.Kind == journal.Intent && strings.HasPrefix(r.Path, "llm[") })
	m, err := machine.Replay(def, p.ID, p.Records[:i+1])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		body  string
		class journal.Class
		blobs int
	}{{`{"whole":true}`, journal.Succeeded, 1}, {`{"whole":false}`, journal.Refused, 0}} {
		a := saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(c.body), Content: []byte("{}")}
		d, err := m.RecordOutcome(p.Records[i].Path, journal.Do, 1, a, m.At(), 0)
		if err != nil || d.Class != c.class || len(d.Blobs) != c.blobs {
			t.Errorf("%s: %s with %d blobs, %v; want %s with %d", c.body, d.Class, len(d.Blobs), err, c.class, c.blobs)
		}
	}
}

// A child saga that does not exist is undone if it is unknown whether it was started: it was not.
// If the step has succeeded, or was to start it, that is a failure.
func TestUndoOfAChildThatDoesNotExist(t *testing.T) {
	missing := saga.Answer{Code: saga.NoSaga, Detail: "there is no saga", Final: true}
	for name, c := range map[string]struct {
		do   saga.Answer
		want journal.Class // of the undo
	}{
		"in doubt":  {saga.Answer{Sent: true, Code: "timeout"}, journal.Succeeded},
		"succeeded": {saga.Answer{Sent: true, Status: 200, Body: json.RawMessage("1")}, journal.Refused},
	} {
		p := begun(t, "saga: x\nsteps:\n  - {id: kid, run: child, retry: none, on_error: continue}\n  - {id: no, fail: at the end}\n")
		d, _ := dispatched(p)
		p.write(d.Intent)
		for _, way := range []journal.Way{journal.Do, journal.Undo} {
			o, err := p.m.RecordOutcome("kid", way, 1, missing, p.now, 0)
			if err != nil {
				t.Fatal(err)
			}
			if want := map[journal.Way]journal.Class{journal.Do: journal.Refused, journal.Undo: c.want}[way]; o.Class != want {
				t.Errorf("%s: %s of a child that does not exist: %s, want %s", name, way, o.Class, want)
			}
			if started := o.Data.(saga.OutcomeData).NeverStarted; (started == d.Send.Request.Child.Saga) != (o.Class == journal.Succeeded) {
				t.Errorf("%s: %s: %q was never started", name, way, started)
			}
			if way == journal.Undo {
				break
			}
			if o, err = p.m.RecordOutcome("kid", way, 1, c.do, p.now, 0); err != nil {
				t.Fatal(err)
			}
			p.write(o)
			u, ok := dispatched(p)
			for ; !ok; u, ok = dispatched(p) {
				p.step()
			}
			p.write(u.Intent)
		}
	}
}

// `on` names a failure by the code of the answer, whatever its status.
func TestRetryOnACode(t *testing.T) {
	p := begun(t, "saga: x\nsteps:\n  - {id: look, http: \"GET https://pay.example/x\", retry: {on: [body_cut]}}\n")
	d, _ := dispatched(p)
	p.write(d.Intent)
	for code, want := range map[string]saga.Next{"body_cut": saga.NextRetry, "body_invalid": saga.NextFail} {
		o, err := p.m.RecordOutcome("look", journal.Do, 1, saga.Answer{Sent: true, Status: 503, Code: code}, p.now, 0)
		if err != nil || o.Data.(saga.OutcomeData).Next != want {
			t.Errorf("%s: %+v, %v, want %s", code, o, err, want)
		}
	}
}

// An answer is read, which may take long, if its step has a schema or its kind reads answers, and
// only if it is complete and has an expected status.
func TestRead(t *testing.T) {
	const plain, checked, tool = `http: GET https://a.example/`, `http: GET https://a.example/, expect: {schema: {n: integer}}`, `mcp: {server: shop, tool: look}`
	for _, c := range []struct {
		step string
		a    saga.Answer
		want bool
	}{
		{plain, saga.Answer{Sent: true, Status: 200}, false},
		{checked, saga.Answer{Sent: true, Status: 200}, true},
		{checked, saga.Answer{Sent: true, Status: 404}, false},
		{checked, saga.Answer{Sent: true, Status: 200, Code: "body_cut"}, false},
		{checked, saga.Answer{Sent: true, Code: "timeout"}, false},
		{tool, saga.Answer{Sent: true, Status: 200}, true},
		{tool, saga.Answer{Sent: true, Status: 500}, false},
	} {
		d, ok := dispatched(begun(t, "saga: x\nsteps:\n  - {id: a, compensate: none, "+c.step+"}\n"))
		if !ok {
			t.Fatal("nothing is sent")
		}
		if got := d.Send.Read(c.a).Reading != nil; got != c.want {
			t.Errorf("%s: %+v is read: %v", c.step, c.a, got)
		}
	}
	if a := (machine.Send{}).Read(saga.Answer{Sent: true, Status: 200}); a.Reading != nil {
		t.Errorf("the answer of no step is read: %+v", a.Reading)
	}
}

// A key of the author's own is sent if it can be in a header, in a URL and in every store.
func TestKeysOfAuthors(t *testing.T) {
	for key, good := range map[string]bool{
		"!": true, "~": true, "order-7": true, strings.Repeat("k", 255): true,
		"": false, " ": false, "a b": false, "a\u007fb": false, "a\nb": false, "é": false, "a${b": false, strings.Repeat("k", 256): false,
	} {
		p := play(t, map[string]string{
			"definition": "saga: x\nsteps:\n  - {id: do, http: PUT https://a.example/1, compensate: none, idempotency: {key: \"${input}\"}}\n",
			"input":      mustJSON(t, key),
		})
		if r := p.records[1]; good && (r.Kind != journal.Intent || r.Key != key) || !good && (r.Kind != journal.Outcome || !strings.Contains(string(r.Data), `"bad_key"`)) {
			t.Errorf("%q: %s %q %s", key, r.Kind, r.Key, r.Data)
		}
	}
}
