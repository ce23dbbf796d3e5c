package story_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"recourse/internal/story"
	"recourse/internal/story/storytest"
	"recourse/internal/test/golden"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

const trip = `
saga: trip
budget: 1.00 EUR
defaults: {retry: {attempts: 3, initial: 1s, jitter: 0}}
steps:
  - id: flight
    http: POST http://127.0.0.1:7000/air/bookings
    body: {to: "${input.to}"}
    cost: 0.02 EUR
    compensate:
      http: DELETE http://127.0.0.1:7000/air/bookings/${output.id}
  - id: charge
    http: POST https://pay.example/charges
    body: {amount: 19.10}
    in_doubt: retry
    compensate:
      http: DELETE https://pay.example/charges?key=${key}
  - id: mail
    when: input.mail
    http: POST https://mail.example/send
    body: {}
    in_doubt: ask
    compensate: none
output: {flight: "${steps.flight.output.id}"}
`

const verified = `
saga: verified
steps:
  - id: pause
    sleep: 2s
  - id: pick
    switch:
      - when: input.n > 1
        steps:
          - {id: many, set: "${input.n * 2}"}
      - steps:
          - {id: few, fail: "not enough"}
  - id: pay
    http: POST https://pay.example/charges
    body: {amount: 9007199254740993}
    timeout: 1s
    in_doubt:
      verify:
        http: GET https://pay.example/charges?key=${key}
        found: result.body.count > 0
        after: 1s
      otherwise: ask
`

const waits = `
saga: waits
steps:
  - id: ok
    approval: {title: Pay 19.10?, form: {limit: integer}}
    timeout: 48h
  - id: paid
    signal: com.shop.paid
  - id: again
    signal: com.shop.paid
    timeout: 1h
    on_error: continue
  - id: last
    approval: {title: Ship it?}
`

const loops = `
saga: loops
input: {items: [integer]}
steps:
  - id: each
    foreach: ${input.items}
    on_item_error: collect
    steps:
      - id: make
        http: POST https://pay.example/things
        body: {n: "${item}"}
        in_doubt: retry
  - id: both
    parallel:
      - {id: one, set: 1}
      - {id: two, set: 2}
  - id: twice
    repeat: {until: index == 1, max: 3}
    steps:
      - {id: round, set: "${index}"}
`

func ok(body string) saga.Answer {
	return saga.Answer{Sent: true, Status: 201, Body: json.RawMessage(body)}
}

// answers gives the answers of each step in turn; the last one stays.
func answers(by map[string][]saga.Answer) func(machine.Send, time.Time) saga.Answer {
	seen := map[string]int{}
	return func(s machine.Send, _ time.Time) saga.Answer {
		name := s.Path
		if s.Way == journal.Undo {
			name += " undo"
		}
		list := by[name]
		if len(list) == 0 {
			return ok(`{"id":"` + s.Path + `_1"}`)
		}
		i := min(seen[name], len(list)-1)
		seen[name]++
		return list[i]
	}
}

