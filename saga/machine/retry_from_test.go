package machine_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"

	"recourse/saga"
	"recourse/saga/machine"
)

// A step whose undo was sent, with an unknown result, and was then skipped may be undone: its
// outcome is not taken over, and it does not run again. One whose undo was surely without effect
// stands.
func TestRetryAfterAnUndoInDoubt(t *testing.T) {
	for answer, code := range map[string]string{"timeout": "undo_in_doubt", `422 {}`: ""} {
		p := play(t, map[string]string{
			"definition": `saga: order
steps:
  - id: charge
    http: POST ${vars.pay}/charges
    in_doubt: retry
    compensate: {http: "DELETE ${vars.pay}/charges/1", in_doubt: ask}
  - id: ship
    http: POST ${vars.pay}/orders
    in_doubt: retry
`,
			"input": "null",
			"script": `ship do: 422 {}
charge undo: ` + answer + `
order: {"command":"resolve","path":"charge","outcome":"skip","reason":"it may stay"}
`,
		})
		if p.m.Status() != saga.Failed {
			t.Fatalf("%s: %s\n%s", answer, p.m.Status(), p.out.String())
		}
		for from, code := range map[string]string{"ship": code, "charge": cmp.Or(code, "effect_stays")} {
			plan := p.m.PlanRetry(from)
			got := ""
			if len(plan.Refused) > 0 {
				got = plan.Refused[0].Code
			}
			if got != code {
				t.Errorf("%s, from %s: %+v, want %q", answer, from, plan, code)
			}
		}
	}
}

// The undo of an effect that is taken over must not be rendered with what a step that runs again
// gives: it would undo another effect than the one that is there.
func TestRetryWithAnUndoThatWouldChange(t *testing.T) {
	for name, c := range map[string]struct{ between, seat, undo, code string }{
		"it reads the step":   {"", "", "DELETE ${vars.pay}/holds/${steps.hold.output.id}/seat", "undo_changes"},
		"through a set":       {`{id: at, set: "${steps.hold.output.id}"}`, "", "DELETE ${vars.pay}/holds/${steps.at.output}/seat", "undo_changes"},
		"it reads its status": {"", "", "DELETE ${vars.pay}/${steps.hold.status}", "undo_changes"},
		"it reads its output": {"", "", "DELETE ${vars.pay}/seats/${output.id}", ""},
		"only `when` reads":   {"", `, when: steps.hold.output.id == 1`, "DELETE ${vars.pay}/seats/1", "undo_changes"},
	} {
		p := play(t, map[string]string{
			"definition": `saga: travel
steps:
  - id: hold
    http: POST ${vars.pay}/holds
    compensate: {http: "DELETE ${vars.pay}/holds/${output.id}"}
  - ` + cmp.Or(c.between, `{id: none, set: 1}`) + `
  - id: seat
    http: POST ${vars.pay}/holds/${steps.hold.output.id}/seat
    compensate: {http: "` + c.undo + `"` + c.seat + `}
  - id: pay
    http: POST ${vars.pay}/payments
`,
			"input": "null",
			"script": `hold do: 201 {"id":1}
seat do: 201 {"id":2}
pay do: 422 {}
seat undo: 409 {}
order: {"command":"resolve","path":"seat","outcome":"skip","reason":"it may stay"}
`,
		})
		if p.m.Status() != saga.Failed {
			t.Fatalf("%s: %s\n%s", name, p.m.Status(), p.out.String())
		}
		plan := p.m.PlanRetry("pay")
		got := ""
		if len(plan.Refused) > 0 {
			got = plan.Refused[0].Code
		}
		if got != c.code || got != "" && plan.Refused[0].Path != "seat" {
			t.Errorf("%s: %+v, want %q", name, plan, c.code)
		}
	}
}

