package machine_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/saga"
	"recourse/saga/machine"
)

// A task that is sent again to settle a doubt, before undoing, is not unwanted.
func TestSettlingTaskIsWanted(t *testing.T) {
	h := byHand(t, `
saga: x
steps:
  - {id: a, task: work, retry: 3, in_doubt: retry, compensate: {http: "DELETE http://w/${output.id}"}}
`, "null")
	lost := saga.TaskResult{Outcome: "expired"}
	s := h.open[0]
	h.open = nil
	r, err := h.m.RecordOutcome(s.Path, s.Way, s.Attempt, lost.Answer(), h.now, 1<<63)
	if err != nil {
		t.Fatal(err)
	}
	h.write(r)
	if err := h.do(saga.Command{Do: saga.Cancel{}}); err != nil {
		t.Fatal(err)
	}
	h.wait()
	if len(h.open) != 1 {
		t.Fatalf("not sent again\n%s", h.out.String())
	}
	if u := h.m.Unwanted(); len(u) > 0 {
		t.Errorf("the attempt that settles the doubt is withdrawn: %v\n%s", u, h.out.String())
	}
}

// A doubt that a person is to decide is not forgotten because another branch has failed.
func TestAskedDoubtForgotten(t *testing.T) {
	h := byHand(t, `
saga: x
steps:
  - id: both
    on_error: continue
    parallel:
      - {id: pay, http: "POST http://w/pay", body: {}, in_doubt: ask, compensate: none}
      - {id: b, http: "POST http://w/b", body: {}, compensate: none}
`, "null")
	h.reply("pay", "timeout")
	if h.m.Status() != saga.Stuck || len(h.m.Inbox()) != 1 {
		t.Fatal(h.m.Status())
	}
	h.reply("b", "422 {}")
	t.Logf("%s residual %v", h.m.Status(), h.m.Residual())
	if h.m.Status() == saga.Succeeded {
		t.Errorf("the doubt about pay is forgotten\n%s", h.out.String())
	}
}

func TestStuckWithoutInbox(t *testing.T) {
	h := byHand(t, `
saga: x
steps:
  - id: both
    parallel:
      - {id: pay, http: "POST http://w/pay", body: {}, in_doubt: ask, compensate: {http: "DELETE http://w/${output.id}"}}
      - {id: b, http: "POST http://w/b", body: {}, compensate: none}
      - {id: c, http: "POST http://w/c", body: {}, compensate: none}
`, "null")
	h.reply("pay", "timeout")
	asks := h.m.InboxRevision()
	h.reply("b", "422 {}")
	t.Logf("status %s inbox %d asks changed %v", h.m.Status(), len(h.m.Inbox()), asks != h.m.InboxRevision())
	if h.m.Status() == saga.Stuck && len(h.m.Inbox()) == 0 {
		t.Errorf("stuck, but the inbox is empty")
	}
}

// Items leave the inbox because another branch has failed, or because the saga has. A caller that
// compares revisions notices that, although other attempts are still in flight: the revision is one
// that the inbox has not had before.
func TestInboxRevision(t *testing.T) {
	const (
		parallel = "steps:\n  - id: both\n    on_error: continue\n    parallel:\n"
		asks     = "      - {id: ok, approval: {title: Yes?}}\n"
		later    = "      - id: then\n        switch:\n          - when: \"true\"\n            steps:\n              - {id: x, http: \"GET http://w/x\"}\n              - {id: ok2, approval: {title: Yes?}}\n"
		dear     = "      - {id: dear, http: \"POST http://w/dear\", body: {}, cost: 0.20 USD}\n"
		fails    = "      - {id: y, http: \"POST http://w/y\", body: {}, compensate: none}\n"
		flies    = "      - {id: z, http: \"POST http://w/z\", body: {}, compensate: none}\n"
		each     = "steps:\n  - id: each\n    on_error: continue\n    foreach: [0, 1, 2, 3]\n    max_parallel: 4\n    output: ${steps.y.output.id}\n    steps:\n" +
			"      - {id: x, http: \"GET http://w/x\"}\n      - {id: ok, when: index < 2, approval: {title: Yes?}}\n" + fails
	)
	reply := func(path, answer string) func(*hand) { return func(h *hand) { h.reply(path, answer) } }
	for name, c := range map[string]struct {
		src string
		do  []func(*hand)
	}{
		"the timeout passes":         {"timeout: 1h\n" + parallel + asks + later + flies, []func(*hand){reply("x", "200 {}"), func(h *hand) { h.wait() }}},
		"the saga is cancelled":      {parallel + asks + later + flies, []func(*hand){reply("x", "200 {}"), func(h *hand) { h.must("", saga.Cancel{}) }}},
		"a branch fails":             {parallel + asks + later + fails + flies, []func(*hand){reply("x", "200 {}"), reply("y", "422 {}")}},
		"a branch waits for a raise": {"budget: {amount: 0.10 USD, on_exceed: ask}\n" + parallel + dear + fails + flies, []func(*hand){reply("y", "422 {}")}},
		"an output cannot be evaluated": {each, []func(*hand){reply("each[0].x", "200 {}"), reply("each[1].x", "200 {}"), reply("each[2].x", "200 {}"),
			reply("each[3].x", "200 {}"), reply("each[2].y", "201 {}")}},
	} {
		t.Run(name, func(t *testing.T) {
			h := byHand(t, "saga: x\n"+c.src, "null")
			seen := make(map[any]bool)
			for _, do := range c.do {
				seen[h.m.InboxRevision()] = true
				if do(h); len(h.open) == 0 {
					t.Fatalf("nothing is in flight\n%s", h.out.String())
				}
			}
			if n := len(h.m.Inbox()); n > 0 || seen[h.m.InboxRevision()] {
				t.Errorf("%d entries, and a revision of before: %v\n%s", n, seen[h.m.InboxRevision()], h.out.String())
			}
		})
	}
}