var stories = []struct {
	name, source string
	answers      map[string][]saga.Answer
	script       storytest.Script
}{
	{"succeeded", trip, nil, storytest.Script{Input: `{"to":"Lisbon","mail":true}`}},
	{"undone", trip, map[string][]saga.Answer{
		"charge":      {{Sent: true, Status: 402, Body: json.RawMessage(`{"title":"card declined"}`)}},
		"flight undo": {{Sent: false, Code: "connection", Detail: "connection refused"}, {Sent: true, Status: 204}},
	}, storytest.Script{Input: `{"to":"Lisbon","mail":false}`}},
	{"retried", trip, map[string][]saga.Answer{
		"flight": {{Sent: true, Status: 429, RetryAfter: 3 * time.Second}, ok(`{"id":"bk_1"}`)},
		"charge": {saga.InterruptedAnswer(), {Sent: true, Code: "timeout", Detail: "no response in time"}, ok(`{"id":"ch_1"}`)},
	}, storytest.Script{Input: `{"to":"Lisbon","mail":false}`}},
	{"asked", trip, map[string][]saga.Answer{
		"mail": {{Sent: true, Status: 502}},
	}, storytest.Script{Input: `{"to":"Lisbon","mail":true}`, Person: func(e saga.Entry) saga.Command {
		return saga.Command{Do: saga.Resolve{Outcome: "succeeded", Output: json.RawMessage(`{"id":"ml_7"}`)}, Path: e.Path, Actor: "ada", Reason: "it is in the outbox"}
	}}},
	{"cancelled", trip, nil, storytest.Script{Input: `{"to":"Lisbon","mail":true}`, Commands: map[int64]saga.Command{
		3: {Do: saga.Pause{}, Actor: "ada"},
		4: {Do: saga.Resume{}},
		5: {Do: saga.Cancel{Mode: "stop"}, Reason: "changed my mind"},
	}}},
	{"verified", verified, map[string][]saga.Answer{
		"pay":        {{Sent: true, Code: "timeout", Detail: "no response in time"}},
		"pay.verify": {{Sent: true, Status: 200, Body: json.RawMessage(`{"count":1}`)}},
	}, storytest.Script{Input: `{"n":2}`}},
	{"held", verified, map[string][]saga.Answer{
		"pay": {{Sent: true, Status: 401}},
	}, storytest.Script{Input: `{"n":2}`}},
	{"waits", waits, nil, storytest.Script{
		Commands: map[int64]saga.Command{1: {Do: saga.Signal{Name: "com.shop.paid", Data: json.RawMessage(`{"payment":"pay_7"}`)}}},
		Person: func(e saga.Entry) saga.Command {
			if e.Path == "last" {
				return saga.Command{Do: saga.Reject{}, Path: e.Path, Actor: "bob", Reason: "the address is wrong"}
			}
			return saga.Command{Do: saga.Approve{Shown: e.ShownHash, Data: json.RawMessage(`{"limit":25}`)}, Path: e.Path, Actor: "ada"}
		}}},
	{"loops", loops, map[string][]saga.Answer{
		"each[1].make": {{Sent: true, Status: 422, Body: json.RawMessage(`{"title":"not that one"}`)}},
	}, storytest.Script{Input: `{"items":[7,8]}`}},
	{"failing", verified, nil, storytest.Script{Input: `{"n":1}`}},
}

func TestStories(t *testing.T) {
	for _, tt := range stories {
		t.Run(tt.name, func(t *testing.T) {
			tt.script.Answer = answers(tt.answers)
			p := storytest.Play(t, tt.source, tt.script)
			var got bytes.Buffer
			if err := story.Write(&got, p.Def, p.Records, false); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, tt.name+".txt", got.String())
		})
	}
}

const agentActions = `action: book
agents: auto
input: {to: string}
http: POST https://air.example/bookings
body: {to: "${input.to}"}
in_doubt: retry
compensate: {http: "DELETE https://air.example/bookings/${output.id}"}
---
action: pay
agents: approve
input: {amount: number}
http: POST https://pay.example/charges
body: {amount: "${input.amount}"}
in_doubt: ask
compensate: {http: "DELETE https://pay.example/charges/${output.id}"}
`

