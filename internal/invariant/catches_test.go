package invariant_test

import (
	"encoding/json"
	"maps"
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
	"recourse/saga"
)

// bad are sagas of good games that were changed so that they violate an invariant.
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
	{"a node writes after it was taken over", 3, "killed", func(t *testing.T, s *invariant.Saga, _ *good) {
		record(t, s, journal.Intent, "flight", 2).Node = s.Records[0].Node
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
	{"a key that is not derived", 5, "succeeded", func(t *testing.T, s *invariant.Saga, _ *good) {
		record(t, s, journal.Intent, "charge", 1).Key = "fixed"
		reseal(s)
	}},
	{"the key was ignored", 6, "lost", func(_ *testing.T, _ *invariant.Saga, g *good) { g.again("air") }},
	{"a step in doubt is sent again without a command", 6, "resent", func(t *testing.T, s *invariant.Saga, _ *good) {
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool { return r.Kind == journal.Operator })
		reseal(s)
	}},
	{"a tool is called again in doubt", 6, "lost", func(t *testing.T, s *invariant.Saga, _ *good) {
		tool := func(attempt int, hint saga.Hint) {
			edit(t, record(t, s, journal.Intent, "flight", attempt), func(d *saga.IntentData) {
				d.Request = &saga.Request{Tool: &saga.ToolRequest{Server: "air", Tool: "book", Hint: hint}}
			})
		}
		def, step := *s.Definition, *s.Definition.ByID["flight"] // others use them, too
		step.InDoubt.Declared = false
		def.ByID = maps.Clone(def.ByID)
		def.ByID["flight"], s.Definition = &step, &def
		tool(1, saga.HintIdempotent)
		tool(2, saga.HintIdempotent)
		reseal(s)
		for _, v := range invariant.Check([]invariant.Saga{*s}, nil, time.Time{}) {
			if v.N == 6 {
				t.Errorf("an idempotent tool: %v", v)
			}
		}
		tool(1, saga.HintNone)
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
	{"compensated with a remaining effect", 8, "compensated", func(_ *testing.T, _ *invariant.Saga, g *good) {
		g.ledger = g.ledger.Where(func(e world.Entry) bool { return e.Kind != world.Undo || e.Service != "air" })
	}},
	{"undone forwards", 9, "compensated", func(t *testing.T, s *invariant.Saga, _ *good) {
		replan(t, s, func(p []string) { slices.Reverse(p) })
	}},
	{"all undone at once", 9, "compensated", func(t *testing.T, s *invariant.Saga, _ *good) {
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool {
			return r.Kind == journal.Outcome && r.Way == journal.Undo && r.Path == "hotel"
		})
		reseal(s)
	}},
	{"an undo arrived early", 9, "compensated", func(_ *testing.T, _ *invariant.Saga, g *good) {
		g.change("DELETE /air/bookings/", func(e *world.Entry) { e.N = 1 })
	}},
	{"forward after compensation has begun", 10, "compensated", func(_ *testing.T, s *invariant.Saga, _ *good) {
		i := slices.IndexFunc(s.Records, func(r journal.Record) bool { return r.Kind == journal.Compensating })
		again := s.Records[1]
		s.Records = slices.Insert(s.Records, i+1, again)
		reseal(s)
	}},
	{"residual does not name an effect", 11, "residual", func(t *testing.T, s *invariant.Saga, _ *good) {
		finish(t, s, func(d *saga.FinishedData) { d.Residual = nil })
	}},
	{"residual names an effect that was undone", 11, "residual", func(_ *testing.T, _ *invariant.Saga, g *good) {
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
	{"a timer fires early", 13, "busy", func(t *testing.T, s *invariant.Saga, _ *good) {
		r := woke(t, s)
		r.At = r.At.Add(-time.Second)
		reseal(s)
	}},
	{"a timer fires early, and says it was due then", 13, "busy", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, woke(t, s), func(d *saga.WokeData) { d.Due.Time = d.Due.Add(-time.Second) })
		reseal(s)
	}},
	{"a timer fires twice", 13, "busy", func(t *testing.T, s *invariant.Saga, _ *good) {
		i := slices.IndexFunc(s.Records, func(r journal.Record) bool { return r.Kind == journal.Woke })
		s.Records = slices.Insert(s.Records, i+1, s.Records[i])
		reseal(s)
	}},
	{"a timer fires that was not set", 13, "busy", func(t *testing.T, s *invariant.Saga, _ *good) {
		woke(t, s).Path = "hotel"
		reseal(s)
	}},
	{"a sleep begins with a time that is too early", 13, "signed", func(t *testing.T, s *invariant.Saga, _ *good) {
		for i := range s.Records {
			switch r := &s.Records[i]; {
			case r.Path == "some[0].nap" && r.Kind == journal.Intent:
				edit(t, r, func(d *saga.IntentData) { d.WakeAt.Time = d.WakeAt.Add(-time.Millisecond) })
			case r.Path == "some[0].nap" && r.Kind == journal.Woke:
				edit(t, r, func(d *saga.WokeData) { d.Due.Time = d.Due.Add(-time.Millisecond) })
			}
		}
		reseal(s)
	}},
	{"an approval has less time than its timeout", 13, "signed", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Intent, "ok", 0), func(d *saga.IntentData) { d.WakeAt.Time = d.WakeAt.Add(-time.Millisecond) })
		reseal(s)
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
	{"Retry-After was ignored", 14, "busy", func(t *testing.T, s *invariant.Saga, _ *good) {
		r := record(t, s, journal.Outcome, "flight", 1)
		edit(t, r, func(d *saga.OutcomeData) { d.RetryAt = &saga.Time{Time: r.At.Add(time.Second)} })
		reseal(s)
	}},
	{"more iterations at once than allowed", 14, "signed", func(t *testing.T, s *invariant.Saga, _ *good) {
		first := slices.IndexFunc(s.Records, func(r journal.Record) bool { return r.Path == "some[0].nap" })
		for _, path := range []string{"some[1].nap", "some[2].nap"} {
			s.Records = slices.Insert(s.Records, first+1, *record(t, s, journal.Intent, path, 0))
		}
		reseal(s)
	}},
	{"more tokens than the budget has", 15, "signed", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Intent, "some[0].nap", 0), func(d *saga.IntentData) { d.ReserveTokens = 60 })
		edit(t, record(t, s, journal.Intent, "some[1].nap", 0), func(d *saga.IntentData) { d.ReserveTokens = 41 })
		reseal(s)
	}},
	{"approved twice", 16, "signed", func(t *testing.T, s *invariant.Saga, _ *good) {
		i := decided(t, s)
		s.Records = slices.Insert(s.Records, i, s.Records[i])
		reseal(s)
	}},
	{"approved and rejected", 16, "signed", func(t *testing.T, s *invariant.Saga, _ *good) {
		i := decided(t, s)
		s.Records = slices.Insert(s.Records, i, s.Records[i])
		edit(t, &s.Records[i], func(d *saga.CommandData) { d.Kind = "reject" })
		reseal(s)
	}},
	{"approved what was not shown", 16, "signed", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, &s.Records[decided(t, s)], func(d *saga.CommandData) { d.Shown = strings.Repeat("0", 64) })
		reseal(s)
	}},
	{"shown with the hash of something else", 16, "signed", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Intent, "ok", 0), func(d *saga.IntentData) { d.Awaited.Approval.Title = "Pay more?" })
		reseal(s)
	}},
	{"approved by somebody else", 16, "signed", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, &s.Records[decided(t, s)], func(d *saga.CommandData) { d.Role = "intern" })
		reseal(s)
	}},
	{"approved by who has started it", 16, "signed", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, &s.Records[0], func(d *saga.StartedData) { d.Actor = "bob" })
		reseal(s)
	}},
	{"approved too late", 16, "signed", func(t *testing.T, s *invariant.Saga, _ *good) {
		r := &s.Records[decided(t, s)]
		r.At = r.At.Add(2 * time.Minute)
		reseal(s)
	}},
	{"approved though nobody was asked", 16, "signed", func(t *testing.T, s *invariant.Saga, _ *good) {
		s.Records[decided(t, s)].Path = "some"
		reseal(s)
	}},
	{"another request than the approval has shown", 32, "covered", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Intent, "charge", 1), func(d *saga.IntentData) { d.Request.Body = json.RawMessage(`{"amount":99999}`) })
		reseal(s)
	}},
	{"other headers than the approval has shown", 32, "covered", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Intent, "mail", 1), func(d *saga.IntentData) { d.Request.Headers["X-Account"] = "7" })
		reseal(s)
	}},
	{"a covered request leaves before it is approved", 32, "covered", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool { return r.Kind == journal.Operator && r.Path == "ok" })
		reseal(s)
	}},
	{"a covered request leaves, and nobody was asked", 32, "covered", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool { return r.Path == "ok" })
		reseal(s)
	}},
	{"a covered request leaves under another key", 32, "covered", func(t *testing.T, s *invariant.Saga, _ *good) {
		first := record(t, s, journal.Intent, "charge", 1).Seq
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool { return r.Path == "ok" && r.Seq > first })
		reseal(s)
	}},
	{"a covered request with the hash of another one", 32, "covered", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Intent, "ok", 0), func(d *saga.IntentData) { d.Awaited.Approval.Covers[1].Key = "k" })
		reseal(s)
	}},
	{"a request on an answer that is too old", 33, "aging", func(t *testing.T, s *invariant.Saga, _ *good) {
		first := record(t, s, journal.Outcome, "count", 1).Seq
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool { return r.Path == "count" && r.Seq > first })
		reseal(s)
	}},
	{"a request while the answer is read again", 33, "aging", func(t *testing.T, s *invariant.Saga, _ *good) {
		second := record(t, s, journal.Outcome, "count", 2).Seq
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool { return r.Seq == second })
		reseal(s)
	}},
	{"a request on an answer that has changed, and nobody was asked", 33, "aging", func(t *testing.T, s *invariant.Saga, _ *good) {
		second := record(t, s, journal.Outcome, "count", 2).Seq
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool { return r.Path == "ok" && r.Seq > second })
		reseal(s)
	}},
	{"read again before it is too old", 13, "aging", func(t *testing.T, s *invariant.Saga, _ *good) {
		for i, r := range s.Records {
			if r.Kind == journal.Woke && r.Path == "count" {
				edit(t, &s.Records[i], func(d *saga.WokeData) { d.Due.Time = d.Due.Add(-time.Second) })
			}
		}
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
	{"cancelled, and yet succeeded", 17, "cancelled", func(t *testing.T, s *invariant.Saga, _ *good) {
		finish(t, s, func(d *saga.FinishedData) { d.Status = saga.Succeeded })
	}},
	{"a call is sent before it is approved", 16, "session", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool { return r.Kind == journal.Operator && r.Path == "pay[0]" })
		reseal(s)
	}},
	{"a call is sent after it was rejected", 16, "session", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Operator, "pay[0]", 0), func(d *saga.CommandData) { d.Kind = "reject" })
		reseal(s)
	}},
	{"a call needs an approval, and asks for none", 16, "session", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Called, "pay[1]", 0), func(d *saga.CalledData) { d.Input = json.RawMessage(`{"amount":50.01}`) })
		reseal(s)
	}},
	{"more calls at once than allowed", 14, "session", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Definition.Session.MaxParallel = 1
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool { return r.Kind == journal.Outcome && r.Path == "book[0]" })
		reseal(s)
	}},
	{"two effects of one call", 23, "session", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Called, "pay[1]", 0), func(d *saga.CalledData) { d.Input = json.RawMessage(`{ "amount": 60.0 }`) })
		reseal(s)
	}},
	{"two effects of one id", 23, "session", func(t *testing.T, s *invariant.Saga, _ *good) {
		for _, path := range []string{"pay[0]", "pay[1]"} {
			edit(t, record(t, s, journal.Called, path, 0), func(d *saga.CalledData) { d.Identity = "id:7" })
		}
		s.Definition.Session.Actions = nil // so that only the ledger shows it
		reseal(s)
	}},
	{"a call is repeated while it is in doubt", 23, "session", func(t *testing.T, s *invariant.Saga, _ *good) {
		r := record(t, s, journal.Outcome, "book[0]", 1)
		r.Class = journal.InDoubt
		edit(t, r, func(d *saga.OutcomeData) { d.Next = saga.NextInDoubt })
		reseal(s)
	}},
	{"a call is repeated with its members in another order", 23, "session", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Called, "book[1]", 0), func(d *saga.CalledData) { d.Input = json.RawMessage(`{"to":"OSL","from":"LIS"}`) })
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool { return r.Kind == journal.Outcome && r.Path == "book[0]" })
		reseal(s)
	}},
	{"a call of a life that was followed", 24, "session", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Called, "pay[1]", 0), func(d *saga.CalledData) { d.Life = 2 })
		reseal(s)
	}},
	{"a call after the lease was lost", 24, "session", func(t *testing.T, s *invariant.Saga, _ *good) {
		i := slices.IndexFunc(s.Records, func(r journal.Record) bool { return r.Path == "pay[1]" })
		s.Records = slices.Insert(s.Records, i, *woke(t, s))
		reseal(s)
	}},
	{"a life is left out", 24, "session", func(t *testing.T, s *invariant.Saga, _ *good) {
		for i := range s.Records {
			if s.Records[i].Kind == journal.Attached {
				edit(t, &s.Records[i], func(d *saga.AttachedData) { d.Life *= 2 })
			}
		}
		reseal(s)
	}},
	{"committed with an open call", 25, "session", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool { return r.Kind == journal.Outcome && r.Path == "pay[1]" })
		reseal(s)
	}},
	{"committed before an undo has ended", 25, "session", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool { return r.Way == journal.Undo })
		reseal(s)
	}},
	{"undone after the commit", 25, "session", func(_ *testing.T, s *invariant.Saga, _ *good) {
		undo := slices.IndexFunc(s.Records, func(r journal.Record) bool { return r.Way == journal.Undo })
		s.Records = slices.Insert(s.Records, len(s.Records)-1, s.Records[undo:undo+2]...)
		reseal(s)
	}},
	{"sent after the commit", 25, "session", func(t *testing.T, s *invariant.Saga, _ *good) {
		s.Records = slices.Insert(s.Records, len(s.Records)-1, *record(t, s, journal.Intent, "pay[1]", 1))
		reseal(s)
	}},
	{"an own step in doubt is done again without a person", 6, "own", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool { return r.Kind == journal.Operator && r.Path == "own.mail" })
		reseal(s)
	}},
	{"an own step is begun while an attempt is open", 23, "own", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool {
			return r.Kind == journal.Outcome && r.Path == "own.mail" && r.Attempt == 1
		})
		reseal(s)
	}},
	{"an own step that has ended is begun again", 23, "own", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Outcome, "own.mail", 1), func(d *saga.OutcomeData) { d.Next = saga.NextFail })
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool { return r.Kind == journal.Operator && r.Path == "own.mail" })
		reseal(s)
	}},
	{"an own step is begun again and never was before", 23, "own", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Called, "own.note", 0), func(d *saga.CalledData) { d.Own = nil })
		reseal(s)
	}},
	{"an own step is finished for a life that has ended", 24, "own", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Outcome, "own.mail", 1), func(d *saga.OutcomeData) { d.Error.Code = "own_failed" })
		reseal(s)
	}},
	{"an own step is begun by a life that has ended", 24, "own", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Called, "own.note", 0), func(d *saga.CalledData) { d.Life = 1 })
		reseal(s)
	}},
	{"committed with an open own step", 25, "own", func(t *testing.T, s *invariant.Saga, _ *good) {
		r := record(t, s, journal.Outcome, "own.file", 1)
		r.Kind, r.Path, r.Way, r.Attempt, r.Class, r.Data = journal.Committed, "", "", 0, "", json.RawMessage(`{}`)
		s.Records = s.Records[:r.Seq]
		reseal(s)
	}},
	{"an own step is undone by an action of others", 26, "own", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Called, "own.file", 0), func(d *saga.CalledData) { d.Own.Compensate.Use = "steal@1" })
		reseal(s)
	}},
	{"an own step is undone by an action that needs an approval", 26, "own", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Definition.Session.Actions["book"].Agents.Approve = true
	}},
	{"the effect of an own step is forgotten", 11, "own", func(t *testing.T, s *invariant.Saga, _ *good) {
		finish(t, s, func(d *saga.FinishedData) { d.Residual = nil })
	}},
	{"an undoable own step is left without a person", 11, "own", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Called, "own.mail", 0), func(d *saga.CalledData) { d.Own.Effect = saga.Undoable })
		finish(t, s, func(d *saga.FinishedData) { d.Residual[0].Why = "it happened, and no compensation is declared for it" })
	}},
	{"a call is sent before a person has compared it", 28, "guarded", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool { return r.Kind == journal.Operator && r.Path == "pay[2]" })
		reseal(s)
	}},
	{"a call is sent although it is the same", 28, "guarded", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Operator, "pay[2]", 0), func(d *saga.CommandData) { d.Outcome = saga.SameEffect })
		reseal(s)
	}},
	{"a call is compared with one of its own life", 28, "guarded", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Called, "pay[3]", 0), func(d *saga.CalledData) { d.Resembles = "pay[2]" })
		reseal(s)
	}},
	{"a call waits although nothing has diverged", 28, "guarded", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Called, "llm[0]", 0), func(d *saga.CalledData) { d.Diverged = nil })
		reseal(s)
	}},
	{"more calls than the limit", 26, "session", func(t *testing.T, s *invariant.Saga, _ *good) {
		r := record(t, s, journal.Outcome, "book[0]", 1)
		r.Class = journal.Succeeded
		edit(t, r, func(d *saga.OutcomeData) { d.Next = saga.NextDone })
		reseal(s)
	}},
	{"more money than the limit", 26, "session", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Called, "pay[1]", 0), func(d *saga.CalledData) { d.Input = json.RawMessage(`{"amount":40.01}`) })
		reseal(s)
	}},
	{"a negative amount", 26, "session", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Called, "pay[1]", 0), func(d *saga.CalledData) { d.Input = json.RawMessage(`{"amount":-1}`) })
		reseal(s)
	}},
	{"an action that is not for agents", 26, "session", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, record(t, s, journal.Called, "pay[1]", 0), func(d *saga.CalledData) { d.Action = "secret" })
		reseal(s)
	}},
	{"a model that the session does not name", 26, "session", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Definition.Session.Data.Models = []string{"gpt-5", "claude-*"}
	}},
	{"a model is asked after the session was committed", 25, "session", func(t *testing.T, s *invariant.Saga, _ *good) {
		s.Records = slices.Insert(s.Records, len(s.Records)-1, *record(t, s, journal.Intent, "llm[0]", 1))
		reseal(s)
	}},
	{"a request to a model is sent again", 27, "session", func(t *testing.T, s *invariant.Saga, _ *good) {
		sent := *record(t, s, journal.Intent, "llm[0]", 1)
		i := slices.IndexFunc(s.Records, func(r journal.Record) bool { return r.Kind == journal.Outcome && r.Path == "llm[0]" })
		s.Records = slices.Insert(s.Records, i+1, sent)
		reseal(s)
	}},
	{"committed while a model is asked", 25, "session", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool { return r.Kind == journal.Outcome && r.Path == "llm[0]" })
		reseal(s)
	}},
	{"more calls than the session may make", 26, "session", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Definition.Session.MaxCalls = 3
	}},
	{"more requests to models than the session may make", 26, "session", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Definition.Session.MaxAsks = 0
	}},
	{"undoes a saga that has not succeeded", 29, "succeeded", func(t *testing.T, s *invariant.Saga, _ *good) {
		var d saga.StartedData
		if err := json.Unmarshal(s.Records[0].Data, &d); err != nil {
			t.Fatal(err)
		}
		d.UndoOf, d.Origin = uuid.Must(uuid.NewV7()).String(), slices.Clone(s.Records[:len(s.Records)-1])
		s.Records[0].Data = saga.Encode(d)
		reseal(s)
	}},
	{"goes on from a saga that has succeeded", 31, "succeeded", func(t *testing.T, s *invariant.Saga, _ *good) {
		goOnFrom(t, s, slices.Clone(s.Records))
	}},
	{"sends a step whose outcome it has taken over", 31, "compensated", func(t *testing.T, s *invariant.Saga, _ *good) {
		goOnFrom(t, s, slices.Clone(s.Records))
	}},
	{"a fork sends what nobody has approved", 34, "succeeded", func(t *testing.T, s *invariant.Saga, _ *good) {
		var d saga.StartedData
		if err := json.Unmarshal(s.Records[0].Data, &d); err != nil {
			t.Fatal(err)
		}
		d.Fork, d.Origin = &saga.ForkData{Of: uuid.Must(uuid.NewV7()).String(), Effects: saga.HoldEffects}, slices.Clone(s.Records[:1])
		s.Records[0].Data = saga.Encode(d)
		reseal(s)
	}},
	{"a child without the part of the budget that was reserved for it", 35, "succeeded", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, &s.Records[0], func(d *saga.StartedData) {
			d.Parent = &saga.ParentData{Saga: uuid.Must(uuid.NewV7()).String(), Path: "a", Depth: 1, Budget: &saga.BudgetData{Amount: "0.10", Currency: "USD"}}
		})
		reseal(s)
	}},
	{"the budget of a child was raised", 35, "succeeded", func(t *testing.T, s *invariant.Saga, _ *good) {
		edit(t, &s.Records[0], func(d *saga.StartedData) {
			d.Budget = &saga.BudgetData{Amount: "2.00", Currency: "USD"}
			d.Parent = &saga.ParentData{Saga: uuid.Must(uuid.NewV7()).String(), Path: "a", Depth: 1, Budget: &saga.BudgetData{Amount: "1.50", Currency: "USD"}}
		})
		reseal(s)
	}},
	{"written after a record that cannot be read", 22, "succeeded", func(_ *testing.T, s *invariant.Saga, _ *good) {
		s.Records[2].Kind = "from the future"
		reseal(s)
	}},
}