func TestBudgetCost(t *testing.T) {
	for _, n := range []int{250, 500, 1000} {
		items := make([]int, n)
		in, _ := json.Marshal(map[string]any{"items": items})
		src := `
saga: x
budget: 1.00 USD
input: {items: [integer]}
steps:
  - id: many
    foreach: ${input.items}
    max_parallel: 1000
    steps:
      - {id: g, http: "POST http://w/g", body: {a: "${item}", b: "x${index}"}, cost: {from: result.body.cost, reserve: 0.90 USD}, compensate: none}
`
		began := time.Now()
		h := byHand(t, src, string(in))
		for k := 0; len(h.open) > 0; k++ {
			h.reply(h.open[0].Path, `200 {"cost":0}`)
			h.m.Status()
			h.m.InboxRevision()
			h.m.WakeAt()
			if time.Since(began) > 60*time.Second {
				t.Fatalf("%d items: %d done after a minute", n, k)
			}
		}
		t.Logf("%d items: %v, %s", n, time.Since(began), h.m.Status())
	}
}

func (h *hand) wait() bool {
	var first *machine.WakeAt
	for _, d := range h.m.Decide() {
		if w, ok := d.(machine.WakeAt); ok && (first == nil || w.At.Before(first.At)) {
			first = &w
		}
	}
	if first == nil {
		return false
	}
	if first.At.After(h.now) {
		h.now = first.At
	}
	h.write(first.Woke)
	h.run()
	return true
}

func (h *hand) do(c saga.Command) error {
	h.message++
	r, err := h.m.Validate(uuid.NewV5(h.m.ID(), fmt.Sprint(h.message)), c)
	if err != nil {
		return err
	}
	h.write(r)
	h.run()
	return nil
}

// A failing saga waits for the status check of a step in doubt. If that needs other credentials,
// the saga is stuck, and the inbox says why.
func TestStuckByAStatusCheck(t *testing.T) {
	const src = `
saga: x
timeout: 1h
steps:
  - id: both
    parallel:
      - id: pay
        http: POST http://w/pay
        body: {}
        in_doubt: {verify: {http: "GET http://w/pay", found: result.body.found}, otherwise: ask}
        compensate: {http: "DELETE http://w/pay"}
      - {id: b, http: "POST http://w/b", body: {}, compensate: none}
`
	for name, do := range map[string]func(*hand){
		"a branch fails":     func(h *hand) { h.reply("b", "422 {}") },
		"the timeout passes": func(h *hand) { h.wait(); h.reply("b", "422 {}") },
	} {
		t.Run(name, func(t *testing.T) {
			h := byHand(t, src, "null")
			h.reply("pay", "500 {}")
			h.wait()
			h.reply("pay.verify", "401 {}")
			do(h)
			if n := len(h.m.Inbox()); h.m.Status() != saga.Stuck || n != 1 {
				t.Errorf("%s, %d entries\n%s", h.m.Status(), n, h.out.String())
			}
			h.must("pay", saga.Resolve{Outcome: "retry"})
			h.reply("pay.verify", `200 {"found":true}`)
			h.reply("pay", "200 {}")
			if s := h.m.Status(); s != saga.Compensated {
				t.Errorf("%s\n%s", s, h.out.String())
			}
		})
	}
}
