package machine_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// messages describes the messages that go to other sagas with the records so far.
func (h *hand) messages() (list []string) {
	h.t.Helper()
	for i := range h.records {
		m, err := machine.Replay(h.def, h.m.ID(), h.records[:i+1])
		if err != nil {
			h.t.Fatal(err)
		}
		for _, sent := range m.Messages(h.records[i]) {
			var c saga.Command
			if err := json.Unmarshal(sent.Data, &c); err != nil {
				h.t.Fatal(err)
			}
			text := c.Do.Verb()
			if end, ok := c.Do.(saga.EndTask); ok {
				text = string(end.Way) + " " + c.Path + " " + described(&end.Result)
			}
			list = append(list, text)
		}
	}
	return list
}

// described writes a report in short; "" for none.
func described(r *saga.TaskResult) string {
	if r == nil {
		return ""
	}
	text := r.Outcome + " " + string(r.Output)
	if r.Error != nil {
		text = r.Outcome + " " + r.Error.Code + ": " + r.Error.Detail
	}
	if r.InDoubt {
		text += " (in doubt)"
	}
	return text
}

// play carries out lines: `path answer`, a command, `wait`, or `order {…}`, after which nothing is
// decided yet.
func (h *hand) play(lines ...string) {
	h.t.Helper()
	commands := map[string]saga.Operation{"release": saga.Release{}, "revert": saga.Revert{}, "pause": saga.Pause{}, "resume": saga.Resume{}, "cancel": saga.Cancel{}}
	for _, line := range lines {
		word, rest, _ := strings.Cut(line, " ")
		switch do, ok := commands[word]; {
		case ok:
			h.must("", do)
		case word == "wait":
			h.wait()
		case word == "order":
			h.order(rest)
		case word == "resolve": // path and outcome
			path, outcome, _ := strings.Cut(rest, " ")
			h.must(path, saga.Resolve{Outcome: outcome, Output: json.RawMessage("1")})
		case rest == "completed":
			h.report(word, "", &saga.TaskResult{Outcome: saga.TaskCompleted, Output: json.RawMessage("1")})
		case rest == "failed":
			h.report(word, "", &saga.TaskResult{Outcome: saga.TaskFailed, Error: &saga.Failure{Code: "child_failed", Title: "it did not work"}})
		default:
			h.reply(word, rest)
		}
	}
}

// A child tells its parent how it has ended, in either way once, and nothing in between.
func TestReportsOfAChild(t *testing.T) {
	const kid = `saga: kid
steps:
  - {id: book, http: "POST http://w/book", body: {}, compensate: {http: "DELETE http://w/book"}}
  - {id: pay, http: "GET http://w/pay"}
finally:
  - {id: note, switch: [{steps: [{id: say, set: 1}]}]}
output: "${steps.book.output.id}"
`
	const (
		done    = "do kid completed 5"
		why     = "HTTP 422 Unprocessable Entity from w"
		remains = "; book remains: its undoing was skipped by an operator: "
	)
	booked := []string{`book 201 {"id":5}`}
	goal := slices.Concat(booked, []string{"pay 200 {}"})
	for _, tt := range []struct {
		name   string
		script []string
		want   []string // messages
		report string   // what it reports when it is asked
	}{
		{"at work", booked, nil, ""},
		{"succeeded", goal, []string{done}, "completed 5"},
		{"paused while it waits", append(goal, "pause", "resume"), []string{done}, "completed 5"},
		{"released", append(goal, "release"), []string{done}, "completed 5"},
		{"being undone", append(goal, "revert"), []string{done}, ""},
		{"undone", append(goal, "revert", "book 200 {}"), []string{done, "undo kid completed 5"}, "completed 5"},
		{"not undone", append(goal, "revert", "book 409 {}", "resolve book skip"), []string{done, "undo kid failed child_not_undone: its parent was undone" + remains}, "failed child_not_undone: its parent was undone" + remains},
		{"failed", append(booked, "pay 422 {}", "book 200 {}"), []string{"do kid failed step_failed: " + why}, "failed step_failed: " + why},
		{"failed, and an effect remains", append(booked, "pay 422 {}", "book 409 {}", "resolve book skip"),
			[]string{"do kid failed child_not_undone: " + why + remains + " (in doubt)"}, "failed child_not_undone: " + why + remains + " (in doubt)"},
		{"reverted on the way", append(booked, "revert", "pay 200 {}", "book 200 {}"), []string{"undo kid completed "}, "completed "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := byHand(t, "saga: top\nsteps:\n  - {id: kid, run: kid}\n", "null")
			k := childOf(t, kid, p.open[0].Request.Child)
			k.play(tt.script...)
			if d := cmp.Diff(tt.want, k.messages()); d != "" {
				t.Errorf("messages (-want +got):\n%s", d)
			}
			if got := described(k.m.Report()); got != tt.report {
				t.Errorf("it reports %q, want %q", got, tt.report)
			}
			if !k.m.IsChild() || p.m.IsChild() {
				t.Error("one of both is a child")
			}
		})
	}
}

