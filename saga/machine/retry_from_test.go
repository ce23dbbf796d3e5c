package machine_test

import (
	"cmp"
	"testing"

	"recourse/saga"
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
