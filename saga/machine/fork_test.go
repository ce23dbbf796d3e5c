package machine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

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

// carryOn answers what a saga sends, with an error for one step, approves what it asks for, and
// sends the signal that it waits for.
func (h *hand) carryOn(fails string) (did goesOn) {
	h.t.Helper()
	for range 200 {
		inbox := h.m.Inbox()
		switch {
		case len(h.open) > 0:
			s := h.open[0]
			answer := `200 {"id":"` + s.Path + `"}`
			switch {
			case s.Way == journal.Undo:
				did.undone = append(did.undone, s.Path)
			default:
				did.sent = append(did.sent, s.Path)
				if s.Path == fails {
					answer = "422 {}"
				}
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

// without returns a list without the items of another one.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}

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
	h.carryOn("")
	if h.m.Status() != saga.Succeeded {
		t.Fatalf("%s\n%s", h.m.Status(), h.out.String())
	}
	return h
}

// hadOutcome lists the steps that have succeeded by these records.
func hadOutcome(t *testing.T, records []journal.Record) (paths []string) {
	t.Helper()
	for _, r := range records {
		var d struct {
			Next    saga.Next
			Outcome string
		}
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
				got := f.carryOn(fails)
				if d := cmp.Diff(want, got, cmp.AllowUnexported(goesOn{}), cmpopts.EquateEmpty()); d != "" || f.m.Status() != status {
					t.Errorf("after record %d, %s, %q fails: %s (-want +got):\n%s", at, effects, fails, f.m.Status(), d)
				}
				if v, was := f.m.View(), h.m.View(); fails == "" && string(v.Output) != string(was.Output) || v.ForkedFrom != was.ID || v.ForkedAt != at || v.Effects != effects {
					t.Errorf("after record %d, %s: %+v", at, effects, v)
				}
				for _, r := range f.records {
					if r.Kind == journal.Intent && r.Attempt > 0 && r.Key != idempotency.Key(f.m.ID(), r.Path, r.Way, r.Generation) {
						t.Errorf("after record %d, %s: record %d has the key %s", at, effects, r.Seq, r.Key)
					}
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
	h.write(h.m.Reject(parentUUID(t), c, &machine.Refusal{Failure: saga.Failure{Code: "no", Title: "No."}}))
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
	did := f.carryOn("")
	if s := f.m.Status(); s != saga.Compensated || !slices.Equal(did.sent, []string{"look"}) || did.undone != nil {
		t.Errorf("%s, %+v\n%s", s, did, f.out.String())
	}
}

func parentUUID(t *testing.T) uuid.UUID {
	t.Helper()
	return uuid.Must(uuid.FromString(parentID))
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
