package invariant_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/examples/world"
	"recourse/internal/invariant"
	"recourse/internal/story/storytest"
	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/machine"
)

const trip = `
saga: trip
budget: 1.00 EUR
defaults: {retry: {attempts: 3, initial: 1s, jitter: 0}}
steps:
  - id: flight
    http: POST http://world/air/bookings
    body: {route: LIS-OSL}
    in_doubt: retry
    cost: 0.30 EUR
    compensate: {http: "DELETE http://world/air/bookings/${output.id}"}
  - id: hotel
    http: POST http://world/hotels/reservations
    body: {city: Oslo, nights: 2}
    idempotency: {body: client_token}
    in_doubt: retry
    compensate: {http: "POST http://world/hotels/reservations/${output.id}/cancel"}
  - id: charge
    http: POST http://world/pay/charges
    body: {amount: 19.10}
    in_doubt: ask
  - id: after
    when: input.late
    http: POST http://world/things
    body: {}
    idempotency: {query: ref}
    in_doubt: ask
    compensate: none
`

// good is a saga that was played against a world.
type good struct {
	played storytest.Played
	ledger world.Ledger
	end    time.Time
}

// play plays the saga trip against a world with rules; person handles inbox entries.
func play(t *testing.T, input string, rules []world.Rule, person func(saga.Entry) saga.Command) good {
	t.Helper()
	return playOther(t, trip, input, rules, person)
}

func playOther(t *testing.T, source, input string, rules []world.Rule, person func(saga.Entry) saga.Command) good {
	t.Helper()
	return script(t, source, storytest.Script{Input: input, Person: person}, rules)
}

func script(t *testing.T, source string, s storytest.Script, rules []world.Rule) good {
	t.Helper()
	return playDefinition(t, storytest.Parse(t, source), s, rules)
}

func playDefinition(t *testing.T, def *saga.Definition, s storytest.Script, rules []world.Rule) good {
	t.Helper()
	var g good
	now := storytest.Begin
	w := world.New(world.Config{Now: func() time.Time { return now }})
	t.Cleanup(w.Close)
	for _, r := range rules {
		if err := w.AddFault(r); err != nil {
			t.Fatal(err)
		}
	}
	s.Answer = func(s machine.Send, at time.Time) saga.Answer {
		now = at
		return ask(w, s)
	}
	g.played = storytest.PlayDefinition(t, def, s)
	g.ledger = w.Ledger()
	g.end = g.played.Machine.At()
	return g
}

// killed is the status by which the world makes recourse die before it reads the response.
const killed = 599

