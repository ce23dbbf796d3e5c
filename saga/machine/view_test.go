package machine_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/saga"
	"recourse/saga/machine"
)

// views lists the steps as users see them.
func (h *hand) views() []machine.StepView {
	h.t.Helper()
	list, err := machine.Steps(h.m, h.records)
	if err != nil {
		h.t.Fatal(err)
	}
	return list
}

// statuses lists the steps with their statuses and the codes of their errors.
func (h *hand) statuses() (list []string) {
	h.t.Helper()
	for _, v := range h.views() {
		text := v.Path + " " + string(v.Status)
		if v.Error != nil {
			text += " " + v.Error.Code
		}
		list = append(list, text)
	}
	return list
}

// output returns the output of a step.
func (h *hand) output(path string) string {
	h.t.Helper()
	list := h.views()
	i := slices.IndexFunc(list, func(v machine.StepView) bool { return v.Path == path })
	return string(list[max(i, 0)].Output)
}

// A step's status says what it is at, and its error why it did not succeed, or is not undone. An
// error that is settled is not shown.
func TestStepStatus(t *testing.T) {
	const (
		pay    = "  - {id: pay, http: \"POST http://w/pay\", body: {}, retry: 3, in_doubt: retry, compensate: {http: \"DELETE http://w/pay\", in_doubt: ask}}\n"
		asks   = "  - {id: pay, http: \"POST http://w/pay\", body: {}, in_doubt: ask, compensate: {http: \"DELETE http://w/pay\", when: \"false\"}}\n"
		checks = "  - {id: pay, http: \"POST http://w/pay\", body: {}, in_doubt: {verify: {http: \"GET http://w/pay\", found: result.body.found}}, compensate: none}\n"
		pivot  = "  - {id: seal, http: \"PUT http://w/seal\", body: {}, pivot: true, compensate: none}\n"
		last   = "  - {id: last, http: \"POST http://w/last\", body: {}, compensate: none}\n"
		retry  = `order {"command":"resolve","path":"pay","outcome":"retry"}`
	)
	undoing := []string{"pay 200 {}", "last 422 {}"}
	for _, tt := range []struct {
		name, steps string
		script      []string
		want        string
	}{
		{"in flight", pay, nil, "pay running"},
		{"between attempts", pay, []string{"pay 429 {}"}, "pay waiting http_429"},
		{"between attempts, in doubt", pay, []string{"pay timeout"}, "pay in_doubt timeout"},
		{"another attempt", pay, []string{"pay timeout", "wait"}, "pay running timeout"},
		{"after a failed attempt", pay, []string{"pay 429 {}", "wait", "pay 200 {}"}, "pay succeeded"},
		{"a person is asked", asks, []string{"pay timeout"}, "pay in_doubt timeout"},
		{"a person has said retry", asks, []string{"pay timeout", retry}, "pay in_doubt timeout"},
		{"a person has said it succeeded", asks, []string{"pay timeout", `order {"command":"resolve","path":"pay","outcome":"succeeded"}`}, "pay succeeded"},
		{"before its check", checks, []string{"pay timeout"}, "pay in_doubt timeout"},
		{"its credentials are rejected", pay, []string{"pay 401 {}"}, "pay held http_401"},
		{"it has other credentials", pay, []string{"pay 401 {}", retry}, "pay running http_401"},
		{"it failed", asks, []string{"pay 422 {}"}, "pay failed http_422"},
		{"it cannot be rendered", "  - {id: pay, http: \"POST http://w/${input.x}\", body: {}, compensate: none}\n", nil, "pay failed expression_error"},
		{"its `when` is unknown", "  - {id: pay, when: input.x, set: 1}\n", nil, "pay failed expression_error"},
		{"its `when` stops a saga that must go on", pivot + "  - {id: pay, when: input.x, set: 1}\n", []string{"seal 200 {}"}, "pay failed expression_error"},
		{"its `when` is evaluated again", pivot + "  - {id: pay, when: input.x, set: 1}\n", []string{"seal 200 {}", retry}, "pay pending expression_error"},
		{"skipped", "  - {id: pay, when: \"false\", set: 1}\n", nil, "pay skipped"},
		{"being undone", pay, undoing, "pay undoing"},
		{"its undo is refused", pay, append(undoing, "pay 422 {}"), "pay undo_failed http_422"},
		{"its undo needs credentials", pay, append(undoing, "pay 401 {}"), "pay undo_failed http_401"},
		{"its undo is in doubt", pay, append(undoing, "pay timeout"), "pay undo_failed timeout"},
		{"its undo is sent again", pay, append(undoing, "pay 422 {}", retry), "pay undoing http_422"},
		{"undone", pay, append(undoing, "pay 200 {}"), "pay undone"},
		{"undone by a person", pay, append(undoing, "pay 422 {}", `order {"command":"resolve","path":"pay","outcome":"compensated"}`), "pay undone"},
		{"a person gave its undo up", pay, append(undoing, "pay 422 {}", `order {"command":"resolve","path":"pay","outcome":"skip"}`), "pay undo_failed http_422"},
		{"it needs no undo", asks, undoing, "pay succeeded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := byHand(t, "saga: x\nsteps:\n"+tt.steps+last, "null")
			h.play(tt.script...)
			if got := h.statuses(); !slices.Contains(got, tt.want) {
				t.Errorf("%s, want %s\n%s", got, tt.want, h.out.String())
			}
		})
	}
}

