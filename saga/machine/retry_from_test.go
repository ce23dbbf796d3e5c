package machine_test

import (
	"testing"

	"recourse/saga"
)

// A step whose undo was sent, with an unknown result, and was then skipped may be undone: its
// outcome is not taken over. One whose undo was surely without effect stands.
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
		plan := p.m.PlanRetry("ship")
		got := ""
		if len(plan.Refused) > 0 {
			got = plan.Refused[0].Code
		}
		if got != code {
			t.Errorf("%s: %+v, want %q", answer, plan, code)
		}
	}
}