// An approval that covers a step which runs again is asked again, and its next answer may be
// another one: the undo of an effect must not read that either.
func TestRetryWithAnUndoThatReadsAnApproval(t *testing.T) {
	for covers, code := range map[string]string{"": "", ", covers: [pay]": "undo_changes", ", covers: [bill]": "undo_changes"} {
		p := play(t, map[string]string{
			"definition": `saga: travel
steps:
  - id: ok
    approval: {title: "Well?"` + covers + `}
  - id: seat
    http: POST ${vars.pay}/seats
    compensate: {http: "DELETE ${vars.pay}/seats/${steps.ok.output.by}"}
  - id: bill
    http: POST ${vars.pay}/bills
    compensate: {http: "DELETE ${vars.pay}/bills"}
  - id: pay
    http: POST ${vars.pay}/payments
`,
			"input": "null",
			"script": `order: {"command":"approve","path":"ok","actor":"ann","role":"approver","shown":"$shown"}
pay do: 422 {}
seat undo: 409 {}
order: {"command":"resolve","path":"seat","outcome":"skip","reason":"it may stay"}
`,
		})
		plan := p.m.PlanRetry("pay")
		got := ""
		if len(plan.Refused) > 0 {
			got = plan.Refused[0].Code
		}
		if p.m.Status() != saga.Failed || got != code {
			t.Errorf("%s: %s, %+v, want %q", covers, p.m.Status(), plan, code)
		}
	}
}

// The steps from which a saga can go on are those of the plans, and finding the last ones of a long
// definition does not take a plan for each of its steps.
func TestRetrySteps(t *testing.T) {
	var long strings.Builder
	long.WriteString("saga: long\nsteps:\n")
	for i := range 900 {
		fmt.Fprintf(&long, "  - {id: s%d, set: %d}\n", i, i)
	}
	long.WriteString("  - {id: never, fail: it is too much}\n  - {id: after, set: 1}\n")
	const charged = `saga: charged
steps:
  - {id: a, set: 1}
  - id: charge
    http: POST ${vars.pay}/charges
    in_doubt: retry
    compensate: {http: "DELETE ${vars.pay}/charges/1", in_doubt: ask}
  - {id: b, set: 1}
  - {id: c, http: "GET ${vars.pay}/c/${steps.charge.status}"}
  - {id: d, http: "POST ${vars.pay}/d", in_doubt: retry, compensate: none}
`
	for name, c := range map[string]struct {
		definition, script string
		want               int // steps
	}{
		"nothing has an effect": {long.String(), "", 900},
		"it was undone":         {charged, "c do: 422 {}\n", 3},
		"it stays":              {charged, "c do: 422 {}\ncharge undo: 422 {}\norder: {\"command\":\"resolve\",\"path\":\"charge\",\"outcome\":\"skip\",\"reason\":\"it may stay\"}\n", 2},
		"the last one stays":    {charged, "d do: 422 {}\n", 4},
		"all have happened":     {charged, "d do: order {\"command\":\"cancel\"} then 200 {}\n", 0},
		"nothing is taken over": {"saga: one\nsteps:\n  - {id: a, http: POST https://pay.example/a, body: {}, compensate: {http: DELETE https://pay.example/a}}\n  - {id: b, fail: no}\n", "", 0},
		"a child stays":         {"saga: one\nsteps:\n  - {id: a, set: 1}\n  - {id: kid, run: child, compensate: none}\n  - {id: b, fail: no}\n", "", 0},
	} {
		m := play(t, map[string]string{"definition": c.definition, "input": "null", "script": c.script}).m
		var want []string
		for _, s := range m.Definition().Steps {
			if p := m.PlanRetry(s.ID); p.Refused == nil && len(p.Reused) > 0 {
				want = append(want, s.ID)
			}
		}
		if got := m.RetrySteps(1000); len(want) != c.want || !slices.Equal(got, want) {
			t.Errorf("%s (%s): %d steps %v, want %d %v", name, m.Status(), len(got), got, c.want, want)
		}
		const most = 20
		if got := m.RetrySteps(most); !slices.Equal(got, want[max(len(want)-most, 0):]) {
			t.Errorf("%s: %v", name, got)
		}
		one := testing.AllocsPerRun(1, func() { m.PlanRetry(m.Definition().Steps[len(want)].ID) })
		if all := testing.AllocsPerRun(1, func() { m.RetrySteps(most) }); all > 2*most*one {
			t.Errorf("%s: %v allocations, and one plan has %v", name, all, one)
		}
	}
}

