package machine_test

import (
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	folded "recourse/saga/history"
	"recourse/saga/machine"
)

// calls describes the calls of a session: status, what each waits for, its error or output, and its
// undo.
func (h *hand) calls() string {
	h.t.Helper()
	var log folded.Steps
	for i := range h.records {
		if err := log.Add(&h.records[i]); err != nil {
			h.t.Fatal(err)
		}
	}
	list := machine.Calls(h.m, &log)
	lines := make([]string, 0, len(list))
	for i, v := range list {
		words := []string{v.Path, string(v.Status), v.WaitsFor, string(v.Output), string(v.Undo)}
		if v.Error != nil {
			words[3] = v.Error.Code
		}
		lines = append(lines, strings.Join(strings.Fields(strings.Join(words, " ")), " "))
		one, ok := machine.CallOf(h.m, &log, v.Path)
		if !ok || mustJSON(h.t, one) != mustJSON(h.t, v) || h.m.CallStatus(v.Path) != v.Status || h.m.CallIndex(v.Path) != i {
			h.t.Errorf("%s alone: %+v %v %s %d", v.Path, one, ok, h.m.CallStatus(v.Path), h.m.CallIndex(v.Path))
		}
		if v.Inbox != "" != (v.WaitsFor != "") {
			h.t.Errorf("%s waits for %q in entry %q", v.Path, v.WaitsFor, v.Inbox)
		}
		for _, r := range h.records {
			if r.Kind == journal.Intent && r.Path == v.Path && r.Way == journal.Do && r.Key != v.Key {
				h.t.Errorf("%s: key %s, and %s was sent", v.Path, v.Key, r.Key)
			}
		}
	}
	if n := h.m.CallCount(); n != len(list) {
		h.t.Errorf("%d calls, want %d", n, len(list))
	}
	return strings.Join(lines, "; ")
}

