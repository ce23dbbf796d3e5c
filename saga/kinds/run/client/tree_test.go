package client_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"recourse/engine"
	"recourse/saga"
	"recourse/saga/machine"
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

// The end of the first attempt to undo a child is not known, and the child is undone before the
// second one: the parent books what the child has cost all the same, and keeps nothing reserved. A
// look at the child that fails before that frees nothing.
func TestUndoneChildIsBooked(t *testing.T) {
	for name, answer := range map[string]saga.Answer{
		"lost":      {Sent: true, Code: "connection", Detail: "lost"},
		"not asked": {Code: "not_started", Detail: "the child could not be read"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, spender+"finally:\n  - {id: tell, http: \"POST http://w/tell\", body: {}, cost: 0.01 USD}\n",
				"saga: payer\nbudget: 0.20 USD\nsteps:\n  - {id: one, run: spender, budget: 0.10 USD}\n  - {id: no, http: \"POST http://w/no\", body: {}}\n")
			r.world.stop["POST no"] = true
			r.stop()
			var asked atomic.Int64
			r.bootWith(r.store, func(c engine.Caller) engine.Caller {
				return callerFunc(func(ctx context.Context, req saga.Request) saga.Answer {
					if !req.Child.Revert || asked.Add(1) > 1 {
						return c.Call(ctx, req)
					}
					if answer.Sent {
						c.Call(ctx, req)
					}
					return answer
				})
			})
			id := r.start("payer", "null")
			if !answer.Sent {
				r.await(id, "after the first attempt", func(*machine.Machine) bool { return asked.Load() == 1 })
				r.await(id, "in backoff", func(m *machine.Machine) bool { return m.Cost().Reserved == "0.05" })
			}
			c := r.ends(id, saga.Compensated).Cost()
			if c.Spent != "0.06" || c.Children.Spent != "0.06" || strings.Trim(c.Reserved, "0.") != "" {
				t.Errorf("cost %+v, of it children %+v", c, c.Children)
			}
		})
	}
}

type callerFunc func(ctx context.Context, r saga.Request) saga.Answer

func (f callerFunc) Call(ctx context.Context, r saga.Request) saga.Answer { return f(ctx, r) }
