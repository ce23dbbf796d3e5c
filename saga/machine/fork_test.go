package machine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// forkable has steps of all sorts. Its forks begin anywhere in it.
const forkable = `
saga: order
input: {n: "integer = 1"}
steps:
  - {id: look, http: "GET http://w/look"}
  - {id: seat, http: "GET http://w/seat", compensate: {http: "DELETE http://w/seat/${output.id}"}}
  - {id: charge, http: "POST http://w/charge", body: {n: "${input.n}"}, in_doubt: ask, pivot: true}
  - {id: note, set: "${steps.charge.output.id}", compensate: {http: "DELETE http://w/note"}}
  - id: each
    foreach: [a, b]
    steps:
      - {id: pack, http: "POST http://w/pack", body: {item: "${item}"}, compensate: {http: "DELETE http://w/pack/${output.id}"}}
      - {id: check, http: "GET http://w/check"}
  - {id: go, signal: go}
  - id: both
    parallel:
      - {id: read, http: "GET http://w/read"}
      - {id: mail, http: "POST http://w/mail", body: {}, in_doubt: ask, compensate: {http: "DELETE http://w/mail/${output.id}"}}
      - {id: nap, sleep: 1h}
  - {id: said, emit: order.packed, to: [bus], data: {mail: "${steps.mail.output.id}"}}
  - {id: ship, http: "POST http://w/ship", body: {note: "${steps.note.output}"}, compensate: none}
finally:
  - {id: tell, http: "POST http://w/tell", body: {}}
output: {seat: "${steps.seat.output.id}", ship: "${steps.ship.output.id}"}
`

// The steps of forkable that send something, in their order, and those that send or publish
// something with an effect.
var (
	forkableSends  = strings.Fields("look seat charge each[0].pack each[0].check each[1].pack each[1].check read mail ship tell")
	forkableWrites = strings.Fields("seat charge each[0].pack each[1].pack mail said ship tell")
)

// goesOn is what a saga does that is carried on.
type goesOn struct {
	sent, undone, approved, stubbed []string // paths
	signals                         int
}

// carryOn answers what a saga sends, approves what it asks for, and sends the signal that it waits
// for. A request without one of the given answers has its path for an answer.
func (h *hand) carryOn(answers map[string]string) (did goesOn) {
	h.t.Helper()
	for range 200 {
		inbox := h.m.Inbox()
		switch {
		case len(h.open) > 0:
			s := h.open[0]
			if s.Way == journal.Undo {
				did.undone = append(did.undone, s.Path)
			} else {
				did.sent = append(did.sent, s.Path)
			}
			answer, given := answers[s.Path]
			if !given {
				answer = `200 {"id":"` + s.Path + `"}`
			}
			h.reply(s.Path, answer)
		case len(inbox) > 0 && inbox[0].Kind == saga.InboxApproval:
			did.approved = append(did.approved, inbox[0].Path)
			h.must(inbox[0].Path, saga.Approve{Shown: inbox[0].ShownHash})
		case h.m.Ended() || len(inbox) > 0:
			for _, r := range h.records {
				var d saga.OutcomeData
				if r.Kind == journal.Outcome && r.Decode(&d) == nil && d.Stubbed {
					did.stubbed = append(did.stubbed, r.Path)
				}
			}
			slices.Sort(did.stubbed)
			return did
		case h.m.WakeAt().IsZero():
			did.signals++
			h.must("", saga.Signal{Name: "go"})
		default:
			h.wait()
		}
	}
	h.t.Fatalf("the saga does not end\n%s", h.out.String())
	return did
}

// ownKeys checks that everything is sent under keys of this saga.
func (h *hand) ownKeys() {
	h.t.Helper()
	for _, r := range h.records {
		if r.Kind == journal.Intent && r.Attempt > 0 && r.Key != idempotency.Key(h.m.ID(), r.Path, r.Way, r.Generation) {
			h.t.Errorf("record %d sends %s under the key %s\n%s", r.Seq, r.Path, r.Key, h.out.String())
		}
	}
}

// without returns a list without the items of another one.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}

// only returns the items of a list that another one has.
func only(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !slices.Contains(other, s) })
}

// doubtful plays a saga of forkable, some of whose steps were in doubt for a while.
func doubtful(t *testing.T) *hand {
	t.Helper()
	h := byHand(t, forkable, "{}")
	h.reply("look", `200 {"id":"look"}`)
	h.reply("seat", `200 {"id":"seat"}`)
	h.reply("charge", "timeout")
	h.must("charge", saga.Resolve{Outcome: "succeeded", Output: json.RawMessage(`{"id":"charge"}`)})
	h.must("", saga.Signal{Name: "go"})
	for range 2 {
		h.reply(h.open[0].Path, `200 {"id":"`+h.open[0].Path+`"}`)
		h.reply(h.open[0].Path, `503 {}`)
		h.wait()
		h.reply(h.open[0].Path, `200 {"id":"`+h.open[0].Path+`"}`)
	}
	h.reply("mail", "timeout")
	h.must("mail", saga.Resolve{Outcome: "retry"})
	h.carryOn(nil)
	if h.m.Status() != saga.Succeeded {
		t.Fatalf("%s\n%s", h.m.Status(), h.out.String())
	}
	return h
}

// hadOutcome lists the steps that have succeeded by these records.
func hadOutcome(t *testing.T, records []journal.Record) (paths []string) {
	t.Helper()
	for _, r := range records {
		var d struct{ Outcome string }
		if r.Data != nil {
			if err := json.Unmarshal(r.Data, &d); err != nil {
				t.Fatal(err)
			}
		}
		if r.Kind == journal.Outcome && r.Class == journal.Succeeded || r.Kind == journal.Operator && d.Outcome == "succeeded" {
			paths = append(paths, r.Path)
		}
	}
	return paths
}