// ask sends a request to the world, in memory.
func ask(w *world.World, s machine.Send) saga.Answer {
	r := httptest.NewRequest(s.Request.Method, s.Request.URL, bytes.NewReader(s.Request.Body))
	for k, v := range s.Request.Headers {
		r.Header.Set(k, v)
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	if rec.Code == killed {
		return saga.InterruptedAnswer()
	}
	a := saga.Answer{Sent: true, Status: rec.Code, Headers: map[string]string{}, Body: bytes.TrimSpace(rec.Body.Bytes())}
	if v := rec.Header().Get("Retry-After"); v != "" {
		a.Headers["retry-after"], a.RetryAfter = v, retry.After(v, time.Time{})
	}
	if len(a.Body) == 0 {
		a.Body = nil
	}
	return a
}

func (g *good) saga() invariant.Saga {
	return invariant.Saga{ID: g.played.ID, Definition: g.played.Def, Records: slices.Clone(g.played.Records)}
}

func fault(path string, times int, do world.Do) world.Rule {
	return world.Rule{Match: world.Match{PathPrefix: path}, Times: times, Do: do}
}

var (
	refusePay = fault("/pay", 0, world.Do{Before: world.FaultStatus, Status: 402})
	busyAir   = fault("/air", 1, world.Do{Before: world.FaultStatus, Status: 503, RetryAfter: "7"})
	lostAir   = fault("/air", 1, world.Do{After: world.FaultStatus, Status: 502})
	killAir   = fault("/air", 1, world.Do{After: world.FaultStatus, Status: killed})
	lostPay   = fault("/pay", 1, world.Do{After: world.FaultStatus, Status: 502})
	refuseAll = fault("/things", 0, world.Do{Before: world.FaultStatus, Status: 422})
)

func resolve(outcome string) func(saga.Entry) saga.Command {
	return func(e saga.Entry) saga.Command {
		return saga.Command{Do: saga.Resolve{Outcome: outcome, Output: json.RawMessage(`{"id":"x"}`)}, Path: e.Path, Reason: "looked"}
	}
}

// lifted undoes b first, then c, then a.
const lifted = `
saga: lifted
steps:
  - id: a
    http: POST http://world/air/bookings
    body: {route: LIS-OSL}
    in_doubt: retry
    compensate: {http: "DELETE http://world/air/bookings/${output.id}", order: last}
  - id: b
    http: POST http://world/stock/expected-returns
    body: {}
    in_doubt: retry
    compensate: {http: "DELETE http://world/stock/expected-returns/${output.id}", order: first}
  - id: c
    http: POST http://world/ship/orders
    body: {}
    in_doubt: retry
    compensate: {http: "POST http://world/ship/orders/${output.id}/cancel"}
  - id: d
    fail: no
finally:
  - id: mail
    http: POST http://world/mail/send
    body: {to: x}
    in_doubt: retry
`

// signed asks people, and loops.
const signed = `
saga: signed
budget: {tokens: 100}
steps:
  - {id: ok, approval: {title: Pay?, approvers: [ann, ops], show: {amount: 5}}, timeout: 1m, four_eyes: true}
  - id: some
    foreach: [1, 2, 3]
    max_parallel: 2
    steps:
      - {id: nap, sleep: 1s}
      - {id: rest, sleep: 1s}
`

// covering asks for two requests at once. The first one changes when it is sent under a new key.
const covering = `
saga: covering
steps:
  - {id: ok, approval: {title: Pay?, covers: [charge, mail]}, timeout: 1h}
  - {id: charge, http: "POST http://world/pay/charges", body: {amount: 5}, in_doubt: ask, retry: none, on_error: hold}
  - {id: mail, http: "POST http://world/mail/send", body: {to: x}, in_doubt: retry}
`

// aging reads how many charges there are under a key, and makes one. Then the answer is too old,
// and has changed.
const aging = `
saga: aging
steps:
  - {id: count, http: "GET http://world/pay/charges?idempotency_key=k-${saga.id}", output: {n: "${result.body.count}"}, fresh_for: 10s, on_change: ask}
  - {id: first, http: "POST http://world/pay/charges", body: {amount: 1}, idempotency: {key: "k-${saga.id}"}, in_doubt: retry}
  - {id: ok, approval: {title: "Charge after ${steps.count.output.n}?"}}
  - {id: nap, sleep: 10s}
  - {id: charge, http: "POST http://world/pay/charges", body: {amount: "${steps.count.output.n + 1}"}, in_doubt: ask}
`

// payUnderNewKey approves, and retries what is held under a new key.
func payUnderNewKey(e saga.Entry) saga.Command {
	if e.Kind == saga.InboxExhausted {
		return saga.Command{Do: saga.Retry{NewKey: true}, Path: e.Path, Actor: "bob", Role: "ops"}
	}
	return approve(e)
}

// approve decides what an approval shows.
func approve(e saga.Entry) saga.Command {
	return saga.Command{Do: saga.Approve{Shown: e.ShownHash}, Path: e.Path, Actor: "bob", Role: "ops"}
}

// agentActions are what the session of playSession calls.
const agentActions = `action: book
agents: {limits: [{calls: 1}]}
input: {from: string, to: string}
http: POST http://world/air/bookings
body: {route: "${input.from}-${input.to}"}
in_doubt: retry
compensate: {http: "DELETE http://world/air/bookings/${output.id}"}
---
action: pay
agents: {approve_when: input.amount > 50, limits: [{sum: input.amount, max: 100}]}
input: {amount: number}
http: POST http://world/pay/charges
body: {amount: "${input.amount}"}
in_doubt: ask
compensate: {http: "POST http://world/pay/charges/${output.id}/refund"}
---
action: secret
http: GET http://world/search/v1/search
`

// playSession plays a session of three lives. In the first, a call fails and is made once more, and
// a person approves a payment. The second undoes the booking. The third asks a model, which no
// provider serves, pays, and commits.
func playSession(t *testing.T) good {
	t.Helper()
	call := func(life int, action, input string, before int) saga.Command {
		return saga.Command{Do: saga.CallAction{Life: life, Action: action, Input: json.RawMessage(input), Before: before}}
	}
	ends := func(lease int, how journal.TaskEnd) saga.Command {
		return saga.Command{Do: saga.EndTask{Attempt: lease, Result: saga.TaskResult{Outcome: string(how)}}}
	}
	def := storytest.ParseSession(t, agentActions)
	return playDefinition(t, def, storytest.Script{Person: approve, Commands: map[int64]saga.Command{
		1:  {Do: saga.Attach{Token: "aa", Holder: "host-1"}},
		2:  call(1, "book", `{"from":"LIS","to":"OSL"}`, 0),
		5:  call(1, "book", `{"to":"OSL", "from":"LIS"}`, 1),
		8:  call(1, "pay", `{"amount":60.0}`, 0),
		13: ends(1, journal.TaskExpired),
		14: {Do: saga.Attach{Token: "bb"}},
		15: {Do: saga.UndoCall{}, Path: "book[1]", Actor: "ann"},
		18: ends(2, "completed"),
		19: {Do: saga.Attach{Token: "cc"}},
		20: {Do: saga.AskModel{Life: 3, Identity: "a", Input: json.RawMessage(`{"route":"openai/chat/completions","model":"gpt-5-mini"}`)}},
		23: call(3, "pay", `{"amount":40}`, 0),
		26: {Do: saga.CommitSession{Life: 3, Output: json.RawMessage(`"done"`)}},
	}}, []world.Rule{fault("/air", 1, world.Do{Before: world.FaultStatus, Status: 422})})
}

// playOwn plays a session whose agent does steps itself. The second life finds one that the first
// has not finished, and does it again once a person has said so. Then the session is aborted.
func playOwn(t *testing.T) good {
	t.Helper()
	begin := func(life int, id string, d saga.OwnData) saga.Command {
		return saga.Command{Do: saga.BeginStep{Life: life, ID: id, OwnData: d}}
	}
	finish := func(life int, id string, attempt int) saga.Command {
		return saga.Command{Do: saga.FinishStep{Life: life, ID: id, Attempt: attempt, Status: saga.OwnSucceeded}}
	}
	file := saga.OwnData{Effect: saga.Undoable, Compensate: &saga.OwnUndo{Use: "book", With: json.RawMessage(`{"from":"LIS","to":"OSL"}`)}}
	letter := saga.OwnData{Effect: saga.Irreversible}
	again := func(e saga.Entry) saga.Command {
		return saga.Command{Do: saga.Resolve{Outcome: "retry"}, Path: e.Path, Actor: "ann"}
	}
	return playDefinition(t, storytest.ParseSession(t, agentActions), storytest.Script{Person: again, Commands: map[int64]saga.Command{
		1:  {Do: saga.Attach{Token: "aa"}},
		2:  begin(1, "file", file),
		4:  finish(1, "file", 1),
		5:  begin(1, "mail", letter),
		7:  {Do: saga.Attach{Token: "bb", Previous: "aa"}},
		10: begin(2, "mail", letter),
		12: finish(2, "mail", 2),
		13: begin(2, "note", saga.OwnData{Effect: saga.NoEffect}),
		15: finish(2, "note", 1),
		16: {Do: saga.Cancel{}, Reason: "enough"},
	}}, nil)
}

// playGuard plays a session whose second life diverges, and makes three calls that may repeat the
// first life's. A person finds that one is the same, and that another one is new. The third is read
// by nobody before the abort.
func playGuard(t *testing.T) good {
	t.Helper()
	return playDiverged(t, map[int64]saga.Command{
		9:  payAgain(6),
		10: compared("pay[1]", saga.SameEffect),
		11: payAgain(7),
		12: compared("pay[2]", saga.NewEffect),
		15: payAgain(8),
		16: {Do: saga.Cancel{}, Reason: "enough"},
	})
}

// playCompared plays such a session, whose calls are compared in the reverse order of their
// requests. The abort undoes them in the reverse order of these.
func playCompared(t *testing.T) good {
	t.Helper()
	return playDiverged(t, map[int64]saga.Command{
		9:  payAgain(6),
		10: payAgain(7),
		11: compared("pay[2]", saga.NewEffect),
		12: compared("pay[1]", saga.NewEffect),
		17: {Do: saga.Cancel{}, Reason: "enough"},
	})
}

// playDiverged plays a session with a call in its first life, and a divergence in its second one.
func playDiverged(t *testing.T, commands map[int64]saga.Command) good {
	t.Helper()
	question := saga.AskModel{Life: 2, Identity: "q", Input: json.RawMessage(`{"route":"openai/chat/completions","model":"m"}`), Diverged: &saga.Divergence{From: "llm[0]"}}
	commands[1] = saga.Command{Do: saga.Attach{Token: "aa"}}
	commands[2] = saga.Command{Do: saga.CallAction{Life: 1, Action: "pay", Input: json.RawMessage(`{"amount":5}`)}}
	commands[5] = saga.Command{Do: saga.Attach{Token: "bb", Previous: "aa"}}
	commands[6] = saga.Command{Do: question}
	return playDefinition(t, storytest.ParseSession(t, agentActions), storytest.Script{Commands: commands}, nil)
}

// payAgain is a call of the second life that may repeat the one of the first.
func payAgain(amount int) saga.Command {
	return saga.Command{Do: saga.CallAction{Life: 2, Action: "pay", Input: json.RawMessage(fmt.Sprintf(`{"amount":%d}`, amount)), Resembles: "pay[0]"}}
}

// compared is what a person says of such a call.
func compared(path, outcome string) saga.Command {
	return saga.Command{Do: saga.Resolve{Outcome: outcome}, Path: path, Actor: "ann", Reason: "compared"}
}

// games are plays without violations.
var games = map[string]func(*testing.T) good{
	"succeeded":   func(t *testing.T) good { return play(t, `{"late":false}`, nil, nil) },
	"compensated": func(t *testing.T) good { return play(t, `{"late":false}`, []world.Rule{refusePay}, nil) },
	"killed":      func(t *testing.T) good { return play(t, `{"late":false}`, []world.Rule{killAir}, nil) },
	"cancelled": func(t *testing.T) good {
		return script(t, trip, storytest.Script{Input: `{"late":false}`, Commands: map[int64]saga.Command{5: {Do: saga.Cancel{}, Reason: "changed my mind"}}}, nil)
	},
	"busy": func(t *testing.T) good { return play(t, `{"late":false}`, []world.Rule{busyAir}, nil) },
	"backing off": func(t *testing.T) good {
		g := play(t, `{"late":false}`, []world.Rule{busyAir}, nil)
		g.played.Records = g.played.Records[:3] // as a node leaves it
		g.played.Machine, _ = machine.Replay(g.played.Def, g.played.ID, g.played.Records)
		g.ledger = g.ledger[:1]
		g.end = g.played.Machine.At()
		return g
	},
	"lost":     func(t *testing.T) good { return play(t, `{"late":false}`, []world.Rule{lostAir}, nil) },
	"asking":   func(t *testing.T) good { return play(t, `{"late":false}`, []world.Rule{lostPay}, nil) },
	"asked":    func(t *testing.T) good { return play(t, `{"late":false}`, []world.Rule{lostPay}, resolve("succeeded")) },
	"resent":   func(t *testing.T) good { return play(t, `{"late":false}`, []world.Rule{lostPay}, resolve("retry")) },
	"residual": func(t *testing.T) good { return play(t, `{"late":true}`, []world.Rule{refuseAll}, nil) },
	"signed":   func(t *testing.T) good { return script(t, signed, storytest.Script{Person: approve}, nil) },
	"lifted":   func(t *testing.T) good { return playOther(t, lifted, "", nil, nil) },
	"unnamed":  func(t *testing.T) good { return play(t, `{"late":true}`, nil, nil) },
	"session":  playSession,
	"own":      playOwn,
	"covered": func(t *testing.T) good {
		return script(t, covering, storytest.Script{Person: payUnderNewKey}, []world.Rule{fault("/pay", 1, world.Do{Before: world.FaultStatus, Status: 402})})
	},
	"aging":    func(t *testing.T) good { return script(t, aging, storytest.Script{Person: approve}, nil) },
	"guarded":  playGuard,
	"compared": playCompared,
	"duplicated": func(t *testing.T) good {
		return play(t, `{"late":false}`, []world.Rule{fault("/pay", 1, world.Do{Duplicate: 2})}, nil)
	},
}

func TestGoodGamesHaveNoViolations(t *testing.T) {
	want := map[string]saga.Status{"succeeded": saga.Succeeded, "compensated": saga.Compensated, "killed": saga.Succeeded, "backing off": saga.Waiting, "cancelled": saga.Compensated, "busy": saga.Succeeded, "lost": saga.Succeeded,
		"asking": saga.Stuck, "asked": saga.Succeeded, "resent": saga.Succeeded, "residual": saga.Failed, "unnamed": saga.Succeeded, "lifted": saga.Compensated, "signed": saga.Succeeded, "session": saga.Succeeded, "own": saga.Failed, "covered": saga.Succeeded, "aging": saga.Succeeded, "guarded": saga.Compensated, "compared": saga.Compensated, "duplicated": saga.Succeeded}
	for name, game := range games {
		t.Run(name, func(t *testing.T) {
			g := game(t)
			if got := g.played.Machine.Status(); got != want[name] {
				t.Fatalf("the game ends as %s, want %s", got, want[name])
			}
			for _, v := range invariant.Check([]invariant.Saga{g.saga()}, g.ledger, g.end) {
				t.Error(v)
			}
		})
	}
}

func TestViolationSaysWhich(t *testing.T) {
	id := uuid.FromStringOrNil("019aa5d0-0000-7000-8000-000000000001")
	if got, want := (invariant.Violation{N: 8, Saga: id, Text: "x"}).String(), "invariant 8: saga 019aa5d0-0000-7000-8000-000000000001: x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := (invariant.Violation{N: 4, Text: "x"}).String(), "invariant 4: x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