// goOnFrom makes the saga one that goes on from its last step in another one with the journal.
func goOnFrom(t *testing.T, s *invariant.Saga, origin []journal.Record) {
	t.Helper()
	var d saga.StartedData
	if err := json.Unmarshal(s.Records[0].Data, &d); err != nil {
		t.Fatal(err)
	}
	last := len(s.Definition.Steps) - 1
	d.RetryOf, d.RetryFrom, d.Origin = s.ID.String(), s.Definition.Steps[last].ID, origin
	for _, step := range s.Definition.Steps[:last] {
		d.Reused = append(d.Reused, step.ID)
	}
	s.Records[0].Data = saga.Encode(d)
	reseal(s)
}

func TestCatches(t *testing.T) {
	caught := make(map[int]bool)
	for _, tt := range bad {
		t.Run(strconv.Itoa(tt.n)+" "+tt.name, func(t *testing.T) {
			g := games[tt.game](t)
			s := g.saga()
			tt.spin(t, &s, &g)
			catches(t, tt.n, invariant.Check([]invariant.Saga{s}, g.ledger, g.end))
		})
		caught[tt.n] = true
	}
	for _, tt := range withConfig {
		caught[tt.n] = true // by TestCatchesWithConfig
	}
	caught[30] = true // by the tests of package evidence, which compares journals with anchors
	for n := range invariant.Names {
		if !caught[n] {
			t.Errorf("invariant %d has no known-bad input", n)
		}
	}
}

func catches(t *testing.T, n int, found []invariant.Violation) {
	t.Helper()
	if !slices.ContainsFunc(found, func(v invariant.Violation) bool { return v.N == n }) {
		t.Errorf("invariant %d did not catch it; found: %v", n, found)
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

func woke(t *testing.T, s *invariant.Saga) *journal.Record {
	t.Helper()
	for i := range s.Records {
		if r := &s.Records[i]; r.Kind == journal.Woke {
			return r
		}
	}
	t.Fatal("no timer fires")
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

// decided returns the index of the record with the decision of the approval.
func decided(t *testing.T, s *invariant.Saga) int {
	t.Helper()
	i := slices.IndexFunc(s.Records, func(r journal.Record) bool { return r.Kind == journal.Operator && r.Path == "ok" })
	if i < 0 {
		t.Fatal("there is no decision")
	}
	return i
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