// Steps inside blocks are listed whether or not they were reached. Those that the saga passes by
// are skipped, and those that it may still reach are pending. Templates see the same statuses.
func TestStatusOfUnreachedSteps(t *testing.T) {
	const src = `saga: x
input: {way: string, skip: boolean}
steps:
  - {id: first, set: 1}
  - id: each
    foreach: [0]
    steps:
      - id: inner
        foreach: [0, 1]
        steps:
          - {id: plain, set: 1}
          - id: pick
            switch:
              - when: index == 0
                steps: [{id: one, set: 1}]
              - steps: [{id: two, set: 1}]
          - {id: seen, set: "${steps.one.status} ${steps.two.status}"}
  - id: way
    when: "!input.skip"
    switch:
      - when: input.way == "left"
        steps:
          - {id: left, set: 1}
          - id: deep
            switch:
              - when: "true"
                steps: [{id: taken, set: 1}]
              - steps: [{id: other, set: 1}]
      - steps:
          - {id: right, set: 1}
          - id: none
            when: "false"
            foreach: [0]
            steps: [{id: never, set: 1}]
  - {id: go, signal: go}
  - id: late
    parallel:
      - {id: a, set: 1}
      - {id: b, set: 1}
  - {id: end, set: "${steps.right.status} ${steps.other.status}"}
finally:
  - {id: note, set: "left ${steps.left.status}, taken ${steps.taken.status}, other ${steps.other.status}, right ${steps.right.status}, b ${steps.b.status}"}
output: right ${steps.right.status}, other ${steps.other.status}
`
	const before = `first succeeded
each succeeded
each[0].inner succeeded
each[0].inner[0].plain succeeded
each[0].inner[0].pick succeeded
each[0].inner[0].one succeeded
each[0].inner[0].two skipped
each[0].inner[0].seen succeeded
each[0].inner[1].plain succeeded
each[0].inner[1].pick succeeded
each[0].inner[1].one skipped
each[0].inner[1].two succeeded
each[0].inner[1].seen succeeded
`
	const after = `go waiting
late pending
a pending
b pending
end pending
note pending`
	for _, tt := range []struct{ name, input, way, cancelled, output string }{
		{"left", `{"way":"left","skip":false}`, "way succeeded\nleft succeeded\ndeep succeeded\ntaken succeeded\nother skipped\nright skipped\nnone skipped\n",
			"left succeeded, taken succeeded, other skipped, right skipped, b pending", "right skipped, other skipped"},
		{"right", `{"way":"right","skip":false}`, "way succeeded\nleft skipped\ndeep skipped\ntaken skipped\nother skipped\nright succeeded\nnone skipped\n",
			"left skipped, taken skipped, other skipped, right succeeded, b pending", "right succeeded, other skipped"},
		{"neither", `{"way":"left","skip":true}`, "way skipped\nleft skipped\ndeep skipped\ntaken skipped\nother skipped\nright skipped\nnone skipped\n",
			"left skipped, taken skipped, other skipped, right skipped, b pending", "right skipped, other skipped"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := byHand(t, src, tt.input)
			if d := cmp.Diff(strings.Split(before+tt.way+after, "\n"), h.statuses()); d != "" {
				t.Errorf("statuses (-want +got):\n%s", d)
			}
			if got := h.output("each"); got != `[["succeeded skipped","skipped succeeded"]]` {
				t.Errorf("the iterations see %s", got)
			}
			h.must("", saga.Cancel{})
			if got := h.output("note"); got != strconv.Quote(tt.cancelled) {
				t.Errorf("cancelled, `finally` sees %s, want %s", got, tt.cancelled)
			}
			h = byHand(t, src, tt.input)
			h.must("", saga.Signal{Name: "go"})
			if got := string(h.m.View().Output); got != strconv.Quote(tt.output) {
				t.Errorf("the output is %s, want %s", got, tt.output)
			}
		})
	}
}