// A session is told with the lives of its agent, its calls, and how it ends.
func TestSessions(t *testing.T) {
	attach := func(holder, token string) saga.Command {
		return saga.Command{Do: saga.Attach{Token: token, Holder: holder}}
	}
	call := func(life int, action, input string, before int) saga.Command {
		return saga.Command{Do: saga.CallAction{Life: life, Action: action, Input: json.RawMessage(input), Before: before}}
	}
	ends := func(lease int, how string) saga.Command {
		return saga.Command{Do: saga.EndTask{Attempt: lease, Result: saga.TaskResult{Outcome: how}}}
	}
	begin := func(life int, id string, d saga.OwnData) saga.Command {
		return saga.Command{Do: saga.BeginStep{Life: life, ID: id, Input: json.RawMessage(`{"page":1}`), OwnData: d}}
	}
	finish := func(life int, id string, attempt int) saga.Command {
		return saga.Command{Do: saga.FinishStep{Life: life, ID: id, Attempt: attempt, Status: saga.OwnSucceeded, Output: json.RawMessage(`{"pages":3}`), Cost: "0.02"}}
	}
	person := func(e saga.Entry) saga.Command {
		switch e.Kind {
		case saga.InboxSession:
			return saga.Command{Do: saga.Cancel{}, Actor: "ada", Reason: "the agent is gone"}
		case saga.InboxInDoubt, saga.InboxStuck, saga.InboxRepeat:
			return saga.Command{Do: saga.Resolve{Outcome: e.Actions[0]}, Path: e.Path, Actor: "ada", Reason: "looked"}
		}
		return saga.Command{Do: saga.Approve{Shown: e.ShownHash}, Path: e.Path, Actor: "ada"}
	}
	for name, commands := range map[string]map[int64]saga.Command{
		"session-committed": {
			1: attach("host-1", "aa"), 2: call(1, "book", `{"to":"OSL"}`, 0), 5: {Do: saga.UndoCall{}, Path: "book[0]"},
			8: ends(1, string(journal.TaskExpired)), 9: attach("host-1", "aa"), 10: call(1, "book", `{"to":"OSL"}`, 1),
			13: {Do: saga.CommitSession{Life: 1, Output: json.RawMessage(`{"booked":true}`)}},
		},
		"session-own": {
			1: attach("host-1", "aa"), 2: begin(1, "scan", saga.OwnData{Effect: saga.NoEffect}), 4: begin(1, "print", saga.OwnData{Effect: saga.Undoable}),
			6: {Do: saga.Attach{Token: "bb", Holder: "host-2", Previous: "aa"}}, 10: begin(2, "scan", saga.OwnData{Effect: saga.NoEffect}), 12: finish(2, "scan", 2),
			13: {Do: saga.Cancel{}, Actor: "ada", Reason: "no paper"},
		},
		"session-guarded": {
			1: attach("", "aa"), 2: call(1, "book", `{"to":"OSL"}`, 0), 5: {Do: saga.Attach{Token: "bb", Previous: "aa"}},
			6:  {Do: saga.AskModel{Life: 2, Identity: "q", Input: json.RawMessage(`{"route":"openai/chat/completions","model":"m"}`), Diverged: &saga.Divergence{From: "llm[0]", Pointer: "/messages/0/content"}}},
			9:  {Do: saga.CallAction{Life: 2, Action: "book", Input: json.RawMessage(`{"to":"Oslo"}`), Resembles: "book[0]"}},
			11: {Do: saga.CommitSession{Life: 2}},
		},
		"session-lost": {
			1: attach("", "aa"), 2: call(1, "pay", `{"amount":5}`, 0), 7: ends(1, string(journal.TaskExpired)),
			8: attach("host-2", "bb"), 9: ends(2, "completed"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := storytest.PlayDefinition(t, storytest.ParseSession(t, agentActions), storytest.Script{Answer: answers(nil), Person: person, Commands: commands})
			var got bytes.Buffer
			if err := story.Write(&got, p.Def, p.Records, false); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name+".txt", got.String())
		})
	}
}

