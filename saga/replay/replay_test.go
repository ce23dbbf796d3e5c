package replay_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
	"recourse/saga/replay"
)

const order = `
saga: order
input: {amount: decimal}
budget: 5.00 USD
steps:
  - {id: reserve, http: "POST https://shop.example/reservations", body: {amount: "${input.amount}"}, cost: 0.10 USD, compensate: {http: "DELETE https://shop.example/reservations/${output.id}"}}
  - {id: ok, approval: {title: "Charge ${input.amount}?", show: {amount: "${input.amount}"}}, timeout: 1h}
  - {id: rest, sleep: 10m}
  - {id: charge, http: "POST https://pay.example/charges", body: {amount: "${input.amount}", by: "${steps.ok.output.by}"}, retry: 2, compensate: {http: "POST https://pay.example/charges/${output.id}/refund", body: {}}}
  - {id: told, emit: order.charged, to: [bus], data: {id: "${steps.charge.output.id}"}}
output: ${steps.charge.output.id}
`

var id = uuid.Must(uuid.FromString("01920000-0000-7000-8000-000000000001"))

func parse(t *testing.T, src string) *saga.Definition {
	t.Helper()
	def, errs := dsl.Parse("order.yaml", []byte(src), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	return def
}

// record runs a definition and returns its journal. Each path's answers are used up in their order;
// without one, the answer is 200 {"id": "x"}. An answer of "late" and a path delays its next resend
// by an hour, as if no node had run; with "late and refused", a command comes then that is refused.
// One of "refused" and a path lets an approval of something that is not shown come first. For "late
// hold" see next.
func record(t *testing.T, src string, answers map[string][]saga.Answer) []journal.Record {
	t.Helper()
	return recordLate(t, 0, src, answers)
}

// recordLate is record on a node that knows the database's clock only to a span of time.
func recordLate(t *testing.T, span time.Duration, src string, answers map[string][]saga.Answer) []journal.Record {
	t.Helper()
	def := parse(t, src)
	data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1, Input: json.RawMessage(`{"amount":19.10}`)})
	if wrong != nil {
		t.Fatal(wrong)
	}
	m, now := machine.New(def, id), time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC)
	var records []journal.Record
	add := func(d machine.Draft, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second)
		m.Clock(now.Add(span))
		r, err := m.Append(d, now, "n1")
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	refuse := func(c saga.Command) {
		t.Helper()
		_, err := m.Validate(uuid.NewV5(id, "no"), c)
		refusal, ok := errors.AsType[*machine.Refusal](err)
		if !ok {
			t.Fatalf("the saga accepts %T: %v", c.Do, err)
		}
		add(m.Reject(uuid.NewV5(id, "no"), c, refusal), nil)
	}
	m.Clock(now.Add(span))
	add(m.Start(data), nil)
	for range 200 {
		if m.Ended() {
			return records
		}
		ds := m.Decide()
		if len(ds) == 0 {
			t.Fatalf("the saga waits: %s", m.Status())
		}
		switch d := next(ds, &now, answers).(type) {
		case machine.Write:
			add(d.Record, nil)
		case machine.Dispatch:
			if list := answers["late "+d.Send.Path]; len(list) > 0 && d.Send.Attempt > 1 { // no node ran
				answers["late "+d.Send.Path], now = list[1:], now.Add(time.Hour)
				add(machine.Draft{Kind: journal.Woke, Path: d.Send.Path, Way: d.Send.Way, Data: saga.WokeData{Timer: "resend", Due: saga.Time{Time: now}}}, nil)
				continue
			}
			if list := answers["late and refused "+d.Send.Path]; len(list) > 0 && d.Send.Attempt > 1 {
				answers["late and refused "+d.Send.Path], now = list[1:], now.Add(time.Hour)
				refuse(saga.Command{Do: saga.Resume{}, Actor: "ann", Trusted: true, At: now})
				continue
			}
			add(d.Intent, nil)
			path, a := d.Send.Path, saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(`{"id":"x"}`)}
			if d.Send.Way == journal.Undo {
				path += " undo"
			}
			if list := answers[path]; len(list) > 0 {
				a, answers[path] = list[0], list[1:]
			}
			// An engine, too, takes the latest time at which the answer can have come.
			add(m.RecordOutcome(d.Send.Path, d.Send.Way, d.Send.Attempt, a, now.Add(span), 1<<63))
		case machine.WakeAt:
			if d.At.After(now) {
				now = d.At
			}
			add(d.Woke, nil)
		case machine.Escalate:
			var do saga.Operation = saga.Approve{Shown: d.Entry.ShownHash}
			if d.Entry.ShownHash == "" {
				do = saga.Resolve{Outcome: "failed"}
			}
			c := saga.Command{Do: do, Path: d.Entry.Path, Reason: "looked", Actor: "ann", Trusted: true, At: now}
			if list := answers["refused "+d.Entry.Path]; len(list) > 0 {
				answers["refused "+d.Entry.Path] = list[1:]
				wrong := c
				wrong.Do = saga.Approve{Shown: strings.Repeat("0", 64)}
				refuse(wrong)
			}
			add(m.Validate(uuid.NewV5(id, "ok"), c))
		}
	}
	t.Fatal("the saga does not end")
	return nil
}