// A saga that ends sends a message to each child that may still wait for it.
func TestMessagesToAChild(t *testing.T) {
	const top = `saga: top
steps:
  - {id: first, http: "POST http://w/first", body: {}, compensate: none}
  - {id: kid, run: kid, retry: none, in_doubt: ask, on_error: continue}
  - {id: pay, http: "POST http://w/pay", body: {}, compensate: none}
`
	for _, tt := range []struct {
		name   string
		script []string
		want   []string
	}{
		{"in flight", nil, nil},
		{"succeeded", []string{"kid completed", "pay 200 {}"}, []string{"release"}},
		{"it has failed", []string{"kid failed", "pay 200 {}"}, nil},
		{"lost, found not to have happened", []string{"kid connection", "resolve kid failed", "pay 200 {}"}, []string{"revert"}},
		{"undone", []string{"kid completed", "pay 422 {}", "kid completed"}, nil},
		{"undone by a person", []string{"kid completed", "pay 422 {}", "kid failed", "resolve kid compensated"}, []string{"release"}},
		{"left as it is", []string{"kid completed", "pay 422 {}", "kid failed", "resolve kid skip"}, []string{"release"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := byHand(t, top, "null")
			p.play("first 200 {}")
			p.play(tt.script...)
			if got := p.messages(); !slices.Equal(got, tt.want) || p.m.Ended() != (len(tt.script) > 0) {
				t.Errorf("%s, the child is sent %q, want %q\n%s", p.m.Status(), got, tt.want, p.out.String())
			}
		})
	}
}

// Only a parent that has not decided yet decides about a child.
func TestWordOfTheParent(t *testing.T) {
	for _, tt := range []struct {
		name   string
		script []string
		do     saga.Operation
		want   string
	}{
		{"released", nil, saga.Release{}, ""},
		{"reverted", nil, saga.Revert{}, ""},
		{"released twice", []string{"release"}, saga.Release{}, "not_awaiting_parent"},
		{"reverted after the release", []string{"release"}, saga.Revert{}, "not_awaiting_parent"},
		{"reverted twice", []string{"revert"}, saga.Revert{}, "not_awaiting_parent"},
		{"released after the revert", []string{"revert"}, saga.Release{}, "not_awaiting_parent"},
		{"released while it fails", []string{"cancel"}, saga.Release{}, "not_awaiting_parent"},
		{"reverted while it fails", []string{"cancel"}, saga.Revert{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const kid = "saga: kid\nsteps:\n  - {id: book, http: \"POST http://w/book\", body: {}, compensate: none}\n"
			p := byHand(t, "saga: top\nsteps:\n  - {id: kid, run: kid}\n", "null")
			k := childOf(t, kid, p.open[0].Request.Child)
			k.play(tt.script...)
			for h, want := range map[*hand]string{k: tt.want, p: "not_awaiting_parent"} {
				_, err := h.m.Validate(h.m.ID(), saga.Command{Do: tt.do})
				no, _ := errors.AsType[*machine.Refusal](err)
				if no == nil && want != "" || no != nil && no.Code != want {
					t.Errorf("%s: %v, want %q", h.def.Name, err, want)
				}
			}
		})
	}
}

