package client_test

import (
	"strings"
	"testing"

	"recourse/saga"
)

const spender = `saga: spender
steps:
  - {id: a, http: "POST http://w/a", body: {}, cost: 0.03 USD, compensate: {http: "DELETE http://w/a"}}
  - {id: b, http: "POST http://w/b", body: {}, cost: 0.02 USD, compensate: {http: "DELETE http://w/b"}}
`

// What children spend counts for their parent, and a child is refused what its parent has not
// reserved for it.
func TestOneBudget(t *testing.T) {
	for name, tt := range map[string]struct {
		steps, spent, children string
		status                 saga.Status
	}{
		"all that is left": {"  - {id: one, run: spender}", "0.06", "0.05", saga.Succeeded},
		"a part":           {"  - {id: one, run: spender, budget: 0.05 USD}", "0.06", "0.05", saga.Succeeded},
		"too small a part": {"  - {id: one, run: spender, budget: 0.04 USD}", "0.04", "0.03", saga.Compensated},
		"twice":            {"  - {id: one, run: spender}\n  - {id: two, run: spender, on_error: continue}", "0.09", "0.08", saga.Succeeded},
		"one after another": {"  - {id: both, parallel: [{id: one, run: spender}, {id: two, run: spender, on_error: continue}]}", "0.09", "0.08",
			saga.Succeeded},
		"too large a part": {"  - {id: one, run: spender, budget: 0.10 USD}", "0.01", "", saga.Compensated},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, spender, "saga: payer\nbudget: 0.10 USD\nsteps:\n  - {id: own, http: \"POST http://w/own\", body: {}, cost: 0.01 USD, compensate: {http: \"DELETE http://w/own\"}}\n"+tt.steps)
			m := r.ends(r.start("payer", "null"), tt.status)
			c := m.Cost()
			children := ""
			if c.Children != nil {
				children = c.Children.Spent
			}
			if c.Spent != tt.spent || children != tt.children || strings.Trim(c.Reserved, "0.") != "" || c.Own().Spent != "0.01" {
				t.Errorf("cost %+v, of it children %s; want %s, %s", c, children, tt.spent, tt.children)
			}
			if tt.status == saga.Compensated && m.Reason().Error != "budget_exhausted" {
				t.Errorf("reason %+v", m.Reason())
			}
		})
	}
}