// A fork reads the outcomes that the original had, and begins everything else again, under keys of
// its own. It asks before it sends something that has an effect, sends nothing, or sends it, and
// undoes only what it has sent itself.
func TestForkAnywhere(t *testing.T) {
	h := doubtful(t)
	if of, how := h.m.ForkOf(); !of.IsNil() || how != "" {
		t.Errorf("the original is a fork of %s, %s", of, how)
	}
	last := machine.LastFork(h.def, h.m.ID(), h.records)
	if r := h.records[last]; r.Path != "ship" || r.Kind != journal.Outcome { // the one after it
		t.Fatalf("the last fork begins after record %d\n%s", last, h.out.String())
	}
	for at := int64(1); at <= last; at++ {
		had := hadOutcome(t, h.records[:at])
		signal := !slices.ContainsFunc(h.records[:at], func(r journal.Record) bool { return r.Kind == journal.Signalled })
		for _, effects := range []saga.Effects{saga.HoldEffects, saga.StubEffects, saga.RealEffects} {
			for fails, status := range map[string]saga.Status{"": saga.Succeeded, "ship": saga.Compensated} {
				o := machine.ForkOptions{At: at, Effects: effects}
				want := goesOn{sent: without(forkableSends, had)}
				if signal {
					want.signals = 1
				}
				switch writes := without(forkableWrites, had); effects {
				case saga.HoldEffects:
					want.approved = writes
				case saga.StubEffects:
					want.sent, want.stubbed = without(want.sent, writes), slices.Sorted(slices.Values(writes))
					if fails != "" {
						o.Stubs = map[string]saga.Stub{fails: {Error: &saga.Failure{Code: "no", Title: "No."}}}
					}
				}
				if fails != "" && slices.Contains(want.sent, "charge") { // the pivot
					status = saga.Stuck
					want.sent, want.approved = without(want.sent, []string{"tell"}), without(want.approved, []string{"tell"})
				} else if fails != "" {
					undoable := strings.Fields("mail each[1].pack each[0].pack seat")
					if effects == saga.RealEffects && !slices.Contains(had, "note") {
						undoable = strings.Fields("mail each[1].pack each[0].pack note seat")
						want.undone = []string{"note"}
					}
					want.undone = only(undoable, append(want.undone, want.sent...))
				}
				f := h.fork(o)
				got := f.carryOn(map[string]string{fails: "422 {}"})
				if d := cmp.Diff(want, got, cmp.AllowUnexported(goesOn{}), cmpopts.EquateEmpty()); d != "" || f.m.Status() != status {
					t.Errorf("after record %d, %s, %q fails: %s (-want +got):\n%s", at, effects, fails, f.m.Status(), d)
				}
				if v, was := f.m.View(), h.m.View(); fails == "" && string(v.Output) != string(was.Output) || v.ForkedFrom != was.ID || v.ForkedAt != at || v.Effects != effects {
					t.Errorf("after record %d, %s: %+v", at, effects, v)
				}
				if of, how := f.m.ForkOf(); of != h.m.ID() || how != effects || f.m.TurnedBack() != (status == saga.Compensated) {
					t.Errorf("after record %d, %s: a fork of %s, %s, turned back: %v", at, effects, of, how, f.m.TurnedBack())
				}
				f.ownKeys()
				if begun, err := machine.Replay(f.def, f.m.ID(), f.records[:1]); err != nil || len(begun.InFlight()) > 0 {
					t.Errorf("after record %d, %s: in flight at the start %v, %v", at, effects, begun.InFlight(), err)
				}
				again, err := machine.Replay(f.def, f.m.ID(), f.records)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(f.m.View(), again.View()); d != "" {
					t.Errorf("after record %d, %s: a replay differs (-was +replayed):\n%s", at, effects, d)
				}
			}
		}
	}
}

// Wherever a fork of a scenario's saga begins, it can go on. It sends nothing under a key of the
// original, nothing with an effect that nobody has approved or that has a stub, and undoes only
// steps of its own.
func TestForkOfAnyScenario(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		p := play(t, readParts(t, file))
		if p.def.Session != nil {
			continue // forks of sessions wait for their agents
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			keys := make(map[string]bool)
			for _, r := range p.records {
				keys[r.Key] = r.Key != ""
			}
			p.t = t
			original := &hand{player: p}
			for at := int64(1); at <= machine.LastFork(p.def, p.m.ID(), p.records); at++ {
				for _, effects := range []saga.Effects{saga.HoldEffects, saga.StubEffects, saga.RealEffects} {
					data, _, wrong := p.m.BeginFork(machine.ForkOptions{At: at, Effects: effects}, p.records, machine.StartOptions{Vars: map[string]json.RawMessage{"pay": json.RawMessage(`"https://pay.example"`)}})
					if wrong != nil {
						t.Fatal(wrong)
					}
					original.goOn(data).keepsToItself(effects, keys)
				}
			}
		})
	}
}

// keepsToItself carries a fork on, and checks what it sends. keys are those of the original.
func (h *hand) keepsToItself(effects saga.Effects, keys map[string]bool) {
	h.t.Helper()
	approved := make(map[string]bool)
	for range 200 {
		inbox := h.m.Inbox()
		switch {
		case h.m.Ended():
			return
		case len(h.open) > 0:
			s := h.open[0]
			path, query := saga.SplitQuery(s.Path)
			call, _ := h.def.ByID[saga.StepID(path)].Body.(saga.Call)
			own := slices.ContainsFunc(h.records, func(r journal.Record) bool { return r.Path == path && r.Way == journal.Do })
			switch {
			case keys[s.Key]:
				h.t.Errorf("%s %s has a key of the original\n%s", s.Way, s.Path, h.out.String())
			case s.Way == journal.Undo && !own:
				h.t.Errorf("%s is undone, which is not the fork's\n%s", s.Path, h.out.String())
			case s.Way == journal.Do && !query && !call.ReadOnly() && (effects == saga.StubEffects || effects == saga.HoldEffects && !approved[path]):
				h.t.Errorf("with %s, %s is sent\n%s", effects, s.Path, h.out.String())
			}
			h.reply(s.Path, "200 {}")
		case len(inbox) > 0 && inbox[0].Kind == saga.InboxApproval:
			e := inbox[0]
			approved[e.Path] = true
			if err := h.do(saga.Command{Do: saga.Approve{Shown: e.ShownHash}, Path: e.Path, Actor: "ann", Trusted: true}); err != nil {
				return // it has a form
			}
		case len(inbox) > 0 || !h.wait():
			return
		}
	}
}

