package invariant_test

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/examples/world"
	"recourse/internal/invariant"
	"recourse/internal/story/storytest"
	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
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

// play runs trip against a world with rules; person is for the inbox.
func play(t *testing.T, input string, rules []world.Rule, person func(saga.Entry) saga.Command) good {
	t.Helper()
	return playOther(t, trip, input, rules, person)
}

func playOther(t *testing.T, source, input string, rules []world.Rule, person func(saga.Entry) saga.Command) good {
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
	g.played = storytest.Play(t, source, storytest.Script{Input: input, Person: person,
		Answer: func(s saga.Send, at time.Time) saga.Answer {
			now = at
			return ask(w, s)
		}})
	g.ledger = w.Ledger()
	g.end = g.played.Machine.At()
	return g
}

// ask sends a request to the world, in memory.
func ask(w *world.World, s saga.Send) saga.Answer {
	r := httptest.NewRequest(s.Request.Method, s.Request.URL, bytes.NewReader(s.Request.Body))
	for k, v := range s.Request.Headers {
		r.Header.Set(k, v)
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
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
	lostPay   = fault("/pay", 1, world.Do{After: world.FaultStatus, Status: 502})
	refuseAll = fault("/things", 0, world.Do{Before: world.FaultStatus, Status: 422})
)

func resolve(outcome string) func(saga.Entry) saga.Command {
	return func(e saga.Entry) saga.Command {
		return saga.Command{Do: "resolve", Path: e.Path, Outcome: outcome, Reason: "looked", Output: json.RawMessage(`{"id":"x"}`)}
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

// games are plays in which everything holds.
var games = map[string]func(*testing.T) good{
	"succeeded":   func(t *testing.T) good { return play(t, `{"late":false}`, nil, nil) },
	"compensated": func(t *testing.T) good { return play(t, `{"late":false}`, []world.Rule{refusePay}, nil) },
	"busy":        func(t *testing.T) good { return play(t, `{"late":false}`, []world.Rule{busyAir}, nil) },
	"lost":        func(t *testing.T) good { return play(t, `{"late":false}`, []world.Rule{lostAir}, nil) },
	"asking":      func(t *testing.T) good { return play(t, `{"late":false}`, []world.Rule{lostPay}, nil) },
	"asked":       func(t *testing.T) good { return play(t, `{"late":false}`, []world.Rule{lostPay}, resolve("succeeded")) },
	"resent":      func(t *testing.T) good { return play(t, `{"late":false}`, []world.Rule{lostPay}, resolve("retry")) },
	"residual":    func(t *testing.T) good { return play(t, `{"late":true}`, []world.Rule{refuseAll}, nil) },
	"lifted":      func(t *testing.T) good { return playOther(t, lifted, "", nil, nil) },
	"unnamed":     func(t *testing.T) good { return play(t, `{"late":true}`, nil, nil) },
	"duplicated": func(t *testing.T) good {
		return play(t, `{"late":false}`, []world.Rule{fault("/pay", 1, world.Do{Duplicate: 2})}, nil)
	},
}

func TestGoodGamesHaveNoViolations(t *testing.T) {
	want := map[string]saga.Status{"succeeded": saga.Succeeded, "compensated": saga.Compensated, "busy": saga.Succeeded, "lost": saga.Succeeded,
		"asking": saga.Stuck, "asked": saga.Succeeded, "resent": saga.Succeeded, "residual": saga.Failed, "unnamed": saga.Succeeded, "lifted": saga.Compensated, "duplicated": saga.Succeeded}
	for name, game := range games {
		t.Run(name, func(t *testing.T) {
			g := game(t)
			if got := g.played.Machine.Status(); got != want[name] {
				t.Fatalf("the game ends as %s, not %s", got, want[name])
			}
			for _, v := range invariant.Check([]invariant.Saga{g.saga()}, g.ledger, g.end) {
				t.Error(v)
			}
		})
	}
}

// bad is a play that someone has tampered with.
var bad = []struct {
	name string
	n    int // the invariant that must catch it
	game string
	spin func(t *testing.T, s *invariant.Saga, g *good)
}{
	{"a record is missing", 2, "succeeded", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Records = slices.Delete(s.Records, 3, 4)
	}},
	{"a record was changed", 2, "succeeded", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Records[2].Data = json.RawMessage(`{"status_code":201,"output":{"id":"bk_9"}}`)
	}},
	{"it ends twice", 2, "succeeded", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Records = append(s.Records, s.Records[len(s.Records)-1])
		reseal(s)
	}},
	{"it cannot be replayed", 2, "succeeded", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Records[2].Path = "hotel"
		reseal(s)
	}},
	{"data cannot be read", 2, "succeeded", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Records[2].Data = json.RawMessage(`7`)
		reseal(s)
	}},
	{"sent without an intent", 4, "succeeded", func(_ *testing.T, _ *invariant.Saga, g *good) {
		g.add(world.Entry{Kind: world.Request, Service: "pay", Method: "POST", Path: "/pay/charges", Key: "stranger"})
	}},
	{"sent twice for one intent", 4, "succeeded", func(_ *testing.T, _ *invariant.Saga, g *good) {
		g.add(g.request("POST /pay/charges"))
	}},
	{"another body than intended", 4, "succeeded", func(_ *testing.T, _ *invariant.Saga, g *good) {
		g.change("POST /pay/charges", func(e *world.Entry) { e.BodySHA256 = strings.Repeat("0", 64) })
	}},
	{"sent before its intent", 4, "succeeded", func(_ *testing.T, _ *invariant.Saga, g *good) {
		g.change("POST /pay/charges", func(e *world.Entry) { e.At = storytest.Begin.Add(-time.Hour) })
	}},
	{"a key of its own for each attempt", 5, "lost", func(t *testing.T, s *invariant.Saga, _ *good) {
		record(t, s, journal.Intent, "flight", 2).Key = "another"
		reseal(s)
	}},
	{"a key that follows from nothing", 5, "succeeded", func(t *testing.T, s *invariant.Saga, _ *good) {
		record(t, s, journal.Intent, "charge", 1).Key = "fixed"
		reseal(s)
	}},
	{"the key was ignored", 6, "lost", func(_ *testing.T, _ *invariant.Saga, g *good) { g.again("air") }},
	{"ask was not asked", 6, "resent", func(t *testing.T, s *invariant.Saga, _ *good) {
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool { return r.Kind == journal.Operator })
		reseal(s)
	}},
	{"succeeded without its effect", 7, "succeeded", func(_ *testing.T, _ *invariant.Saga, g *good) {
		g.ledger = g.ledger.Where(func(e world.Entry) bool { return e.Service != "hotels" })
	}},
	{"succeeded twice", 7, "succeeded", func(_ *testing.T, _ *invariant.Saga, g *good) { g.again("hotels") }},
	{"succeeded and undone", 7, "succeeded", func(_ *testing.T, _ *invariant.Saga, g *good) {
		e := g.ledger.Service("pay").Effects()[0]
		g.add(world.Entry{Kind: world.Undo, Service: "pay", Undoes: e.EffectID, EffectID: "u"})
	}},
	{"compensated with an effect left", 8, "compensated", func(_ *testing.T, _ *invariant.Saga, g *good) {
		g.ledger = g.ledger.Where(func(e world.Entry) bool { return e.Kind != world.Undo || e.Service != "air" })
	}},
	{"undone forwards", 9, "compensated", func(t *testing.T, s *invariant.Saga, _ *good) {
		replan(t, s, func(p []string) { slices.Reverse(p) })
	}},
	{"undone all at once", 9, "compensated", func(t *testing.T, s *invariant.Saga, _ *good) {
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool {
			return r.Kind == journal.Outcome && r.Way == journal.Undo && r.Path == "hotel"
		})
		reseal(s)
	}},
	{"an undo arrived early", 9, "compensated", func(_ *testing.T, _ *invariant.Saga, g *good) {
		g.change("DELETE /air/bookings/", func(e *world.Entry) { e.N = 1 })
	}},
	{"forward after undoing began", 10, "compensated", func(_ *testing.T, s *invariant.Saga, _ *good) {
		i := slices.IndexFunc(s.Records, func(r journal.Record) bool { return r.Kind == journal.Compensating })
		again := s.Records[1]
		s.Records = slices.Insert(s.Records, i+1, again)
		reseal(s)
	}},
	{"what remains is not named", 11, "residual", func(t *testing.T, s *invariant.Saga, _ *good) {
		finish(t, s, func(d *saga.FinishedData) { d.Residual = nil })
	}},
	{"what does not remain is named", 11, "residual", func(_ *testing.T, _ *invariant.Saga, g *good) {
		e := g.ledger.Service("pay").Effects()[0]
		g.add(world.Entry{Kind: world.Undo, Service: "pay", Undoes: e.EffectID, EffectID: "u"})
	}},
	{"compensated with effects named", 11, "residual", func(t *testing.T, s *invariant.Saga, _ *good) {
		finish(t, s, func(d *saga.FinishedData) { d.Status = saga.Compensated })
	}},
	{"ended, and in the inbox", 11, "succeeded", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Head = &journal.Head{Row: journal.Row{Status: "succeeded", Inbox: []journal.Entry{{Path: "charge"}}}}
	}},
	{"the row says something else", 12, "succeeded", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Head = &journal.Head{Row: journal.Row{Status: "running"}}
	}},
	{"left in the middle", 12, "succeeded", func(_ *testing.T, s *invariant.Saga, _ *good) { s.Records = s.Records[:2] }},
	{"left between steps", 12, "succeeded", func(_ *testing.T, s *invariant.Saga, _ *good) { s.Records = s.Records[:3] }},
	{"overslept", 12, "busy", func(_ *testing.T, s *invariant.Saga, g *good) {
		s.Records, g.end = s.Records[:3], g.end.Add(time.Hour)
	}},
	{"too many attempts", 14, "lost", func(t *testing.T, s *invariant.Saga, _ *good) {
		first, last := record(t, s, journal.Intent, "flight", 1), record(t, s, journal.Intent, "flight", 2)
		for range 2 {
			s.Records = append(s.Records, *first, *last)
		}
		reseal(s)
	}},
	{"too soon", 14, "busy", func(t *testing.T, s *invariant.Saga, _ *good) {
		record(t, s, journal.Intent, "flight", 2).At = storytest.Begin.Add(time.Second)
		reseal(s)
	}},
	{"Retry-After was not heeded", 14, "busy", func(t *testing.T, s *invariant.Saga, _ *good) {
		r := record(t, s, journal.Outcome, "flight", 1)
		edit(t, r, func(d *saga.OutcomeData) { d.RetryAt = &saga.Time{Time: r.At.Add(time.Second)} })
		reseal(s)
	}},
	{"over budget", 15, "succeeded", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Intent, "flight", 1), func(d *saga.IntentData) { d.Reserve = "1.01" })
		reseal(s)
	}},
	{"the cost is over budget", 15, "lost", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Outcome, "flight", 2), func(d *saga.OutcomeData) { d.Cost = "0.80" })
		reseal(s)
	}},
}