// next returns the decision that is carried out next. While an answer of "late hold" is left, no
// person resumes a step that is held, and when nothing else is to be done, no node runs for an
// hour. Then all timers are due, and they come first, as in an engine.
func next(ds []machine.Decision, now *time.Time, answers map[string][]saga.Answer) machine.Decision {
	var earliest *machine.WakeAt
	for _, d := range ds {
		switch d := d.(type) {
		case machine.WakeAt:
			if !d.At.After(*now) {
				return d
			}
			if earliest == nil || d.At.Before(earliest.At) {
				earliest = &d
			}
		case machine.Write, machine.Dispatch:
			if len(answers["late hold"]) > 0 {
				return d
			}
		}
	}
	if len(answers["late hold"]) == 0 {
		return ds[0]
	}
	if d, ok := earliest.Woke.Data.(saga.WokeData); ok && d.Timer == saga.TimerHold {
		delete(answers, "late hold")
		*now = now.Add(time.Hour)
		return next(ds, now, answers)
	}
	return *earliest
}

// changed returns the definition with a text replaced, which must be in it.
func changed(t *testing.T, pairs ...string) string {
	t.Helper()
	src := order
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(src, pairs[i]) {
			t.Fatalf("the definition has no %q", pairs[i])
		}
		src = strings.Replace(src, pairs[i], pairs[i+1], 1)
	}
	return src
}