// A fork with stubs takes the outcomes that the original's steps have had after the record where it
// begins, if they send something with an effect: by their answers, by a status check or by a
// person. A given stub takes the place of those.
func TestForkTakesStubs(t *testing.T) {
	h := byHand(t, `
saga: x
steps:
  - {id: before, http: "POST http://w/before", body: {}, compensate: none}
  - {id: look, http: "GET http://w/look"}
  - {id: charge, http: "POST http://w/charge", body: {}, retry: 2, compensate: {http: "DELETE http://w/charge"}}
  - {id: pay, http: "POST http://w/pay", body: {}, in_doubt: {verify: {http: "GET http://w/pay", found: result.body.found, output: "${result.body.id}"}, otherwise: ask}, compensate: none}
  - {id: asked, http: "POST http://w/asked", body: {}, in_doubt: ask, compensate: none}
  - id: each
    foreach: [a, b]
    steps: [{id: pack, http: "POST http://w/pack", body: {}, compensate: none}]
  - {id: mail, http: "POST http://w/mail", body: {}, in_doubt: fail, on_error: continue}
  - {id: ship, http: "POST http://w/ship", body: {}, compensate: none}
`, "null")
	h.reply("before", `200 "before"`)
	h.reply("look", `200 "look"`)
	h.reply("charge", `503 {}`)
	h.wait()
	h.reply("charge", `200 "charge"`)
	h.reply("pay", "timeout")
	h.wait()
	h.reply("pay.verify", `200 {"found":true,"id":"pay"}`)
	h.reply("asked", "timeout")
	h.must("asked", saga.Resolve{Outcome: "succeeded"})
	h.reply("each[0].pack", `200 "a"`)
	h.reply("each[1].pack", `200 "b"`)
	c := saga.Command{Path: "mail", Do: saga.Resolve{Outcome: "succeeded"}}
	h.write(h.m.Reject(h.m.ID(), c, &machine.Refusal{Failure: saga.Failure{Code: "no", Title: "No."}}))
	h.reply("mail", "timeout")
	h.reply("ship", "422 {}")
	h.reply("charge", `200 "undone"`)
	if h.m.Status() != saga.Failed && h.m.Status() != saga.Compensated {
		t.Fatalf("%s\n%s", h.m.Status(), h.out.String())
	}
	const all = `{"asked":{"output":null},"before":{"output":"before"},"charge":{"output":"charge"},"each[0].pack":{"output":"a"},"each[1].pack":{"output":"b"},` +
		`"pay":{"output":"pay"},"ship":{"error":{"code":"http_422","title":"HTTP 422 Unprocessable Entity from w"}}}`
	after := func(path string) int64 {
		i := slices.IndexFunc(h.records, func(r journal.Record) bool { return r.Path == path && r.Class == journal.Succeeded })
		return h.records[i].Seq
	}
	given := map[string]saga.Stub{"charge": {Output: json.RawMessage("1")}, "pack": {Output: json.RawMessage("2")}}
	for name, c := range map[string]struct {
		o    machine.ForkOptions
		want string
	}{
		"all":       {machine.ForkOptions{At: 1, Effects: saga.StubEffects}, all},
		"the rest":  {machine.ForkOptions{At: after("before"), Effects: saga.StubEffects}, strings.Replace(all, `"before":{"output":"before"},`, "", 1)},
		"some":      {machine.ForkOptions{At: 1, Effects: saga.StubEffects, Stubs: given}, strings.NewReplacer(`"charge":{"output":"charge"},"each[0].pack":{"output":"a"},"each[1].pack":{"output":"b"}`, `"charge":{"output":1},"pack":{"output":2}`).Replace(all)},
		"none":      {machine.ForkOptions{At: 1, Effects: saga.HoldEffects}, "null"},
		"the given": {machine.ForkOptions{At: 1, Effects: saga.HoldEffects, Stubs: given}, `{"charge":{"output":1},"pack":{"output":2}}`},
	} {
		t.Run(name, func(t *testing.T) {
			data, _, wrong := h.m.BeginFork(c.o, h.records, machine.StartOptions{})
			if wrong != nil {
				t.Fatal(wrong)
			}
			if d := cmp.Diff(c.want, mustJSON(t, data.Fork.Stubs)); d != "" {
				t.Errorf("stubs (-want +got):\n%s", d)
			}
			if len(data.Origin) != int(c.o.At) || data.Fork.Of != h.m.ID().String() || data.Fork.Effects != c.o.Effects {
				t.Errorf("%+v, and %d records", data.Fork, len(data.Origin))
			}
		})
	}
	f := h.fork(machine.ForkOptions{At: 1, Effects: saga.StubEffects})
	did := f.carryOn(nil)
	if s := f.m.Status(); s != saga.Compensated || !slices.Equal(did.sent, []string{"look"}) || did.undone != nil {
		t.Errorf("%s, %+v\n%s", s, did, f.out.String())
	}
}