// The requests to children that are in flight can be sent again after a crash, in either way; and
// the report of a child ends the attempt that waits for it, no other.
func TestChildrenInFlight(t *testing.T) {
	h := byHand(t, `saga: top
steps:
  - {id: first, http: "POST http://w/first", body: {}, compensate: {http: "DELETE http://w/first"}}
  - id: both
    parallel:
      - {id: pay, http: "POST http://w/pay", body: {}, compensate: none}
      - {id: one, run: kid}
      - {id: two, run: kid}
`, "null")
	h.reply("first", "200 {}")
	ids := make(map[string]string) // of the children
	check := func(when string) {
		t.Helper()
		var want []machine.Send
		attempts := make(map[string]int)
		for _, s := range h.open {
			if s.Request.Child != nil {
				want = append(want, s)
				ids[s.Path], attempts[s.Path+string(s.Way)] = s.Request.Child.Saga, s.Attempt
			}
		}
		if d := cmp.Diff(want, h.m.Respawn(), cmpopts.IgnoreUnexported(machine.Send{})); d != "" {
			t.Errorf("%s (-sent +again):\n%s", when, d)
		}
		for path, id := range ids {
			for _, way := range []journal.Way{journal.Do, journal.Undo} {
				if got := h.m.InFlightAttempt(path, way, id); got != attempts[path+string(way)] {
					t.Errorf("%s: attempt %d of %s %s waits for its child, want %d", when, got, path, way, attempts[path+string(way)])
				}
			}
		}
		if h.m.InFlightAttempt("one", journal.Do, parentID) != 0 || h.m.InFlightAttempt("none", journal.Do, parentID) != 0 {
			t.Errorf("%s: an attempt waits for another saga", when)
		}
	}
	check("both at work")
	h.play("one completed")
	check("one has ended")
	h.play("pay 422 {}", "two completed")
	check("two is undone")
	h.play("two completed")
	check("one is undone")
	h.play("one completed")
	check("first is undone")
}

// A child knows how many sagas are above it. A new key starts another child; a repetition asks for
// the same one.
func TestWhichChild(t *testing.T) {
	p := byHand(t, "saga: top\nsteps:\n  - {id: kid, run: kid}\n", "null")
	k := childOf(t, "saga: kid\nsteps:\n  - {id: go, http: \"PUT http://w/go\", body: {}, compensate: none, pivot: true}\n  - {id: kid, run: kid}\n", p.open[0].Request.Child)
	k.play("go 200 {}")
	first := k.open[0].Request.Child
	if above := p.open[0].Request.Child.Depth; above != 1 || first.Depth != 2 {
		t.Errorf("the depths are %d and %d", above, first.Depth)
	}
	for _, newKey := range []bool{false, true} {
		k.play("kid failed")
		k.must("kid", saga.Retry{NewKey: newKey})
		if next := k.open[0].Request.Child.Saga; (next != first.Saga) != newKey {
			t.Errorf("new key %v: the child is %s, after %s", newKey, next, first.Saga)
		}
	}
}

// When a saga is cancelled, its children hear of it, but a request to anybody else is left to end.
func TestOrphansAmongOthers(t *testing.T) {
	p := byHand(t, `saga: top
steps:
  - id: both
    parallel:
      - {id: pay, http: "POST http://w/pay", body: {}, compensate: none}
      - {id: one, run: kid}
      - {id: two, run: kid}
`, "null")
	p.play("two completed", "cancel")
	var ids []string
	for _, sent := range p.m.Orphaned() {
		ids = append(ids, sent.Saga.String())
	}
	if want := p.open[1].Request.Child.Saga; !slices.Equal(ids, []string{want}) {
		t.Errorf("%v are cancelled, want %s", ids, want)
	}
}

// A child that was not started because its parent had ended by then never exists, whatever became
// of the requests before.
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