// goOn plays another saga of the same definition, which begins with data.
func (h *hand) goOn(data saga.StartedData) *hand {
	h.t.Helper()
	next := &hand{player: &player{t: h.t, def: h.def, now: h.now}}
	next.m = machine.New(h.def, uuid.Must(uuid.FromString("01920000-0000-7000-8000-000000000002")))
	next.write(next.m.Start(data))
	next.run()
	return next
}

// fork plays a fork of the saga.
func (h *hand) fork(f machine.ForkOptions) *hand {
	h.t.Helper()
	data, _, wrong := h.m.BeginFork(f, h.records, machine.StartOptions{})
	if wrong != nil {
		h.t.Fatal(wrong)
	}
	return h.goOn(data)
}

// A saga that goes on from a step of another one does what follows, and undoes what that one has
// done.
func TestRetryGoesOn(t *testing.T) {
	const src = `
saga: order
steps:
  - {id: look, http: "GET http://w/look"}
  - {id: charge, http: "POST http://w/charges", body: {}, compensate: {http: "DELETE http://w/charges/${output.id}"}}
  - {id: note, set: "${steps.charge.output.id}"}
  - {id: ship, http: "POST http://w/ship", body: {note: "${steps.note.output}"}}
  - {id: tell, http: "POST http://w/tell", body: {}}
`
	h := byHand(t, src, "null")
	h.reply("look", "200 {}")
	h.reply("charge", `201 {"id":"c_1"}`)
	h.reply("ship", "422 {}")
	key := h.open[0].Key
	h.reply("charge", "409 {}")
	h.must("charge", saga.Resolve{Outcome: "skip"})
	plan := h.m.PlanRetry("ship")
	if !slices.Equal(plan.Reused, []string{"look", "charge", "note"}) {
		t.Fatalf("%+v", plan)
	}
	data, _, wrong := h.m.BeginRetry(plan, h.records, machine.StartOptions{})
	if wrong != nil {
		t.Fatal(wrong)
	}
	for answer, want := range map[string]saga.Status{"200 {}": saga.Succeeded, "422 {}": saga.Compensated} {
		again := h.goOn(data)
		if s := again.open; len(s) != 1 || s[0].Path != "ship" || string(s[0].Request.Body) != `{"note":"c_1"}` {
			t.Fatalf("%+v\n%s", s, again.out.String())
		}
		again.reply("ship", answer)
		switch want {
		case saga.Succeeded:
			again.reply("tell", "200 {}")
		case saga.Compensated:
			if s := again.open[0]; s.Key != key || !strings.HasSuffix(s.Request.URL, "/c_1") {
				t.Errorf("undone by %+v, want the key %s", s, key)
			}
			again.reply("charge", "200 {}")
		}
		if s := again.m.Status(); s != want {
			t.Errorf("%s, want %s\n%s", s, want, again.out.String())
		}
	}
}

// A fork publishes an event once a person has approved it, and asks again if another one would be
// published by then.
func TestForkAsksForTheEvent(t *testing.T) {
	h := byHand(t, "saga: x\nsteps:\n  - {id: go, signal: go}\n  - {id: said, emit: order.packed, to: [bus], data: {team: \"${saga.labels?.team ?? 'none'}\"}}\n", "null")
	for _, changes := range []bool{false, true} {
		f := h.fork(machine.ForkOptions{Effects: saga.HoldEffects})
		f.must("", saga.Signal{Name: "go"}, saga.Pause{})
		f.must("said", saga.Approve{Shown: f.m.Inbox()[0].ShownHash})
		if changes {
			f.must("", saga.Patch{Labels: map[string]string{"team": "blue"}})
		}
		f.must("", saga.Resume{})
		if asked := len(f.m.Inbox()) > 0; asked != changes {
			t.Errorf("the event changes: %v, and it is asked again: %v\n%s", changes, asked, f.out.String())
		}
		if changes {
			f.must("said", saga.Approve{Shown: f.m.Inbox()[0].ShownHash})
		}
		if s := f.m.Status(); s != saga.Succeeded {
			t.Errorf("the event changes: %v: %s\n%s", changes, s, f.out.String())
		}
	}
}