// A changed definition gets the verdict that says what would have been different.
func TestVerdicts(t *testing.T) {
	happy := func() []journal.Record { return record(t, order, nil) }
	declined := func() []journal.Record {
		return record(t, order, map[string][]saga.Answer{"charge": {{Sent: true, Status: 402, Body: json.RawMessage(`{"error":"declined"}`)}}})
	}
	flaky := func() []journal.Record {
		return record(t, order, map[string][]saga.Answer{"charge": {{Sent: true, Status: 503}}})
	}
	// The timeouts pass before the decision, and before the end, if they count from the times of
	// records.
	tight := changed(t, "saga: order", "saga: order\ntimeout: 10m11s", "timeout: 1h", "timeout: 1s")
	const approval = "  - {id: ok, approval: {title: \"Charge ${input.amount}?\", show: {amount: \"${input.amount}\"}}, timeout: 1h}\n"
	unnamed := changed(t, `, by: "${steps.ok.output.by}"`, "")
	signal := changed(t, "  - {id: rest", "  - {id: go, signal: go, timeout: 1h, on_error: continue}\n  - {id: rest")
	waited := func() []journal.Record { return record(t, signal, nil) }
	unread := func() []journal.Record { return record(t, unnamed, nil) }
	late := func() []journal.Record { return recordLate(t, 4*time.Second, tight, nil) }
	for _, tt := range []struct {
		name     string
		records  func() []journal.Record
		src      string
		verdict  replay.Verdict
		path     string
		pointer  string
		was, now string
	}{
		{name: "unchanged", records: happy, src: order, verdict: replay.Same},
		{name: "unchanged, declined", records: declined, src: order, verdict: replay.Same},
		{name: "unchanged, retried", records: flaky, src: order, verdict: replay.Same},
		{name: "unchanged, by a late clock", records: late, src: tight, verdict: replay.Same},
		{name: "another text", records: happy, src: changed(t, "saga: order", "saga: order\ndescription: charges"), verdict: replay.Same},
		{name: "a field of a body", records: happy, src: changed(t, `by: "${steps.ok.output.by}"`, `by: shop`), verdict: replay.OtherRequest, path: "charge", pointer: "/body/by", was: `"ann"`, now: `"shop"`},
		{name: "another URL", records: happy, src: changed(t, "pay.example/charges\"", "pay.example/v2/charges\""), verdict: replay.OtherRequest, path: "charge", pointer: "/url", was: `"https://pay.example/charges"`, now: `"https://pay.example/v2/charges"`},
		{name: "another key", records: happy, src: changed(t, `id: charge,`, `id: charge, idempotency: {header: Idempotency-Key, key: "order-${input.amount}"},`), verdict: replay.OtherRequest, path: "charge", pointer: "/headers/Idempotency-Key"},
		{name: "an undo differs", records: declined, src: changed(t, "reservations/${output.id}", "reservations/by-id/${output.id}"), verdict: replay.OtherRequest, path: "reserve", pointer: "/url"},
		{name: "what is approved", records: happy, src: changed(t, `show: {amount: "${input.amount}"}`, `show: {amount: "${input.amount}", currency: USD}`), verdict: replay.OtherRequest, path: "ok", pointer: "/approval/shown/currency", now: `"USD"`},
		{name: "an event", records: happy, src: changed(t, "order.charged", "order.paid"), verdict: replay.OtherRequest, path: "told", pointer: "/type"},
		{name: "a step less", records: happy, src: changed(t, "  - {id: told, emit: order.charged, to: [bus], data: {id: \"${steps.charge.output.id}\"}}\n", ""), verdict: replay.OtherRequest, path: "told"},
		{name: "a request less", records: happy, src: changed(t, "id: reserve,", "id: reserve, when: \"false\","), verdict: replay.OtherRequest, path: "reserve"},
		{name: "a step more", records: happy, src: changed(t, "  - {id: told", "  - {id: mail, http: \"POST https://mail.example/mails\", body: {}}\n  - {id: told"), verdict: replay.NeverAnswered, path: "mail"},
		{name: "an approval more", records: happy, src: changed(t, "  - {id: rest", "  - {id: again, approval: {title: Sure?}}\n  - {id: rest"), verdict: replay.NeverAnswered, path: "again"},
		{name: "an approval less", records: unread, src: strings.Replace(unnamed, approval, "", 1), verdict: replay.OtherRequest, path: "ok"},
		{name: "unchanged, a signal", records: waited, src: signal, verdict: replay.Same},
		{name: "a signal less", records: waited, src: order, verdict: replay.OtherRequest, path: "go"},
		{name: "a longer sleep", records: happy, src: changed(t, "sleep: 10m", "sleep: 1h"), verdict: replay.Same},
		{name: "more attempts", records: declined, src: changed(t, "retry: 2,", "retry: {attempts: 3, on: [402]},"), verdict: replay.NeverAnswered, path: "charge"},
		{name: "a shorter timeout", records: happy, src: changed(t, "saga: order", "saga: order\ntimeout: 5m"), verdict: replay.NeverAnswered, path: "reserve"},
		{name: "stop instead of undo", records: declined, src: changed(t, "saga: order", "saga: order\non_failure: stop"), verdict: replay.OtherEnd, pointer: "/status", was: `"compensated"`, now: `"failed"`},
		{name: "a stricter expectation", records: happy, src: changed(t, "retry: 2,", "retry: 2, expect: {that: \"result.body.id == \\\"y\\\"\"}, in_doubt: fail,"), verdict: replay.NeverAnswered, path: "charge"},
		{name: "a failure that does not matter", records: declined, src: changed(t, "retry: 2,", "retry: 2, on_error: continue,", "output: ${steps.charge.output.id}", "output: ${steps.charge.output?.id}", `{id: "${steps.charge.output.id}"}`, `{id: "${steps.charge.output?.id}"}`), verdict: replay.OtherRequest, path: "told"},
		{name: "another output", records: happy, src: changed(t, "output: ${steps.charge", "output: ${steps.reserve"), verdict: replay.Same},
		{name: "an output of another form", records: happy, src: changed(t, "output: ${steps.charge.output.id}", "output: {charge: \"${steps.charge.output.id}\"}"), verdict: replay.OtherEnd, pointer: "/output"},
		{name: "another price", records: happy, src: changed(t, "0.10 USD", "0.25 USD"), verdict: replay.OtherCost, pointer: "/cost", was: `"0.10"`, now: `"0.25"`},
		{name: "an input that is refused", records: happy, src: changed(t, "amount: decimal", "amount: decimal, order: string"), verdict: replay.OtherEnd, pointer: "/input/order"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := replay.Against(parse(t, tt.src), id, tt.records(), replay.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got.Verdict != tt.verdict || got.Path != tt.path || got.Pointer != tt.pointer {
				t.Errorf("got %s of %q at %q: %s", got.Verdict, got.Path, got.Pointer, got.Detail)
			}
			if tt.was != "" && string(got.Was) != tt.was || tt.now != "" && string(got.Now) != tt.now {
				t.Errorf("got %s instead of %s", got.Now, got.Was)
			}
			if got.Before.Status == "" || (got.Verdict == replay.Same) != (got.Detail == "") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

const parent = `
saga: parent
input: {amount: decimal}
budget: {amount: 0.50 USD, tokens: 100}
steps:
  - {id: kid, run: kid, budget: {amount: 0.40 USD, tokens: 90}, retry: {attempts: 3, initial: 1s}}
  - {id: pay, http: "POST https://pay.example/charges", body: {}, cost: 0.20 USD, compensate: none}
finally:
  - {id: more, run: kid, budget: {amount: 0.25 USD, tokens: 30}}
`

// A replay takes from the journal what a child saga has cost, and what it may still cost.
func TestChildCost(t *testing.T) {
	report := func(outcome, spent, kept string, tokens int64) saga.Answer {
		c := &saga.ChildCost{Currency: "USD", Spent: spent, Reserved: kept, Tokens: saga.TokensView{Input: tokens}}
		return (&saga.TaskResult{Outcome: outcome, Output: json.RawMessage(`{"id":"x"}`), Child: c}).Answer()
	}
	failed := func(code string) saga.Answer {
		a := report(saga.TaskFailed, "0.10", "", 20)
		a.Code = code
		return a
	}
	declined := []saga.Answer{{Sent: true, Status: 402, Body: json.RawMessage("{}")}}
	lost := saga.Answer{Sent: true, Code: "connection"}
	more := []saga.Answer{report(saga.TaskCompleted, "0.01", "", 1)}
	for name, tt := range map[string]struct {
		answers map[string][]saga.Answer
		output  string
	}{
		"done":             {answers: map[string][]saga.Answer{"kid": {report(saga.TaskCompleted, "0.10", "0.05", 20)}}},
		"done, an output":  {answers: map[string][]saga.Answer{"kid": {report(saga.TaskCompleted, "0.10", "0.05", 20)}}, output: "${result.body.id}"},
		"failed":           {answers: map[string][]saga.Answer{"kid": {report(saga.TaskFailed, "0.10", "", 20)}}},
		"undone":           {answers: map[string][]saga.Answer{"kid": {report(saga.TaskCompleted, "0.10", "0.05", 20)}, "pay": declined, "kid undo": {report(saga.TaskCompleted, "0.25", "", 60)}}},
		"not started once": {answers: map[string][]saga.Answer{"kid": {{Code: "not_started"}, report(saga.TaskCompleted, "0.10", "0.05", 20)}}},
		"never started":    {answers: map[string][]saga.Answer{"kid": {{Code: "definition_not_found", Final: true}}}},
		"in doubt once":    {answers: map[string][]saga.Answer{"kid": {lost, report(saga.TaskCompleted, "0.10", "0.05", 20)}}},

		"doubt, then failed":       {answers: map[string][]saga.Answer{"kid": {lost, failed("step_failed")}}},
		"doubt, then timed out":    {answers: map[string][]saga.Answer{"kid": {lost, failed("timeout")}}},
		"doubt, then parent ended": {answers: map[string][]saga.Answer{"kid": {lost, {Code: saga.CodeParentEnded, Final: true}}}},
		"doubt, then not found":    {answers: map[string][]saga.Answer{"kid": {lost, {Code: "definition_not_found", Final: true}}}},
		"doubt to the end":         {answers: map[string][]saga.Answer{"kid": {lost, lost, lost}}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.answers["more"] = more
			src := parent
			if tt.output != "" {
				src = strings.Replace(src, "initial: 1s}}", "initial: 1s}, output: \""+tt.output+"\"}", 1)
			}
			got, err := replay.Against(parse(t, src), id, record(t, src, tt.answers), replay.Options{})
			if err != nil || got.Verdict != replay.Same {
				t.Errorf("got %s of %q: %s, %v", got.Verdict, got.Path, got.Detail, err)
			}
		})
	}
}

// A refusal after an attempt in doubt is recorded as in doubt. A replay does not try it again, and
// neither does it try again what a deadline or the key's window has ended.
func TestRefusedInDoubt(t *testing.T) {
	lost := saga.Answer{Sent: true, Code: "connection"}
	const src = `
saga: calls
input: {amount: decimal}
steps:
  - id: call
    %s
    retry: {attempts: 5, initial: 10s}
    %s
    compensate: none
`
	const (
		post = `http: "POST https://pay.example/charges"`
		mcp  = "mcp: {server: crm, tool: charge}"
		task = "task: charge"
	)
	for name, tt := range map[string]struct {
		call, policy string
		answers      []saga.Answer
		span         time.Duration
	}{
		"egress":              {post, "", []saga.Answer{lost, {Code: "egress_denied"}}, 0},
		"egress, failed":      {post, "in_doubt: fail", []saga.Answer{lost, {Code: "egress_denied"}}, 0},
		"not sent":            {post, "", []saga.Answer{lost, {Code: "dns"}}, 0},
		"deadline":            {post, "deadline: 10s", []saga.Answer{lost, lost}, 0},
		"Retry-After":         {post, "deadline: 40s", []saga.Answer{{Sent: true, Status: 429, Headers: map[string]string{"retry-after": "60"}, RetryAfter: time.Minute, Body: json.RawMessage("{}")}}, 0},
		"key window":          {post, "key_window: 10s", []saga.Answer{lost, lost}, 0},
		"window by the clock": {post, "key_window: 1500ms", []saga.Answer{saga.InterruptedAnswer()}, 2 * time.Second},
		"withdrawn":           {task, "", []saga.Answer{{Code: saga.CodeWithdrawn}}, 0},
		"worker fails":        {task, "in_doubt: retry", []saga.Answer{{Sent: true, Code: saga.CodeHeartbeatLost}, {Sent: true, Code: "no_stock", Report: &saga.Report{}}}, 0},
		"in doubt again":      {task, `in_doubt: {verify: {http: "GET https://pay.example/call", found: result.status == 404}, otherwise: ask}`, []saga.Answer{{Sent: true, Code: saga.CodeHeartbeatLost}, {Sent: true, Code: "no_mood", Report: &saga.Report{InDoubt: true}}}, 0},
		"tool refused":        {mcp, "", []saga.Answer{{Sent: true, Code: "mcp_refused"}}, 0},
		"tool refused later":  {mcp, "in_doubt: retry", []saga.Answer{lost, {Sent: true, Code: "mcp_refused"}}, 0},
		"session ended":       {mcp, "in_doubt: retry", []saga.Answer{{Sent: true, Code: "mcp_session_ended"}}, 0},
		"tool missing":        {mcp, "in_doubt: retry", []saga.Answer{lost, {Code: "mcp_tool_missing"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			src := fmt.Sprintf(src, tt.call, tt.policy)
			same(t, name, src, recordLate(t, tt.span, src, map[string][]saga.Answer{"call": tt.answers}))
		})
	}
}

// same checks that a journal, replayed against its own definition, comes out the same.
func same(t *testing.T, name, src string, records []journal.Record) {
	t.Helper()
	got, err := replay.Against(parse(t, src), id, records, replay.Options{})
	if err != nil || got.Verdict != replay.Same {
		t.Errorf("%s: got %s of %q: %s, %v", name, got.Verdict, got.Path, got.Difference(), err)
	}
}

// charge returns a definition of one step, with its policies and its compensation.
func charge(policy, compensation string) string {
	return fmt.Sprintf(`
saga: calls
input: {amount: decimal}
steps:
  - id: call
    http: POST https://pay.example/charges
    %s
    compensate: %s
`, strings.ReplaceAll(policy, "; ", "\n    "), compensation)
}

// An attempt in doubt came after the key's window, and before the deadline, which it may have
// passed with the highest jitter, or by what the node did not know of the clock. Then a replay,
// too, lets a person decide, and does not undo the step.
func TestBetweenWindowAndDeadline(t *testing.T) {
	lost := saga.Answer{Sent: true, Code: "connection"}
	for policy, answers := range map[string][]saga.Answer{
		"retry: {initial: 4s}; key_window: 5s; deadline: 7s":   {lost, saga.InterruptedAnswer()},
		"retry: {initial: 10s}; key_window: 2s; deadline: 12s": {lost},
	} {
		src := charge(policy, `{http: "DELETE https://pay.example/charges/${key}"}`)
		records := record(t, src, map[string][]saga.Answer{"call": answers})
		if !slices.ContainsFunc(records, func(r journal.Record) bool { return bytes.Contains(r.Data, []byte(`"next":"await_resolution"`)) }) {
			t.Fatalf("%s: no person decides", policy)
		}
		same(t, policy, src, records)
	}
}

// A step that was not sent again in time, because no node ran, is not sent again by a replay. The
// first record of the node that came then may be that of a command that it refused.
func TestResentLate(t *testing.T) {
	for _, policy := range []string{"key_window: 30m", "deadline: 30m", "timeout: 10s"} {
		for _, late := range []string{"late call", "late and refused call"} {
			src := charge(policy, "none")
			answers := map[string][]saga.Answer{"call": {{Sent: true, Code: "connection"}}, late: {{}}}
			same(t, policy+", "+late, src, record(t, src, answers))
			if len(answers[late]) > 0 {
				t.Errorf("%s, %s: no node was late", policy, late)
			}
		}
	}
}

// A step is held, and its time passes while no node runs. If another step is tried again first, and
// the saga's timeout passes then, too, a replay tries only this other step again.
func TestHeldUntilTimeout(t *testing.T) {
	const src = `
saga: held
input: {amount: decimal}
timeout: 60s
defaults: {on_error: hold}
steps:
  - id: both
    parallel:
      - {id: first, http: "POST https://pay.example/first", retry: none, hold_for: 20s, compensate: none}
      - id: second
        http: POST https://pay.example/second
        retry: none
        hold_for: 10s
        timeout: 1s
        in_doubt:
          verify: {http: "GET https://pay.example/second", found: result.status == 200, after: 1s}
          otherwise: retry
        compensate: {http: "DELETE https://pay.example/second/${output.id}"}
`
	lost := []saga.Answer{{Sent: true, Code: "connection"}}
	answers := map[string][]saga.Answer{"first": lost, "second": lost, "second.verify": {{Sent: true, Status: 404, Body: json.RawMessage("{}")}}, "late hold": {{}}}
	records := record(t, src, answers)
	if got := records[len(records)-1]; len(answers["late hold"]) > 0 || !bytes.Contains(got.Data, []byte(`"timeout"`)) {
		t.Fatalf("no hold was late, or it ended otherwise: %s", got.Data)
	}
	same(t, "its own definition", src, records)
}

// A command that was refused leaves the times of those after it as they were.
func TestRefusedCommand(t *testing.T) {
	const src = `
saga: asked
input: {amount: decimal}
steps:
  - {id: ok, approval: {title: "Charge?"}, timeout: 1h}
output: ${steps.ok.output.at}
`
	answers := map[string][]saga.Answer{"refused ok": {{}}}
	records := record(t, src, answers)
	if len(answers["refused ok"]) > 0 {
		t.Fatal("no command was refused")
	}
	same(t, "its own definition", src, records)
}

// Sagas that are still running, and sessions, cannot be replayed.
func TestNotReplayed(t *testing.T) {
	records := record(t, order, nil)
	if _, err := replay.Against(parse(t, order), id, records[:len(records)-1], replay.Options{}); !errors.Is(err, replay.ErrNotEnded) {
		t.Errorf("got %v", err)
	}
	session := []journal.Record{{Seq: 1, Kind: journal.Started, Data: json.RawMessage(`{"definition":"~a","version":"v1","sha256":"","input":null,"session":{"name":"a"}}`)}}
	for _, started := range []saga.StartedData{{RetryFrom: "a"}, {UndoOf: id.String()}} {
		records := []journal.Record{{Seq: 1, Kind: journal.Started, Data: saga.Encode(started)}}
		if _, err := replay.Against(parse(t, order), id, records, replay.Options{}); !errors.Is(err, replay.ErrContinues) {
			t.Errorf("%+v: %v", started, err)
		}
	}
	if _, err := replay.Against(parse(t, order), id, session, replay.Options{}); !errors.Is(err, replay.ErrSession) {
		t.Errorf("got %v", err)
	}
	if _, err := replay.Against(parse(t, order), id, nil, replay.Options{}); err == nil {
		t.Error("an empty journal was replayed")
	}
}

// A thousand sagas are replayed in much less than ten seconds.
func BenchmarkAgainst(b *testing.B) {
	t := &testing.T{}
	records, def := record(t, order, nil), parse(t, order)
	for b.Loop() {
		if got, err := replay.Against(def, id, records, replay.Options{}); err != nil || got.Verdict != replay.Same {
			b.Fatal(got, err)
		}
	}
}

// A replay against a definition whose loop computes much more than what was recorded is given up
// before it fills the memory.
func TestTooLong(t *testing.T) {
	records := record(t, order, nil)
	const loop = "steps:\n  - {id: l, foreach: \"${1..%s}\", steps: [{id: x, set: \"${1..9999}\"}]}\n"
	for n, want := range map[string]bool{"100": false, "1000": true} {
		_, err := replay.Against(parse(t, changed(t, "steps:\n", strings.Replace(loop, "%s", n, 1))), id, records, replay.Options{})
		if (err != nil) != want {
			t.Errorf("%s iterations: %v", n, err)
		}
	}
}
