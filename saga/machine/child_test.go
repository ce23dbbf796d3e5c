package machine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// A step that runs a saga asks for the same saga until a person lets it start another one, and says
// how deep that saga is.
func TestWhichChild(t *testing.T) {
	p := byHand(t, "saga: top\nsteps:\n  - {id: pay, http: \"POST http://w/pay\", body: {}, pivot: true}\n  - {id: kid, run: kid}\n", "null")
	p.reply("pay", "200 {}")
	if p.m.IsChild() {
		t.Error("the outermost saga is a child")
	}
	one := *p.open[0].Request.Child
	p.report("kid", journal.Do, &saga.TaskResult{Outcome: saga.TaskFailed, Error: &saga.Failure{Code: "no", Title: "no"}})
	p.must("kid", saga.Retry{})
	if same := *p.open[0].Request.Child; same.Saga != one.Saga {
		t.Errorf("a retry asks for %s, not for %s", same.Saga, one.Saga)
	}
	p.report("kid", journal.Do, &saga.TaskResult{Outcome: saga.TaskFailed, Error: &saga.Failure{Code: "no", Title: "no"}})
	p.must("kid", saga.Retry{NewKey: true})
	if two := *p.open[0].Request.Child; two.Saga == one.Saga {
		t.Error("a retry with a new key asks for the same saga")
	}
	k := childOf(t, "saga: kid\nsteps:\n  - {id: grandchild, run: other}\n", &one)
	if r := k.open[0].Request.Child; !k.m.IsChild() || one.Depth != 1 || r.Depth != 2 {
		t.Errorf("child: %v; a child is at depth %d, and its own child at %d", k.m.IsChild(), one.Depth, r.Depth)
	}
}

// After a crash, the requests to other sagas that may not have been sent are sent again, and the
// report of such a saga finds the attempt that waits for it.
func TestRequestsToChildren(t *testing.T) {
	p := byHand(t, "saga: top\nsteps:\n  - id: both\n    parallel:\n      - {id: pay, http: \"POST http://w/pay\", body: {}, compensate: none}\n      - {id: kid, run: kid}\n", "null")
	kid := p.open[1].Request.Child.Saga
	look := func(when string, attempts ...int) { // of kid, of its undo, of another child, of no step
		t.Helper()
		got := []int{p.m.InFlightAttempt("kid", journal.Do, kid), p.m.InFlightAttempt("kid", journal.Undo, kid), p.m.InFlightAttempt("kid", journal.Do, parentID), p.m.InFlightAttempt("none", journal.Do, kid)}
		if d := cmp.Diff(append(attempts, 0, 0), got); d != "" {
			t.Errorf("%s, the attempts in flight are (-want +got):\n%s", when, d)
		}
		var want, again []string
		request := func(s machine.Send) string {
			return fmt.Sprint(s.Path, " ", s.Way, " ", s.Attempt, " ", s.Key, " ", s.Request.Child.Saga)
		}
		for _, s := range p.open {
			if s.Path == "kid" {
				want = append(want, request(s))
			}
		}
		for _, s := range p.m.Respawn() {
			again = append(again, request(s))
		}
		if d := cmp.Diff(want, again); d != "" {
			t.Errorf("%s, these requests are sent again (-want +got):\n%s", when, d)
		}
	}
	look("at first", 1, 0)
	p.report("kid", journal.Do, spent("0", 0))
	look("after its report", 0, 0)
	p.reply("pay", "422 {}")
	look("while it is undone", 0, 1)
}

// What a child reports to its parent: whether it has reached its goal, whether it may have had
// effects that remain, and why.
func TestChildReports(t *testing.T) {
	const kid = "saga: kid\nsteps:\n  - {id: book, http: \"POST http://w/book\", body: {}, compensate: {http: \"DELETE http://w/book\"}}\n  - {id: check, http: \"GET http://w/check\"}\n"
	for name, c := range map[string]struct {
		end    func(k *hand)
		want   string // outcome
		doubt  bool
		code   string
		detail string
	}{
		"it runs":  {end: func(*hand) {}},
		"its goal": {end: func(k *hand) { k.reply("check", `200 {"id":1}`) }, want: saga.TaskCompleted},
		"released": {end: func(k *hand) { k.reply("check", `200 {"id":1}`); k.must("", saga.Release{}) }, want: saga.TaskCompleted},
		"it fails": {end: func(k *hand) { k.reply("check", "422 {}") }},
		"undone":   {end: func(k *hand) { k.reply("check", "422 {}"); k.reply("book", "200 {}") }, want: saga.TaskFailed, code: "step_failed", detail: "422"},
		"not undone": {end: func(k *hand) {
			k.reply("check", "422 {}")
			k.reply("book", "422 {}")
			k.must("book", saga.Resolve{Outcome: "skip"})
		}, want: saga.TaskFailed, doubt: true, code: "child_not_undone", detail: "book remains"},
		"being undone": {end: func(k *hand) { k.reply("check", "200 {}"); k.must("", saga.Revert{}) }},
		"reverted":     {end: func(k *hand) { k.reply("check", "200 {}"); k.must("", saga.Revert{}); k.reply("book", "200 {}") }, want: saga.TaskCompleted},
		"reverted, and not undone": {end: func(k *hand) {
			k.reply("check", "200 {}")
			k.must("", saga.Revert{})
			k.reply("book", "422 {}")
			k.must("book", saga.Resolve{Outcome: "skip"})
		}, want: saga.TaskFailed, code: "child_not_undone", detail: "book remains"},
	} {
		t.Run(name, func(t *testing.T) {
			k := childOf(t, kid, &saga.ChildRequest{Saga: "01920000-0000-7000-8000-000000000002"})
			k.reply("book", "200 {}")
			c.end(k)
			r := k.m.Report()
			if c.want == "" {
				if r != nil {
					t.Errorf("it reports %+v", r)
				}
				return
			}
			if r == nil || r.Outcome != c.want || r.InDoubt != c.doubt || (r.Error != nil) != (c.code != "") {
				t.Fatalf("it reports %+v, and is %s", r, k.m.Status())
			}
			if r.Error != nil && (r.Error.Code != c.code || !strings.Contains(r.Error.Detail, c.detail)) {
				t.Errorf("it reports %+v", r.Error)
			}
		})
	}
}

// A child that was not started because its parent had ended by then never exists, whatever became of
// the requests before.
func TestNoChildOfAnEndedParent(t *testing.T) {
	p := byHand(t, "saga: top\nsteps:\n  - {id: kid, run: kid}\n", "null")
	p.reply("kid", "connection")
	p.wait()
	p.must("", saga.Cancel{})
	p.ends("kid", journal.Do, saga.Answer{Code: saga.CodeParentEnded, Final: true})
	if p.m.Status() != saga.Compensated || len(p.open) > 0 {
		t.Errorf("%s, %v\n%s", p.m.Status(), p.open, p.out.String())
	}
}