// A step of a fork with stubs fails as the original's has failed, whether an answer, a status check
// or a person has said so.
func TestForkFailsAsTheOriginal(t *testing.T) {
	const (
		asked  = `in_doubt: ask`
		verify = `in_doubt: {verify: {http: "GET http://w/a", found: result.body.found}, otherwise: ask}`
	)
	resolved := func(outcome string) func(*hand) {
		return func(h *hand) { h.must("a", saga.Resolve{Outcome: outcome}) }
	}
	for name, c := range map[string]struct {
		step   string
		answer string
		then   func(*hand)
		want   string
	}{
		"refused":               {answer: "422 {}", want: "http_422"},
		"after the last retry":  {step: "retry: 1", answer: "429 {}", want: "http_429"},
		"by a status check":     {step: "retry: 1, " + verify, answer: "timeout", then: func(h *hand) { h.wait(); h.reply("a.verify", `200 {"found":false}`) }, want: "timeout"},
		"by a person":           {step: asked, answer: "timeout", then: resolved("failed"), want: "operator"},
		"undone by a person":    {step: asked, answer: "timeout", then: resolved("compensated"), want: "operator"},
		"turned away, and more": {answer: "401 {}", then: resolved("failed"), want: "operator"},
	} {
		t.Run(name, func(t *testing.T) {
			step := c.step
			if step != "" {
				step = ", " + step
			}
			h := byHand(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", body: {}, on_error: continue"+step+"}\n  - {id: b, set: \"${steps.a.error.code}\"}\n", "null")
			h.reply("a", c.answer)
			if c.then != nil {
				c.then(h)
			}
			f := h.fork(machine.ForkOptions{At: 1, Effects: saga.StubEffects})
			if want := `"` + c.want + `"`; string(h.m.View().Output) != want || string(f.m.View().Output) != want {
				t.Errorf("the original's output is %s, and the fork's %s, want %s\n%s", h.m.View().Output, f.m.View().Output, want, h.out.String())
			}
		})
	}
	held := byHand(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", body: {}, compensate: none}\n", "null").fork(machine.ForkOptions{At: 1})
	held.must("a", saga.Reject{})
	f := held.fork(machine.ForkOptions{At: 1, Effects: saga.StubEffects})
	if r := f.m.Reason(); f.m.Status() != saga.Compensated || r == nil || r.Code != "rejected" {
		t.Errorf("a fork of one whose request was rejected is %s, %+v", f.m.Status(), r)
	}
}

// A step that a person has skipped has no outcome for a stub, whatever its last answer was.
func TestForkHasNoStubForASkippedStep(t *testing.T) {
	h := byHand(t, `
saga: x
steps:
  - {id: pay, http: "POST http://w/pay", body: {}, pivot: true}
  - {id: late, http: "POST http://w/late", body: {}}
  - {id: lost, http: "POST http://w/lost", body: {}, in_doubt: {verify: {http: "GET http://w/lost", found: result.body.found}, otherwise: ask}}
`, "null")
	h.reply("pay", "200 1")
	h.reply("late", "422 {}")
	h.must("late", saga.Resolve{Outcome: "skip"})
	h.reply("lost", "timeout")
	h.wait()
	h.reply("lost.verify", "404 {}")
	h.must("lost", saga.Resolve{Outcome: "skip"})
	data, _, wrong := h.m.BeginFork(machine.ForkOptions{At: 1, Effects: saga.StubEffects}, h.records, machine.StartOptions{})
	if got := mustJSON(t, data.Fork.Stubs); wrong != nil || h.m.Status() != saga.Succeeded || got != `{"pay":{"output":1}}` {
		t.Errorf("%s, %v, stubs %s\n%s", h.m.Status(), wrong, got, h.out.String())
	}
}

// A fork has the input of the original, or another one. It is unique only if it sends what it sends
// by itself: otherwise it may run while the original does.
func TestForkInput(t *testing.T) {
	h := byHand(t, "saga: x\ninput: {n: integer}\nunique: ${input.n}\nsteps:\n  - {id: go, signal: go}\n", `{"n":1}`)
	for _, c := range []struct {
		effects             saga.Effects
		input, want, unique string
	}{
		{"", "", `{"n":1}`, ""},
		{saga.HoldEffects, `{"n":2}`, `{"n":2}`, ""},
		{saga.StubEffects, `{"n":2}`, `{"n":2}`, ""},
		{saga.RealEffects, `{"n":2}`, `{"n":2}`, "2"},
		{saga.RealEffects, "", `{"n":1}`, "1"},
	} {
		o := machine.ForkOptions{Effects: c.effects}
		if c.input != "" {
			o.Input = json.RawMessage(c.input)
		}
		data, unique, wrong := h.m.BeginFork(o, h.records, machine.StartOptions{})
		if wrong != nil || string(data.Input) != c.want || unique != c.unique || c.effects == "" && data.Fork.Effects != saga.HoldEffects {
			t.Errorf("%s %s: %v, %s, unique %q, %s", c.effects, c.input, wrong, data.Input, unique, data.Fork.Effects)
		}
	}
}

// The stub of a step that had ended replaces its output. Other steps are not stubbed.
func TestForkReplacesAnOutput(t *testing.T) {
	h := doubtful(t)
	last := machine.LastFork(h.def, h.m.ID(), h.records)
	data, _, wrong := h.m.BeginFork(machine.ForkOptions{Stubs: map[string]saga.Stub{"note": {Output: json.RawMessage(`"other"`)}, "said": {Output: json.RawMessage("{}")}, "tell": {Output: json.RawMessage("{}")}}},
		h.records, machine.StartOptions{Reason: "what if"})
	if wrong != nil {
		t.Fatal(wrong)
	}
	f := h.goOn(data)
	views, err := machine.Steps(f.m, f.records)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range views {
		if want := v.Path == "note" || v.Path == "said"; v.Stubbed != want {
			t.Errorf("after record %d, %s is stubbed: %v", last, v.Path, v.Stubbed)
		}
	}
	f.must("ship", saga.Approve{Shown: f.m.Inbox()[0].ShownHash})
	if len(f.open) != 1 || string(f.open[0].Request.Body) != `{"note":"other"}` {
		t.Errorf("%+v", f.open)
	}
	f.reply("ship", "200 {}")
	if f.m.Status() != saga.Succeeded {
		t.Errorf("%s\n%s", f.m.Status(), f.out.String())
	}
}