// An agent sees how each of its calls stands: whether it has ended and had an effect, what it waits
// for, and whether it can be undone.
func TestCallViews(t *testing.T) {
	h := agentHand(t, saga.SessionData{MaxParallel: 2})
	check := func(want ...string) {
		t.Helper()
		if got := h.calls(); got != strings.Join(want, "; ") {
			t.Errorf("got %s\nwant %s", got, strings.Join(want, "; "))
		}
	}
	undo := func(path string) {
		t.Helper()
		if err := h.do(saga.Command{Path: path, Do: saga.UndoCall{Life: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	check()
	h.must("", askModel(1, "q"), saga.BeginStep{Life: 1, ID: "note", OwnData: ownSteps["note"]}, payment(1, "1"), mailOf(1, "", "A", "x"), payment(1, "2"), payment(1, "60"))
	check("pay[0] running none", "mail[0] running none", "pay[1] running none", "pay[2] waiting approval none")
	unsent := h.key("pay[1]")
	h.reply("pay[0]", `200 {"id":1}`)
	if sent := h.key("pay[1]"); unsent == "" || sent != unsent {
		t.Errorf("the key %q became %q", unsent, sent)
	}
	h.reply("mail[0]", "timeout")
	h.reply("pay[1]", "400 {}")
	check(`pay[0] succeeded {"id":1} available`, "mail[0] waiting doubt timeout none", "pay[1] failed http_400 none", "pay[2] waiting approval none")
	undo("pay[0]")
	check(`pay[0] succeeded {"id":1} running`, "mail[0] waiting doubt timeout none", "pay[1] failed http_400 none", "pay[2] waiting approval none")
	h.reply("pay[0]", "200 {}")
	if err := h.do(saga.Command{Path: "mail[0]", Do: saga.Resolve{Outcome: "skip"}, Reason: "nobody knows"}); err != nil {
		t.Fatal(err)
	}
	h.must("", payment(1, "3"), payment(1, "4"), payment(1, "5"), mailOf(1, "", "B", "x"))
	h.reply("pay[3]", `200 {"id":3}`)
	h.reply("pay[4]", `200 {"id":4}`)
	h.reply("mail[1]", "200 {}")
	d, err := h.m.Validate(uuid.NewV5(h.m.ID(), "undo"), saga.Command{Path: "pay[4]", Do: saga.UndoCall{Life: 1}})
	if err != nil {
		t.Fatal(err)
	}
	h.write(d)
	if v, ok := machine.CallOf(h.m, &folded.Steps{}, "pay[4]"); !ok || v.Undo != machine.UndoRunning {
		t.Errorf("before the undo is sent it is %s", v.Undo)
	}
	h.run()
	h.reply("pay[4]", "timeout")
	if err := h.do(saga.Command{Path: "pay[4]", Do: saga.Resolve{Outcome: "skip"}, Reason: "nobody knows"}); err != nil {
		t.Fatal(err)
	}
	check(`pay[0] undone {"id":1} done`, "mail[0] in_doubt timeout none", "pay[1] failed http_400 none", "pay[2] waiting approval none",
		`pay[3] succeeded {"id":3} available`, `pay[4] succeeded {"id":4} none`, "pay[5] running none", "mail[1] succeeded {} none")
	h.must("", saga.FinishStep{Life: 1, ID: "note", Attempt: 1, Status: saga.OwnSucceeded}, payment(1, "6"), payment(1, "7"))
	check(`pay[0] undone {"id":1} done`, "mail[0] in_doubt timeout none", "pay[1] failed http_400 none", "pay[2] waiting approval none",
		`pay[3] succeeded {"id":3} available`, `pay[4] succeeded {"id":4} none`, "pay[5] running none", "mail[1] succeeded {} none", "pay[6] running none", "pay[7] running none")
	h.must("", saga.Cancel{})
	for len(h.open) > 0 {
		h.reply(h.open[0].Path, `200 {"id":5}`)
	}
	check(`pay[0] undone {"id":1} done`, "mail[0] undone done", "pay[1] failed http_400 none", "pay[2] failed none",
		`pay[3] undone {"id":3} done`, `pay[4] succeeded {"id":4} none`, `pay[5] undone {"id":5} done`, "mail[1] succeeded {} none", `pay[6] undone {"id":5} done`, "pay[7] failed none")
}

// key returns the idempotency key that the view of a call has.
func (h *hand) key(path string) string {
	h.t.Helper()
	v, ok := machine.CallOf(h.m, &folded.Steps{}, path)
	if !ok {
		h.t.Fatalf("there is no call %s", path)
	}
	return v.Key
}

// Only calls have the view of a call.
func TestNoCallViews(t *testing.T) {
	h := agentHand(t, saga.SessionData{})
	h.must("", askModel(1, "q"), saga.BeginStep{Life: 1, ID: "note", OwnData: ownSteps["note"]}, payment(1, "1"))
	if got := h.m.MadeIn("pay[0]"); got != 1 {
		t.Errorf("pay[0] was made in life %d", got)
	}
	plain := byHand(t, "saga: x\nsteps: [{id: go, signal: go}]\n", "null").m
	for _, c := range []struct {
		m    *machine.Machine
		path string
	}{{h.m, "llm[0]"}, {h.m, "own.note"}, {h.m, "pay[1]"}, {plain, "go"}} {
		if v, ok := machine.CallOf(c.m, &folded.Steps{}, c.path); ok || c.m.CallStatus(c.path) != "" || c.m.MadeIn(c.path) != 0 || c.m.CallIndex(c.path) != -1 {
			t.Errorf("%s: %+v, %q, life %d, index %d", c.path, v, c.m.CallStatus(c.path), c.m.MadeIn(c.path), c.m.CallIndex(c.path))
		}
	}
	if machine.Calls(plain, &folded.Steps{}) != nil || plain.CallCount() != 0 || plain.Resembles("pay", 2, func(string) bool { return false }) != "" || !plain.Closed() {
		t.Error("a saga that is no session has calls")
	}
	for status, ended := range map[machine.CallStatus]bool{machine.CallRunning: false, machine.CallWaiting: false, machine.CallSucceeded: true,
		machine.CallFailed: true, machine.CallInDoubt: true, machine.CallUndone: true} {
		if status.Ended() != ended {
			t.Errorf("%s is an end: %v", status, status.Ended())
		}
	}
	// The agent may do an own step again whose end it does not know.
	h.must("", saga.FinishStep{Life: 1, ID: "note", Attempt: 1, Status: saga.OwnInDoubt})
	h.must("", saga.CallAction{Life: 1, Action: "look"}) // the own step does not count for its limit
	if got := h.m.OwnStatus("own.note"); got != machine.CallInDoubt {
		t.Errorf("own.note is %s", got)
	}
}

// A process learns how its command stands: it is to be sent until its effect is in the journal.
// Sent again it changes nothing. A command that does not fit is refused.
func TestAskOfCommands(t *testing.T) {
	h := agentHand(t, saga.SessionData{})
	h.must("", payment(1, "1"))
	h.reply("pay[0]", `200 {"id":1}`)
	plain := byHand(t, "saga: x\nsteps: [{id: go, signal: go}]\n", "null").m
	message := func(n int) uuid.UUID { return uuid.NewV5(h.m.ID(), "message"+string(rune('a'+n))) }
	finish := saga.FinishStep{Life: 1, ID: "note", Attempt: 1, Status: saga.OwnSucceeded}
	for n, c := range []struct {
		name   string
		c      saga.Command
		path   string // of the call that answers
		wrong  saga.Operation
		code   string // of the refusal of wrong
		before bool   // it is in the journal already
	}{
		{"attach again", saga.Command{Do: saga.Attach{Token: "one"}}, "", saga.Attach{}, "bad_secret", true},
		{"call again", saga.Command{Do: payment(1, "1")}, "pay[0]", payment(2, "1"), "superseded", true},
		{"call", saga.Command{Do: payment(1, "2")}, "pay[1]", saga.CallAction{Life: 1, Action: "none"}, "unknown_action", false},
		{"ask a model", saga.Command{Do: askModel(1, "q")}, "llm[0]", askModel(2, "q"), "superseded", false},
		{"begin", saga.Command{Do: saga.BeginStep{Life: 1, ID: "note", OwnData: ownSteps["note"]}}, "", saga.BeginStep{Life: 2, ID: "note"}, "superseded", false},
		{"finish", saga.Command{Do: finish}, "", saga.FinishStep{Life: 1, ID: "none"}, "step_not_found", false},
		{"undo", saga.Command{Do: saga.UndoCall{Life: 1}, Path: "pay[0]"}, "", saga.UndoCall{Life: 2}, "superseded", false},
		{"undo again", saga.Command{Do: saga.UndoCall{Life: 1}, Path: "pay[1]"}, "", saga.UndoCall{Life: 1}, "nothing_to_undo", false},
		{"attach", saga.Command{Do: saga.Attach{Token: "two", Previous: "one"}}, "", saga.Attach{Token: "three"}, "session_held", false},
		{"commit", saga.Command{Do: saga.CommitSession{Life: 2}}, "", saga.CommitSession{Life: 1}, "superseded", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			check := func(when string, want bool) {
				t.Helper()
				path, pending, no := h.m.Ask(message(n), c.c)
				if path != c.path || pending != want || no != nil {
					t.Errorf("%s: %s, pending: %v, %v; want %s, %v\n%s", when, path, pending, no, c.path, want, h.out.String())
				}
			}
			if path, pending, no := h.m.Ask(message(n), saga.Command{Do: c.wrong, Path: "none"}); pending || no == nil || no.Code != c.code || path != "" {
				t.Errorf("the wrong one: %s, pending: %v, %v; want %s", path, pending, no, c.code)
			}
			if _, pending, no := plain.Ask(message(n), saga.Command{Do: c.c.Do, Path: c.c.Path}); pending || no == nil {
				t.Errorf("of a saga that is no session: pending: %v, %v", pending, no)
			}
			check("before", !c.before)
			if c.before {
				return
			}
			d, err := h.m.Validate(message(n), c.c)
			if err != nil {
				t.Fatal(err)
			}
			h.write(d)
			h.run()
			check("after", false)
			for len(h.open) > 0 {
				h.reply(h.open[0].Path, `200 {"id":1}`)
			}
		})
	}
	if !h.m.Committed() || !h.m.Closed() || !h.m.Superseded("one") || h.m.Superseded("two") {
		t.Errorf("committed: %v, closed: %v, superseded: %v %v", h.m.Committed(), h.m.Closed(), h.m.Superseded("one"), h.m.Superseded("two"))
	}
	if _, _, no := h.m.Ask(uuid.Nil, saga.Command{Do: saga.Pause{}}); no == nil || no.Code != "unknown_command" {
		t.Errorf("pause: %v", no)
	}
}

// An abort of the agent is to be sent until the session is aborted; then it changes nothing, also
// while the calls are undone and after that.
func TestAskOfAborts(t *testing.T) {
	h := agentHand(t, saga.SessionData{})
	h.must("", payment(1, "1"), payment(1, "2"))
	h.reply("pay[0]", `200 {"id":1}`)
	check := func(when string, life int, want bool, code string) {
		t.Helper()
		_, pending, no := h.m.Ask(uuid.Nil, saga.Command{Do: saga.Cancel{Life: life}})
		if pending != want || (no == nil) != (code == "") || no != nil && no.Code != code {
			t.Errorf("%s, life %d: pending: %v, %v; want %v, %q", when, life, pending, no, want, code)
		}
	}
	check("before", 1, true, "")
	check("before", 0, true, "")
	check("before", 2, false, "superseded")
	h.must("", saga.Cancel{Life: 1})
	check("a call is in flight", 1, false, "")
	h.reply("pay[1]", "400 {}")
	check("undoing", 1, false, "")
	h.reply("pay[0]", "200 {}")
	if !h.m.Ended() || !h.m.Closed() {
		t.Fatal(h.m.Status())
	}
	check("ended", 1, false, "")
}

// A new call may repeat one of its action that an earlier life has made, that this life has not
// asked for, and that had, or may have, an effect that stands. A person compares it with the oldest
// one.
func TestResembles(t *testing.T) {
	h := agentHand(t, saga.SessionData{})
	h.must("", mailOf(1, "", "A", "x"), payment(1, "1"), payment(1, "2"), payment(1, "3"), payment(1, "4"), saga.CallAction{Life: 1, Action: "look"})
	for path, answer := range map[string]string{"mail[0]": "200 {}", "pay[0]": "400 {}", "pay[1]": `200 {"id":1}`, "pay[2]": `200 {"id":2}`, "pay[3]": `200 {"id":3}`, "look[0]": "200 {}"} {
		h.reply(path, answer)
	}
	if err := h.do(saga.Command{Path: "pay[1]", Do: saga.UndoCall{Life: 1}}); err != nil {
		t.Fatal(err)
	}
	h.reply("pay[1]", "200 {}")
	ask := askModel(2, "q")
	ask.Diverged = &saga.Divergence{From: "llm[0]", Pointer: "/messages"}
	h.must("", saga.Attach{Token: "two", Previous: "one"}, ask, payment(2, "5"))
	for _, c := range []struct {
		action string
		life   int
		asked  string
		want   string
	}{
		{"pay", 2, "", "pay[2]"}, {"pay", 2, "pay[2]", "pay[3]"}, {"pay", 2, "pay[2] pay[3]", ""}, {"pay", 2, "mail[0]", "pay[2]"}, {"pay", 1, "", ""},
		{"pay", 3, "pay[2] pay[3]", "pay[4]"}, {"mail", 2, "", "mail[0]"}, {"look", 2, "", ""},
	} {
		asked := func(path string) bool { return strings.Contains(c.asked, path) }
		if got := h.m.Resembles(c.action, c.life, asked); got != c.want {
			t.Errorf("%s in life %d, which has asked for %q: %q, want %q", c.action, c.life, c.asked, got, c.want)
		}
	}
	for named, want := range map[string]string{"": "", "pay[2]": "pay[2]", "pay[3]": "pay[3]", "pay[1]": "pay[2]"} {
		call := payment(2, "6")
		call.Resembles = named
		_, d, no := h.m.Call(uuid.Nil, call)
		if no != nil {
			t.Fatal(no)
		}
		if got := d.Data.(saga.CalledData).Resembles; got != want {
			t.Errorf("a call that may repeat %q is compared with %q, want %q", named, got, want)
		}
	}
	call := payment(2, "6")
	call.Resembles = "pay[2]"
	h.must("", call)
	if err := h.do(saga.Command{Path: "pay[5]", Do: saga.Resolve{Outcome: saga.SameEffect}, Reason: "the same order"}); err != nil {
		t.Fatal(err)
	}
	// The call has ended, so a comparison with it leads to the call that answers it.
	if got := h.m.Resembles("pay", 3, func(path string) bool { return path == "pay[5]" }); got != "pay[3]" {
		t.Errorf("after the comparison: %s", got)
	}
	h.reply("llm[0]", "200 {}")
	h.reply("pay[4]", "200 {}")
	h.must("", saga.CommitSession{Life: 2})
}