func TestCatches(t *testing.T) {
	caught := make(map[int]bool)
	for _, tt := range bad {
		t.Run(strconv.Itoa(tt.n)+" "+tt.name, func(t *testing.T) {
			g := games[tt.game](t)
			s := g.saga()
			tt.spin(t, &s, &g)
			found := invariant.Check([]invariant.Saga{s}, g.ledger, g.end)
			if !slices.ContainsFunc(found, func(v invariant.Violation) bool { return v.N == tt.n }) {
				t.Errorf("invariant %d did not catch it; found: %v", tt.n, found)
			}
		})
		caught[tt.n] = true
	}
	for n := range invariant.Names {
		if !caught[n] {
			t.Errorf("invariant %d has no input that it must catch", n)
		}
	}
}

func reseal(s *invariant.Saga) {
	var prev []byte
	for i := range s.Records {
		r := &s.Records[i]
		r.Seq = int64(i + 1)
		journal.Seal(s.ID, prev, r)
		prev = r.Hash
	}
}

func record(t *testing.T, s *invariant.Saga, kind journal.Kind, path string, attempt int) *journal.Record {
	t.Helper()
	for i := range s.Records {
		if r := &s.Records[i]; r.Kind == kind && r.Path == path && r.Attempt == attempt && r.Way == journal.Do {
			return r
		}
	}
	t.Fatalf("no %s of %s, attempt %d", kind, path, attempt)
	return nil
}

