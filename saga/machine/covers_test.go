package machine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// approve approves what the inbox shows for a step.
func (h *hand) approve(path string) {
	h.t.Helper()
	for _, e := range h.m.Inbox() {
		if e.Path == path {
			h.must(path, saga.Approve{Shown: e.ShownHash})
			return
		}
	}
	h.t.Fatalf("%s is not asked for\n%s", path, h.out.String())
}

// An approval shows as many bytes as one person can be asked about, and not one more.
func TestMostThatAnApprovalShows(t *testing.T) {
	const most = 64 << 10
	asked := func(length int) (covers []saga.Covered, out string) {
		h := byHand(t, "saga: x\ninput: {text: string}\nsteps:\n  - {id: ok, approval: {title: Yes?, covers: [pay]}}\n  - {id: pay, http: \"POST http://w/pay\", body: {text: \"${input.text}\"}, compensate: none}\n",
			fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", length)))
		for _, e := range h.m.Inbox() {
			covers = e.Covers
		}
		return covers, h.out.String()
	}
	one, _ := asked(1)
	fits := most - len(saga.Encode(one)) + 1
	if covers, out := asked(fits); len(saga.Encode(covers)) != most {
		t.Errorf("%d bytes are shown, want %d\n%.2000s", len(saga.Encode(covers)), most, out)
	}
	if covers, out := asked(fits + 1); covers != nil || !strings.Contains(out, "too_much_to_show") {
		t.Errorf("%d bytes are shown", len(saga.Encode(covers)))
	}
}

// No machine asks an approval again that covers nothing, or while another one is asked again.
func TestImpossibleToAskAgain(t *testing.T) {
	for name, covers := range map[string]string{"it covers nothing": "", "another one is asked": ", covers: [pay]"} {
		t.Run(name, func(t *testing.T) {
			h := byHand(t, `saga: x
steps:
  - {id: one, approval: {title: "One?", covers: [pay]}}
  - {id: two, approval: {title: "Two?"`+covers+`}}
  - {id: pay, http: "POST http://w/pay", body: {team: "${saga.labels?.team ?? 'none'}"}, compensate: none}
`, "null")
			h.approve("one")
			again := h.records[len(h.records)-1]
			if covers != "" {
				h.must("", saga.Patch{Labels: map[string]string{"team": "blue"}})
			}
			h.approve("two")
			if again.Kind != journal.Intent || again.Path != "two" {
				t.Fatalf("%s of %q is not what asks for two", again.Kind, again.Path)
			}
			_, err := h.m.Append(machine.Draft{Kind: again.Kind, Path: again.Path, Way: again.Way, Data: again.Data}, h.now, "n")
			if !errors.Is(err, machine.ErrImpossible) {
				t.Errorf("got %v, want ErrImpossible\n%s", err, h.out.String())
			}
		})
	}
}

// A covered step that has failed once, and waits for an approval that is asked again, has failed if
// the saga goes on without it.
func TestRejectedWhenAskedAgain(t *testing.T) {
	h := byHand(t, `saga: x
steps:
  - id: part
    on_error: continue
    switch:
      - steps:
          - {id: ok, approval: {title: Yes?, covers: [refund]}}
          - {id: refund, http: "POST http://w/refunds", body: {}, retry: none, on_error: hold, compensate: none}
  - {id: last, http: "POST http://w/last", body: {}, compensate: none}
`, "null")
	h.approve("ok")
	h.reply("refund", "402 {}")
	h.must("refund", saga.Retry{NewKey: true})
	h.must("ok", saga.Reject{})
	h.reply("last", "200 {}")
	steps, err := machine.Steps(h.m, h.records)
	if err != nil || h.m.Status() != saga.Succeeded {
		t.Fatalf("%s, %v", h.m.Status(), err)
	}
	for _, s := range steps {
		if s.Path == "refund" && s.Status == machine.StepFailed {
			return
		}
	}
	t.Errorf("the steps are %+v", steps)
}