// A saga wakes at the first of the times that it waits for. Its view says so while nothing else is
// in flight.
func TestWakeAt(t *testing.T) {
	const asks = "      - {id: ok, approval: {title: Yes?}}\n      - {id: late, sleep: 3h}\n"
	for name, c := range map[string]struct {
		timeout, branches string
		want              time.Duration // 0: none
	}{
		"none":             {"", "      - {id: ok, approval: {title: Yes?}}\n", 0},
		"the timeout":      {"timeout: 1h\n", "      - {id: nap, sleep: 2h}\n" + asks, time.Hour},
		"a step":           {"timeout: 4h\n", asks + "      - {id: nap, sleep: 2h}\n", 2 * time.Hour},
		"the first branch": {"timeout: 4h\n", "      - {id: nap, sleep: 2h}\n" + asks, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			h := byHand(t, "saga: x\n"+c.timeout+"steps:\n  - id: all\n    parallel:\n"+c.branches, "null")
			v := h.m.View()
			var got time.Duration
			if v.WakeAt != nil {
				got = v.WakeAt.Sub(h.records[0].At)
			}
			if got != c.want || v.Status != saga.Waiting {
				t.Errorf("%s, it wakes after %v, want %v\n%s", v.Status, got, c.want, h.out.String())
			}
			h.must("", saga.Pause{})
			if v := h.m.View(); v.WakeAt != nil {
				t.Errorf("paused, it wakes at %v", v.WakeAt)
			}
		})
	}
}

// The view of a saga has what is known at each moment: what is open until it has ended, what it
// gives from then on, and while it is undone what is left.
func TestView(t *testing.T) {
	const src = `saga: x
steps:
  - {id: mail, http: "POST http://w/mail", body: {}, compensate: none, in_doubt: fail, on_error: continue}
  - {id: pay, http: "POST http://w/pay", body: {}, compensate: {http: "DELETE http://w/pay", undo_within: 1d}}
  - {id: ok, approval: {title: Yes?}}
output: 7
`
	h := byHand(t, src, "null")
	h.play("mail timeout", "pay 200 {}")
	v := h.m.View()
	if len(v.Open) != 1 || v.Labels == nil || v.EndedAt != nil || v.Output != nil || v.Doubts != nil || h.m.Doubts() != nil || v.Cost.Budget != "" || v.Cost.Children != nil {
		t.Errorf("it waits for a person: %+v", v)
	}
	h.must("ok", saga.Approve{Shown: h.m.Inbox()[0].ShownHash})
	v = h.m.View()
	if v.Open != nil || v.EndedAt == nil || string(v.Output) != "7" || len(v.Doubts) != 1 || len(h.m.Doubts()) != 1 || v.Reason != nil {
		t.Errorf("it has succeeded: %+v", v)
	}
	u := h.undoLater("wrong order")
	u.reply("pay", "200 {}")
	if v := u.m.View(); v.Status != saga.Succeeded || v.Reason != nil || len(v.Residual) != 1 {
		t.Errorf("it is undone, but for what stays: %+v", v)
	}
	u = h.undoLater("wrong order")
	if v := u.m.View(); v.UndoOf != v.ID || v.Reason != nil || v.EndedAt != nil {
		t.Errorf("it is undone by a saga that is at work: %+v", v)
	}
	u.reply("pay", "422 {}")
	u.must("pay", saga.Resolve{Outcome: "skip"})
	if v := u.m.View(); v.Status != saga.Failed || v.Reason == nil || len(v.Residual) != 2 {
		t.Errorf("it cannot be undone: %+v", v)
	}
}

// The view of a step has its key before it is sent, and its output also after the loop around it
// has ended.
func TestStepView(t *testing.T) {
	h := byHand(t, `saga: x
steps:
  - id: each
    foreach: [0]
    steps:
      - {id: get, http: "GET http://w/get"}
  - {id: pay, http: "POST http://w/pay", body: {}, compensate: none}
`, "null")
	views := h.views()
	key := views[len(views)-1].Key
	h.play("each[0].get 201 7")
	if key == "" || h.open[0].Key != key {
		t.Errorf("the key is %q before the request, and then %q", key, h.open[0].Key)
	}
	if got := h.output("each[0].get"); got != "7" {
		t.Errorf("the output in the loop is %q", got)
	}
	h.records[2].Data = []byte("[]")
	if list, err := machine.Steps(h.m, h.records); err == nil {
		t.Errorf("steps of a journal that cannot be read: %+v", list)
	}
}

// The revision of the inbox changes with what is in it, and not with what people need not know.
func TestRevisionOfAnApproval(t *testing.T) {
	h := byHand(t, `saga: x
steps:
  - {id: a, http: "GET http://w/a"}
  - {id: ok, approval: {title: Yes?}}
  - {id: b, http: "GET http://w/b"}
`, "null")
	var before any = h.m.InboxRevision()
	h.order(`{"command":"pause"}`)
	h.reply("a", "200 {}")
	if before != any(h.m.InboxRevision()) {
		t.Error("it changes with an answer")
	}
	h.must("", saga.Resume{})
	asks := any(h.m.InboxRevision())
	if asks == before {
		t.Error("it is the same when a person is asked")
	}
	h.must("ok", saga.Approve{Shown: h.m.Inbox()[0].ShownHash})
	if asks == any(h.m.InboxRevision()) {
		t.Error("it is the same when nobody is asked")
	}
}