func TestLines(t *testing.T) {
	tests := []struct {
		name, want string
		record     journal.Record
	}{
		{"a saga that another runs", "has succeeded, and waits for its parent's end", journal.Record{Kind: journal.Decided, Data: json.RawMessage(`{"by":"parent","next":"await_parent","output":1}`)}},
		{"an expression that fails", "refused: `when` could not be evaluated: null is no boolean: input.memo: at 1:3", journal.Record{Kind: journal.Outcome, Path: "pay", Way: journal.Do, Class: journal.Refused,
			Data: json.RawMessage(`{"error":{"code":"expression_error","title":"` + "`when`" + ` could not be evaluated","detail":"null is no boolean: input.memo: at 1:3"},"next":"fail"}`)}},
		{"a failure with parentheses", "refused: Not enough stock (3 left)", journal.Record{Kind: journal.Outcome, Path: "pay", Way: journal.Do, Class: journal.Refused,
			Data: json.RawMessage(`{"error":{"code":"failed","title":"Not enough stock (3 left)"},"next":"fail"}`)}},
		{"an error whose cause has a colon", "no effect: the host's name was not found: lookup bank: no such host", journal.Record{Kind: journal.Outcome, Path: "pay", Way: journal.Do, Class: journal.Transient,
			Data: json.RawMessage(`{"error":{"code":"dns","title":"the host's name was not found (POST bank)","detail":"POST bank/pay: lookup bank: no such host"},"next":"retry"}`)}},
		{"a missing secret", "held: a secret is missing: the secret BANK cannot be had: no such file", journal.Record{Kind: journal.Outcome, Path: "pay", Way: journal.Do, Class: journal.Held,
			Data: json.RawMessage(`{"error":{"code":"secret_missing","title":"a secret is missing (POST bank)","detail":"POST bank/pay: the secret BANK cannot be had: no such file"}}`)}},
		{"an undo of what is gone", "undone: it was already gone (HTTP 404)", journal.Record{Kind: journal.Outcome, Path: "pay", Way: journal.Undo, Class: journal.Succeeded, Data: json.RawMessage(`{"status_code":404,"output":null,"already_gone":true}`)}},
		{"an undo of a saga that was never started", "undone: saga 0197e000-0000-7000-8000-000000000001 was never started", journal.Record{Kind: journal.Outcome, Path: "sub", Way: journal.Undo, Class: journal.Succeeded, Data: json.RawMessage(`{"output":null,"never_started":"0197e000-0000-7000-8000-000000000001"}`)}},
		{"a success over a doubt", "stays in doubt: it may have happened", journal.Record{Kind: journal.Finished, Data: json.RawMessage(`{"status":"succeeded","doubts":[{"path":"pay","why":"it may have happened"}]}`)}},
		{"a part for a session", "reserves 0.40 USD for session s-1", journal.Record{Kind: journal.Operator, Data: json.RawMessage(`{"command":"reserve","session":{"id":"s-1","key":"k","part":{"amount":"0.40","currency":"USD"}}}`)}},
		{"a session without a budget", "session s-1 belongs to it", journal.Record{Kind: journal.Operator, Data: json.RawMessage(`{"command":"reserve","session":{"id":"s-1","key":"k"}}`)}},
		{"the end of a session", "session s-1 has ended; it has cost 0.25 USD", journal.Record{Kind: journal.Operator, Data: json.RawMessage(`{"command":"settle","session":{"id":"s-1","key":"k","cost":{"currency":"USD","spent":"0.25"}}}`)}},
		{"the end of a session in doubt", "it has cost 0.25 USD, and perhaps 0.10 more", journal.Record{Kind: journal.Operator, Data: json.RawMessage(`{"command":"settle","session":{"id":"s-1","key":"k","cost":{"currency":"USD","spent":"0.25","reserved":"0.10"}}}`)}},
		{"a budget of tokens", "change, budget 500 tokens", journal.Record{Kind: journal.Operator, Data: json.RawMessage(`{"command":"change","budget":{"currency":"USD","tokens":500}}`)}},
		{"a budget of both", "change, budget 2.00 USD and 500 tokens", journal.Record{Kind: journal.Operator, Data: json.RawMessage(`{"command":"change","budget":{"amount":"2.00","currency":"USD","tokens":500}}`)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.record.Seq = 1
			var got bytes.Buffer
			if err := story.Write(&got, nil, []journal.Record{tt.record}, false); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got.String(), tt.want) || strings.Contains(got.String(), "inbox") {
				t.Errorf("got %s, want %s", got.String(), tt.want)
			}
		})
	}
}

func TestTellUnreadable(t *testing.T) {
	records := []journal.Record{
		{Seq: 1, Kind: journal.Started, Data: json.RawMessage(`[]`)},
		{Seq: 2, Kind: "levitated", Path: "x"},
		{Seq: 3, Kind: journal.Intent, Path: "x", Attempt: 1, Data: json.RawMessage(`"no"`)},
	}
	var b strings.Builder
	if err := story.Write(&b, nil, records, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"record 1 (started) cannot be read", "kind levitated", "record 3 (intent) cannot be read"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// A saga that another runs holds at its goal.
func TestTellHolding(t *testing.T) {
	var b strings.Builder
	if err := story.Write(&b, nil, []journal.Record{
		{Seq: 1, Kind: journal.Started, Data: json.RawMessage(`{"definition":"child","version":1}`)},
		{Seq: 2, Kind: journal.Decided, Data: json.RawMessage(`{"by":"parent","next":"await_parent","output":{"id":"bk_1"}}`)},
	}, false); err != nil {
		t.Fatal(err)
	}
	if want := "waits for its parent's end → bk_1"; !strings.Contains(b.String(), want) {
		t.Errorf("no %q in\n%s", want, b.String())
	}
}

func TestColour(t *testing.T) {
	l := story.Line{Mark: "✓", Path: "a", Text: "done", Tone: story.Good}
	if got, want := l.Format(3, true), "   +0.000s  \x1b[32m✓ a    done\x1b[0m"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := l.Format(3, false); strings.Contains(got, "\x1b") {
		t.Errorf("colour where none was wanted: %q", got)
	}
}

// A journal comes from outside: what it holds must not drive the terminal.
func TestShortTakesControlCharactersOut(t *testing.T) {
	if got := story.Short("a\x1b[2Jb\u009bc\nd", 99); got != "a [2Jb c d" {
		t.Errorf("got %q", got)
	}
	if got := story.Short("äöüß", 3); got != "äö…" {
		t.Errorf("got %q", got)
	}
}