func edit[T any](t *testing.T, r *journal.Record, change func(*T)) {
	t.Helper()
	var d T
	if err := json.Unmarshal(r.Data, &d); err != nil {
		t.Fatal(err)
	}
	change(&d)
	b, err := journal.Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	r.Data = b
}

func replan(t *testing.T, s *invariant.Saga, change func([]string)) {
	t.Helper()
	i := slices.IndexFunc(s.Records, func(r journal.Record) bool { return r.Kind == journal.Compensating })
	edit(t, &s.Records[i], func(d *saga.CompensatingData) { change(d.Plan) })
	reseal(s)
}

func finish(t *testing.T, s *invariant.Saga, change func(*saga.FinishedData)) {
	t.Helper()
	edit(t, &s.Records[len(s.Records)-1], change)
	reseal(s)
}

func (g *good) add(e world.Entry) {
	e.N, e.At = int64(len(g.ledger)+1), g.end
	g.ledger = append(g.ledger, e)
}

// again makes the service's first effect happen a second time.
func (g *good) again(service string) {
	e := g.ledger.Service(service).Effects()[0]
	e.EffectID += "_again"
	g.add(e)
}

func (g *good) request(line string) world.Entry {
	for _, e := range g.ledger.Requests() {
		if strings.HasPrefix(e.Method+" "+e.Path, line) {
			return e
		}
	}
	return world.Entry{}
}

func (g *good) change(line string, f func(*world.Entry)) {
	for i := range g.ledger {
		if e := &g.ledger[i]; e.Kind == world.Request && strings.HasPrefix(e.Method+" "+e.Path, line) {
			f(e)
		}
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