// The pointers, the codes and the texts say what is wrong with a request for a fork.
func TestWrongForks(t *testing.T) {
	const effect = `http: "POST http://w/a", body: {}, compensate: {http: "DELETE http://w/a", undo_within: 1h}`
	done := doubtful(t)
	last, end := machine.LastFork(done.def, done.m.ID(), done.records), int64(len(done.records))
	cancelled := byHand(t, "saga: x\nsteps:\n  - {id: a, "+effect+"}\n", "null")
	cancelled.must("", saga.Cancel{})
	if !cancelled.m.TurnedBack() {
		t.Error("a saga that was cancelled has not turned back")
	}
	failed := byHand(t, "saga: x\nsteps:\n  - {id: a, "+effect+"}\n  - {id: skipped, when: false, "+effect+"}\n  - {id: b, "+effect+"}\n", "null")
	failed.reply("a", "200 {}")
	failed.reply("b", "422 {}")
	failed.reply("a", "200 {}")
	reached := byHand(t, "saga: x\nsteps:\n  - {id: a, "+effect+"}\nfinally:\n  - {id: b, "+effect+"}\n", "null")
	reached.reply("a", "200 {}")
	reached.reply("b", "200 {}")
	undo := reached.goOn(machine.BeginUndo(reached.m, reached.records, machine.StartOptions{}))

	const both, named = "a stub has either an `output`, or an `error` with code and title", "the `error` of a stub has a code and a title"
	const replaced = "the step had succeeded by then, so only its `output` can be replaced: to let it fail, fork before it"
	at := func(text string) []saga.Finding {
		return []saga.Finding{{Pointer: "/at", Code: "bad_fork", Detail: text}}
	}
	stub := func(pointer, code, text string) []saga.Finding {
		return []saga.Finding{{Pointer: "/stubs/" + pointer, Code: code, Detail: text}}
	}
	given := func(name, output string, f *saga.Failure) machine.ForkOptions {
		stub := saga.Stub{Error: f}
		if output != "" {
			stub.Output = json.RawMessage(output)
		}
		return machine.ForkOptions{Stubs: map[string]saga.Stub{name: stub}}
	}
	upTo := func(last int64) string { return fmt.Sprintf("a fork begins after one of its records 1 to %d", last) }
	fails := &saga.Failure{Code: "no", Title: "No."}
	for name, c := range map[string]struct {
		h      *hand
		o      machine.ForkOptions
		reason string
		want   []saga.Finding
	}{
		"nothing":              {h: done},
		"the first record":     {h: done, o: machine.ForkOptions{At: 1}},
		"before the records":   {h: done, o: machine.ForkOptions{At: -1}, want: at("the saga has no record -1: " + upTo(last))},
		"after the records":    {h: done, o: machine.ForkOptions{At: end + 1}, want: at(fmt.Sprintf("the saga has no record %d: ", end+1) + upTo(last))},
		"its end":              {h: done, o: machine.ForkOptions{At: end}, want: at(fmt.Sprintf("the saga had reached its end, or was being undone at record %d: ", end) + upTo(last))},
		"its goal":             {h: reached, o: machine.ForkOptions{At: 3}, want: at("the saga had reached its goal at record 3: " + upTo(2))},
		"cancelled":            {h: cancelled, o: machine.ForkOptions{At: 3}, want: at("the saga had reached its end, or was being undone at record 3: " + upTo(2))},
		"undone":               {h: failed, o: machine.ForkOptions{At: 7}, want: at("the saga had reached its end, or was being undone at record 7: " + upTo(5))},
		"of an undo":           {h: undo, want: at("no fork of this saga is possible: the saga undoes another one")},
		"effects":              {h: done, o: machine.ForkOptions{Effects: "some"}, want: []saga.Finding{{Pointer: "/effects", Code: "bad_fork", Detail: "effects must be hold, stub or real"}}},
		"input":                {h: done, o: machine.ForkOptions{Input: json.RawMessage(`{"n":"many"}`)}, want: []saga.Finding{{Pointer: "/input/n", Code: "type", Detail: "got string, want integer"}}},
		"an unknown step":      {h: done, o: given("each/~", "1", nil), want: stub("each~1~0", "unknown_step", "the definition has no step \"each/~\"")},
		"a path":               {h: done, o: given("each[7].pack", "1", nil)},
		"no outcome":           {h: done, o: given("ship", "", nil), want: stub("ship", "bad_stub", both)},
		"two outcomes":         {h: done, o: given("ship", "1", fails), want: stub("ship", "bad_stub", both)},
		"no code":              {h: done, o: given("ship", "", &saga.Failure{Title: "No."}), want: stub("ship", "bad_stub", named)},
		"no title":             {h: done, o: given("ship", "", &saga.Failure{Code: "no"}), want: stub("ship", "bad_stub", named)},
		"an error":             {h: done, o: given("ship", "", fails)},
		"another output":       {h: done, o: given("note", "1", nil), want: []saga.Finding{{Pointer: "/reason", Code: "missing_field", Detail: "the output of note is replaced, which had ended by then: say why in `reason`"}}},
		"with a reason":        {h: done, o: given("note", "1", nil), reason: "what if"},
		"an error for a done":  {h: done, o: given("note", "", fails), reason: "what if", want: stub("note", "bad_stub", replaced)},
		"of what was skipped":  {h: failed, o: given("skipped", "1", nil)},
		"of what comes in end": {h: reached, o: given("b", "1", nil)},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, wrong := c.h.m.BeginFork(c.o, c.h.records, machine.StartOptions{Reason: c.reason})
			if d := cmp.Diff(c.want, wrong, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// offered is a saga with two reads that become too old, an approval, and a step that is skipped at
// first.
const offered = `
saga: offer
steps:
  - {id: quote, http: "GET http://w/quote", fresh_for: 10m, on_change: ask}
  - {id: rate, http: "GET http://w/rate", fresh_for: 10m, on_change: ask}
  - {id: double, set: "${steps.quote.output * 2}"}
  - {id: ok, approval: {title: "Pay ${steps.double.output}?"}}
  - {id: bonus, when: steps.double.output > 20, http: "POST http://w/bonus", body: {}, compensate: none}
  - {id: charge, http: "POST http://w/charge", body: {amount: "${steps.double.output}", rate: "${steps.rate.output}"}, compensate: none}
`

// A fork that begins while answers are read again reads those again that were not known to be the
// same. If an answer had changed, the steps that were to run again begin again, and are held back.
func TestForkWhileReadingAgain(t *testing.T) {
	for name, c := range map[string]struct {
		quote, rate string // second answers in the original, where the first ones were 10; "": none yet
		again       bool   // the first steps have run again
		want        string // what the fork sends
		approved    string
		amount      string
	}{
		"neither has ended":     {want: "quote rate charge", approved: "charge", amount: "20"},
		"one is the same":       {quote: "10", want: "rate charge", approved: "charge", amount: "20"},
		"one has changed":       {quote: "12", want: "quote rate charge", approved: "charge", amount: "20"},
		"both are the same":     {quote: "10", rate: "10", want: "charge", approved: "charge", amount: "20"},
		"all begins again":      {quote: "12", rate: "10", want: "bonus charge", approved: "ok bonus charge", amount: "24"},
		"some have begun again": {quote: "12", rate: "10", again: true, want: "bonus charge", approved: "ok bonus charge", amount: "24"},
	} {
		t.Run(name, func(t *testing.T) {
			h := byHand(t, offered, "null")
			h.reply("quote", "200 10")
			h.reply("rate", "200 10")
			h.now = h.now.Add(time.Hour)
			h.must("ok", saga.Approve{Shown: h.m.Inbox()[0].ShownHash})
			at := len(h.records)
			for i, answer := range []string{c.quote, c.rate} {
				if path := []string{"quote", "rate"}[i]; answer != "" {
					at = len(h.records) + 1
					h.reply(path, "200 "+answer)
				}
			}
			if c.again {
				at = len(h.records)
			}
			f := h.fork(machine.ForkOptions{At: int64(at)})
			got := f.carryOn(map[string]string{"quote": "200 10", "rate": "200 10"})
			want := goesOn{sent: strings.Fields(c.want), approved: strings.Fields(c.approved)}
			if d := cmp.Diff(want, got, cmp.AllowUnexported(goesOn{}), cmpopts.EquateEmpty()); d != "" || f.m.Status() != saga.Succeeded {
				t.Errorf("%s (-want +got):\n%s%s", f.m.Status(), d, f.out.String())
			}
			if !strings.Contains(f.out.String(), `"body":{"amount":`+c.amount+`,"rate":10}`) {
				t.Errorf("not %s is charged\n%s", c.amount, f.out.String())
			}
			f.ownKeys()
		})
	}
}

// An answer that the fork has of its original is read again once it is too old, by one request.
func TestForkReadsAgain(t *testing.T) {
	h := byHand(t, offered, "null")
	h.reply("quote", "200 10")
	f := h.fork(machine.ForkOptions{At: 3}) // the record of the answer
	f.reply("rate", "200 10")
	f.must("ok", saga.Approve{Shown: f.m.Inbox()[0].ShownHash})
	f.now = f.now.Add(time.Hour)
	f.must("charge", saga.Approve{Shown: f.m.Inbox()[0].ShownHash})
	if got := f.m.InFlight(); len(f.open) != 2 || len(got) != 2 {
		t.Fatalf("in flight: %v\n%s", got, f.out.String())
	}
	f.reply("quote", "200 10")
	f.reply("rate", "200 10")
	f.reply("charge", "200 {}")
	if f.m.Status() != saga.Succeeded {
		t.Errorf("%s\n%s", f.m.Status(), f.out.String())
	}
}

// A step that was skipped in the original, and that the fork runs because an answer has changed, is
// the fork's to undo. It is undone after the steps that come after it.
func TestForkUndoesWhatRunsAgain(t *testing.T) {
	src := strings.ReplaceAll(offered, "compensate: none", `compensate: {http: "DELETE http://w/a"}`) + "  - {id: ship, http: \"POST http://w/ship\", body: {}, compensate: none}\n"
	h := byHand(t, src, "null")
	h.reply("quote", "200 10")
	h.reply("rate", "200 10")
	h.now = h.now.Add(time.Hour)
	h.must("ok", saga.Approve{Shown: h.m.Inbox()[0].ShownHash})
	skipped := slices.IndexFunc(h.records, func(r journal.Record) bool { return r.Kind == journal.Skipped })
	f := h.fork(machine.ForkOptions{At: h.records[skipped].Seq, Effects: saga.RealEffects})
	got := f.carryOn(map[string]string{"quote": "200 12", "rate": "200 10", "ship": "422 {}"})
	want := goesOn{sent: strings.Fields("quote rate bonus charge ship"), approved: []string{"ok"}, undone: strings.Fields("charge bonus")}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(goesOn{})); d != "" || f.m.Status() != saga.Compensated {
		t.Errorf("%s (-want +got):\n%s%s", f.m.Status(), d, f.out.String())
	}
}

// If an approval was being asked again in the original, the fork asks it, too, and then for the
// request that has waited for it, whether or not that was sent before.
func TestForkWhileAskedAgain(t *testing.T) {
	const steps = `
  - {id: ok, approval: {title: "Refund?", covers: [refund]}}
  - {id: rate, http: "GET http://w/rate"}
  - {id: refund, http: "POST http://w/refund", on_error: hold, body: {team: "${saga.labels?.team ?? 'none'}"}, compensate: none}
  - {id: tell, http: "POST http://w/tell", body: {}, compensate: none}
`
	for name, c := range map[string]struct {
		src, prefix string
		sent        bool // before, under another key
	}{
		"at the top":       {"saga: x\nsteps:" + steps, "", false},
		"at the top, sent": {"saga: x\nsteps:" + steps, "", true},
		"in a loop":        {"saga: x\nsteps:\n  - id: each\n    foreach: [a]\n    steps:" + strings.ReplaceAll(steps, "\n", "\n    "), "each[0].", false},
		"in a loop, sent":  {"saga: x\nsteps:\n  - id: each\n    foreach: [a]\n    steps:" + strings.ReplaceAll(steps, "\n", "\n    "), "each[0].", true},
	} {
		t.Run(name, func(t *testing.T) {
			h := byHand(t, c.src, "null")
			if !c.sent {
				h.must("", saga.Patch{Labels: map[string]string{"team": "blue"}})
			}
			h.must(c.prefix+"ok", saga.Approve{Shown: h.m.Inbox()[0].ShownHash})
			h.reply(c.prefix+"rate", "200 {}")
			if c.sent {
				h.reply(c.prefix+"refund", "402 {}")
				h.must(c.prefix+"refund", saga.Retry{NewKey: true})
			}
			if len(h.open) > 0 || len(h.m.Inbox()) != 1 {
				t.Fatalf("the approval is not asked again\n%s", h.out.String())
			}
			f := h.fork(machine.ForkOptions{})
			got := f.carryOn(nil)
			want := goesOn{approved: []string{c.prefix + "ok", c.prefix + "refund", c.prefix + "tell"}, sent: []string{c.prefix + "refund", c.prefix + "tell"}}
			if d := cmp.Diff(want, got, cmp.AllowUnexported(goesOn{})); d != "" || f.m.Status() != saga.Succeeded {
				t.Errorf("%s (-want +got):\n%s%s", f.m.Status(), d, f.out.String())
			}
			f.ownKeys()
		})
	}
}

// The start of a fork is refused if no program has written it.
func TestForkOfNothing(t *testing.T) {
	h := doubtful(t)
	for name, c := range map[string]struct {
		wrong func(*saga.StartedData)
		want  error
	}{
		"no id":            {func(d *saga.StartedData) { d.Fork.Of = "order-1" }, saga.ErrUnreadable},
		"no records":       {func(d *saga.StartedData) { d.Origin = nil }, machine.ErrImpossible},
		"its end":          {func(d *saga.StartedData) { d.Origin = h.records }, machine.ErrImpossible},
		"a record is lost": {func(d *saga.StartedData) { d.Origin = slices.Delete(slices.Clone(d.Origin), 3, 4) }, machine.ErrImpossible},
	} {
		data, _, wrong := h.m.BeginFork(machine.ForkOptions{}, h.records, machine.StartOptions{})
		if wrong != nil {
			t.Fatal(wrong)
		}
		c.wrong(&data)
		m := machine.New(h.def, uuid.Must(uuid.FromString("01920000-0000-7000-8000-000000000002")))
		if _, err := m.Append(m.Start(data), h.now, "n"); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// agentSession plays a session whose agent has called two actions with an effect, one of which is
// being undone, and has done a step itself. All else that it has begun has no outcome yet.
func agentSession(t *testing.T) *hand {
	t.Helper()
	h := sessionOf(t, saga.SessionData{Actions: []string{"refund@1", "book@1", "look@1", "drop@1"}, MaxParallel: 2}, sessionActions, nil)
	h.must("", saga.Attach{Token: "aa"}, callOf(1, "refund", "A"))
	h.reply("refund[0]", `200 {"id":1}`)
	h.must("", callOf(1, "look", "A"))
	h.reply("look[0]", `200 {"id":2}`)
	h.must("", saga.BeginStep{Life: 1, ID: "note", OwnData: ownSteps["note"]}, saga.FinishStep{Life: 1, ID: "note", Attempt: 1, Status: saga.OwnSucceeded})
	h.must("", saga.BeginStep{Life: 1, ID: "file", OwnData: ownSteps["file"]})
	h.must("", callOf(1, "book", "A"), callOf(1, "refund", "B"), callOf(1, "refund", "C")) // C waits for the others
	h.must("refund[0]", saga.UndoCall{})
	h.must("", saga.AskModel{Life: 1, Identity: "q", Input: json.RawMessage(question)})
	if len(h.open) != 4 {
		t.Fatalf("%v\n%s", h.open, h.out.String())
	}
	return h
}

func callOf(life int, action, order string) saga.CallAction {
	return saga.CallAction{Life: life, Action: action, Input: json.RawMessage(`{"order":"` + order + `"}`)}
}

// A fork of a session has the steps that had an outcome. The agent begins the others again, as new
// ones. What the session was about to undo is the original's.
func TestForkOfASession(t *testing.T) {
	const ended = "refund[0] succeeded, look[0] succeeded, own.note succeeded, book[0] failed forked, refund[1] failed forked, refund[2] failed forked, llm[0] failed forked"
	h := agentSession(t)
	for _, effects := range []saga.Effects{saga.HoldEffects, saga.RealEffects} {
		t.Run(string(effects), func(t *testing.T) {
			f := h.fork(machine.ForkOptions{Effects: effects})
			views, err := machine.Steps(f.m, f.records)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range views {
				text := v.Path + " " + string(v.Status)
				if v.Error != nil {
					text += " " + v.Error.Code
				}
				if got = append(got, text); v.ReusedFrom != h.m.ID().String() {
					t.Errorf("%s is reused from %q", v.Path, v.ReusedFrom)
				}
			}
			if d := cmp.Diff(strings.Split(ended, ", "), got); d != "" || len(f.open)+len(f.m.InFlight())+len(f.m.Inbox()) > 0 || f.m.Status() != saga.Waiting {
				t.Errorf("%s, in flight %v (-want +got):\n%s", f.m.Status(), f.m.InFlight(), d)
			}
			f.must("", saga.Attach{Token: "aa"})
			for _, c := range []struct {
				do   saga.Operation
				path string
				want string // the path that answers, "new", or the code of a refusal
			}{
				{do: callOf(2, "refund", "A"), want: "refund[0]"},
				{do: callOf(2, "look", "A"), want: "look[0]"},
				{do: callOf(2, "book", "A"), want: "new"},
				{do: callOf(1, "refund", "A"), want: "superseded"},
				{do: saga.BeginStep{Life: 2, ID: "note", OwnData: ownSteps["note"]}},
				{do: saga.BeginStep{Life: 2, ID: "file", OwnData: ownSteps["file"]}, want: map[saga.Effects]string{saga.HoldEffects: "fork_holds", saga.RealEffects: "new"}[effects]},
				{do: saga.UndoCall{}, path: "refund[0]", want: "nothing_to_undo"},
				{do: saga.AskModel{Life: 2, Identity: "q", Input: json.RawMessage(question)}, want: "new"},
			} {
				path, pending, no := f.m.Ask(uuid.Nil, saga.Command{Do: c.do, Path: c.path})
				if pending {
					path = "new"
				} else if no != nil {
					path = no.Code
				}
				if path != c.want {
					t.Errorf("%+v %s: %s, want %s", c.do, c.path, path, c.want)
				}
			}

			f.must("", callOf(2, "book", "A"), callOf(2, "refund", "B"), callOf(2, "refund", "C"))
			f.must("", saga.AskModel{Life: 2, Identity: "q", Input: json.RawMessage(question)})
			f.reply("llm[1]", "500 {}")
			undone := strings.Fields("refund[4] refund[3] book[1]")
			if effects == saga.RealEffects {
				f.must("", saga.BeginStep{Life: 2, ID: "file", OwnData: ownSteps["file"]}, saga.FinishStep{Life: 2, ID: "file", Attempt: 1, Status: saga.OwnSucceeded})
				undone = strings.Fields("refund[4] own.file refund[3] book[1]")
			}
			for _, e := range f.m.Inbox() {
				f.must(e.Path, saga.Approve{Shown: e.ShownHash})
			}
			for len(f.open) > 0 {
				f.reply(f.open[0].Path, "200 {}")
			}
			f.must("", saga.Cancel{})
			if did := f.carryOn(nil); !slices.Equal(did.undone, undone) || f.m.Status() != saga.Compensated {
				t.Errorf("%s, undone %v, want %v\n%s", f.m.Status(), did.undone, undone, f.out.String())
			}
			f.ownKeys()
		})
	}
}

// With stubs, a call of a fork gets the outcome that the call of the same identity has had in the
// original, or the one that is given for its action. Another call is refused.
func TestForkOfASessionTakesStubs(t *testing.T) {
	h := agentSession(t)
	h.reply("llm[0]", "500 {}")
	h.reply("book[0]", `200 {"id":3}`)
	h.reply("refund[1]", "400 {}")
	h.reply("refund[2]", "timeout")
	for name, c := range map[string]struct {
		stubs map[string]saga.Stub
		want  []string
	}{
		"recorded": {nil, []string{`succeeded {"id":1}`, `succeeded {"id":3}`, "failed http_400", "no_stub", "no_stub"}},
		"given":    {map[string]saga.Stub{"refund": {Output: json.RawMessage("7")}}, []string{"succeeded 7", `succeeded {"id":3}`, "succeeded 7", "succeeded 7", "no_stub"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := h.fork(machine.ForkOptions{At: 2, Effects: saga.StubEffects, Stubs: c.stubs})
			f.must("", saga.Attach{Token: "bb"})
			var got []string
			for i, call := range []saga.CallAction{callOf(2, "refund", "A"), callOf(2, "book", "A"), callOf(2, "refund", "B"), callOf(2, "refund", "C"), callOf(2, "drop", "A")} {
				if call.Action == "drop" {
					call.Input = json.RawMessage(`{"id":"A"}`)
				}
				err := f.do(saga.Command{Do: call})
				if no, ok := errors.AsType[*machine.Refusal](err); ok {
					got = append(got, no.Code)
					continue
				} else if err != nil {
					t.Fatal(err)
				}
				views, err := machine.Steps(f.m, f.records)
				if err != nil {
					t.Fatal(err)
				}
				v := views[len(views)-1]
				if text := string(v.Status) + " "; v.Error != nil {
					got = append(got, text+v.Error.Code)
				} else {
					got = append(got, text+string(v.Output))
				}
				if !v.Stubbed {
					t.Errorf("call %d: %+v", i, v)
				}
			}
			f.must("", callOf(2, "look", "A"), saga.AskModel{Life: 2, Identity: "q", Input: json.RawMessage(question)})
			if d := cmp.Diff(c.want, got); d != "" || len(f.open) != 2 {
				t.Errorf("%d requests are sent (-want +got):\n%s", len(f.open), d)
			}
		})
	}
	_, _, wrong := h.m.BeginFork(machine.ForkOptions{Stubs: map[string]saga.Stub{"mail": {Output: json.RawMessage("1")}, "book": {Output: json.RawMessage("1")}}}, h.records, machine.StartOptions{})
	want := []saga.Finding{{Pointer: "/stubs/mail", Code: "unknown_action", Detail: `the session has no action "mail"; its actions are "book", "drop", "look", "refund"`}}
	if d := cmp.Diff(want, wrong); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
