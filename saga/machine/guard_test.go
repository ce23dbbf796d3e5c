package machine_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"pgregory.net/rapid"

	"recourse/internal/story/storytest"
	"recourse/journal"
	"recourse/saga"
	folded "recourse/saga/history"
	"recourse/saga/machine"
)

// guardRun is what an agentRun knows of its divergences and of what a person says about them.
type guardRun struct {
	diverged bool
	asked    map[string]bool   // the calls that this life has asked for
	same     map[string]string // the earlier call that a person has said a call to be, by path
	allowed  []string          // calls that a person has said to be new
}

// question is a request to a model that can be rendered.
const question = `{"route":"openai/chat/completions","model":"m"}`

// ask asks a model. It may be something else than an earlier life has asked.
func (r *agentRun) ask() {
	c := saga.AskModel{Life: r.life, Identity: strconv.Itoa(len(r.records)), Input: json.RawMessage(question)}
	if rapid.Bool().Draw(r.t, "diverges") {
		c.Diverged = &saga.Divergence{From: "llm[0]", Pointer: "/messages/0/content"}
	}
	_, d, no := r.m.AskModel(r.message(), c)
	if no != nil {
		if r.live && !r.ending() {
			r.t.Fatalf("a model may not be asked: %v\n%s", no, r)
		}
		return
	}
	r.write(*d)
	r.guard.diverged = r.guard.diverged || c.Diverged != nil
}

// guarded checks a new call: if an effect of an earlier life stands that this life has not asked
// for, a person has to compare them.
func (r *agentRun) guarded(action string, d *machine.Draft) {
	got := d.Data.(saga.CalledData).Resembles
	if got != "" && (!r.guard.diverged || action == "look") {
		r.t.Fatalf("%s waits, and nothing has diverged, or it only reads\n%s", d.Path, r)
	}
	known := make(map[string]bool)
	for path := range r.guard.asked {
		known[r.stands(path)] = true
	}
	for path, n := range r.world.stands {
		if name, _, _ := strings.Cut(path, "["); r.guard.diverged && n > 0 && name == action && r.lifeOf(path) < r.life && !known[path] && got == "" {
			r.t.Fatalf("%s is not compared with %s\n%s", d.Path, path, r)
		}
	}
}

// stands returns the call whose effect a call means.
func (r *agentRun) stands(path string) string {
	for r.guard.same[path] != "" {
		path = r.guard.same[path]
	}
	return path
}

func (r *agentRun) lifeOf(path string) int {
	i := slices.IndexFunc(r.records, func(rec journal.Record) bool { return rec.Kind == journal.Called && rec.Path == path })
	return r.called(r.records[i]).Life
}

func (r *agentRun) called(rec journal.Record) (d saga.CalledData) {
	if err := json.Unmarshal(rec.Data, &d); err != nil {
		r.t.Fatal(err)
	}
	return d
}

// compared notes what a person has said about a call that waits.
func (r *agentRun) compared(c saga.Command) {
	switch o, _ := c.Do.(saga.Resolve); o.Outcome {
	case saga.NewEffect:
		r.guard.allowed = append(r.guard.allowed, c.Path)
	case saga.SameEffect:
		i := slices.IndexFunc(r.records, func(rec journal.Record) bool { return rec.Kind == journal.Called && rec.Path == c.Path })
		r.guard.same[c.Path] = r.called(r.records[i]).Resembles
	}
}

// checkGuard checks that nothing is sent for a call before a person has compared it.
func (r *agentRun) checkGuard() {
	waits := make(map[string]bool)
	for _, rec := range r.records {
		switch {
		case rec.Kind == journal.Called && r.called(rec).Resembles != "":
			waits[rec.Path] = true
		case rec.Kind == journal.Intent && waits[rec.Path] && !slices.Contains(r.guard.allowed, rec.Path):
			r.t.Fatalf("record %d sends %s, and no person has said that it is new\n%s", rec.Seq, rec.Path, r)
		}
	}
}

// guardActions are the actions of the scenarios.
const guardActions = `action: refund
agents: {approve_when: input.amount > 50}
input: {amount: number}
http: POST https://pay.example/refunds
body: {amount: "${input.amount}"}
in_doubt: fail
compensate: {http: "DELETE https://pay.example/refunds/${output.id}", on: [succeeded]}
---
action: look
agents: auto
http: GET https://pay.example/refunds
`

// guardCommands are what the agents of the scenarios do, by the seq of the record before it: life 1
// refunds 5, and life 2 diverges.
func guardCommands(more map[int64]saga.Command) map[int64]saga.Command {
	list := map[int64]saga.Command{
		1: {Do: saga.Attach{Token: "aa"}},
		2: guardCall(1, "refund", `{"amount":5}`, ""),
		5: {Do: saga.Attach{Token: "bb", Previous: "aa"}},
		6: {Do: saga.AskModel{Life: 2, Identity: "q", Input: json.RawMessage(question), Diverged: &saga.Divergence{From: "llm[0]", Pointer: "/messages/0/content"}}},
	}
	maps.Copy(list, more)
	return list
}

func guardCall(life int, action, input, resembles string) saga.Command {
	return saga.Command{Do: saga.CallAction{Life: life, Action: action, Input: json.RawMessage(input), Resembles: resembles}}
}

func guardAnswer(s machine.Send) saga.Answer {
	if s.Request.Headers["X-Recourse-Route"] != "" {
		return saga.Answer{Sent: true, Status: 500}
	}
	return saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(`{"id":"re_1"}`)}
}

// TestGuard plays what follows when a life has diverged and makes a call of an action that an
// earlier life has made.
func TestGuard(t *testing.T) {
	const other = `{"amount":6}`
	waits := []string{"waiting repeat"}
	for _, test := range []struct {
		name     string
		policy   saga.OnDivergence
		outcome  string // of a person; "": none comes
		commands map[int64]saga.Command
		want     []string // status and waits_for of the calls of refund
		sent     int      // requests of refunds
	}{
		{"it waits", "", "", map[int64]saga.Command{9: guardCall(2, "refund", other, "refund[0]")}, append([]string{"succeeded "}, waits...), 1},
		{"the same", "", saga.SameEffect, map[int64]saga.Command{9: guardCall(2, "refund", other, "refund[0]")}, []string{"succeeded ", "succeeded "}, 1},
		{"new", "", saga.NewEffect, map[int64]saga.Command{9: guardCall(2, "refund", other, "refund[0]")}, []string{"succeeded ", "succeeded "}, 2},
		{"new, and approved after that", "", saga.NewEffect, map[int64]saga.Command{9: guardCall(2, "refund", `{"amount":60}`, "refund[0]")}, []string{"succeeded ", "succeeded "}, 2},
		{"ignored", saga.DivergenceIgnore, "", map[int64]saga.Command{9: guardCall(2, "refund", other, "refund[0]")}, []string{"succeeded ", "succeeded "}, 2},
		{"asked for", "", "", map[int64]saga.Command{9: guardCall(2, "refund", other, "")}, []string{"succeeded ", "succeeded "}, 2},
		{"of another action", "", "", map[int64]saga.Command{9: guardCall(2, "look", `null`, "refund[0]")}, []string{"succeeded "}, 1},
		{"aborted", "", "", map[int64]saga.Command{9: guardCall(2, "refund", other, "refund[0]"), 10: {Do: saga.Cancel{}}}, []string{"undone ", "failed "}, 1},
		{"a later life", "", "", map[int64]saga.Command{9: {Do: saga.Attach{Token: "cc", Previous: "bb"}}, 10: guardCall(3, "refund", other, "refund[0]")}, append([]string{"succeeded "}, waits...), 1},
		{"the answer of the same", "", saga.SameEffect, map[int64]saga.Command{9: guardCall(2, "refund", other, "refund[0]"), 11: {Do: saga.UndoCall{}, Path: "refund[0]"}}, []string{"undone ", "undone "}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			def := storytest.ParseSession(t, guardActions)
			def.Session.Data.OnDivergence = test.policy
			sent := 0
			answer := func(s machine.Send) saga.Answer {
				if strings.HasPrefix(s.Path, "refund[") && s.Way == journal.Do {
					sent++
				}
				return guardAnswer(s)
			}
			s := storytest.Script{Commands: guardCommands(test.commands), Answer: func(s machine.Send, _ time.Time) saga.Answer { return answer(s) }}
			if test.outcome != "" {
				s.Person = func(e saga.Entry) saga.Command {
					if e.Kind == saga.InboxApproval {
						return saga.Command{Do: saga.Approve{Shown: e.ShownHash}, Path: e.Path, Actor: "ann"}
					}
					return saga.Command{Do: saga.Resolve{Outcome: test.outcome}, Path: e.Path, Actor: "ann", Reason: "looked"}
				}
			}
			p := storytest.PlayDefinition(t, def, s)
			var log folded.Steps
			for i := range p.Records {
				if err := log.Add(&p.Records[i]); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for _, v := range machine.Calls(p.Machine, &log) {
				if strings.HasPrefix(v.Path, "refund[") {
					got = append(got, string(v.Status)+" "+v.WaitsFor)
				}
			}
			if !slices.Equal(got, test.want) || sent != test.sent {
				t.Errorf("calls %q and %d requests, want %q and %d", got, sent, test.want, test.sent)
			}
			if _, err := machine.Replay(def, p.ID, p.Records); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestGuardOutcomes: `same` and `new` are for calls that wait because of a divergence, and no other
// outcome is. The entry in the inbox stays the same while the session goes on.
func TestGuardOutcomes(t *testing.T) {
	def := storytest.ParseSession(t, strings.Replace(guardActions, "in_doubt: fail", "in_doubt: ask", 1))
	p := storytest.PlayDefinition(t, def, storytest.Script{Commands: guardCommands(map[int64]saga.Command{
		9: guardCall(2, "refund", `{"amount":6}`, "refund[0]"), 10: guardCall(2, "look", `null`, ""),
	}), Answer: func(s machine.Send, _ time.Time) saga.Answer { return guardAnswer(s) }})
	doubt := storytest.PlayDefinition(t, def, storytest.Script{Commands: map[int64]saga.Command{
		1: {Do: saga.Attach{Token: "aa"}}, 2: guardCall(1, "refund", `{"amount":5}`, ""),
	}, Answer: func(machine.Send, time.Time) saga.Answer { return saga.Answer{Sent: true, Code: "timeout"} }})
	ids := make(map[string]bool)
	for n := range p.Records {
		m, err := machine.Replay(def, p.ID, p.Records[:n+1])
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range m.Inbox() {
			if e.Kind == saga.InboxRepeat {
				ids[e.ID.String()] = true
			}
		}
	}
	if len(ids) != 1 {
		t.Errorf("the entry has had the ids %v, want one", ids)
	}
	for _, test := range []struct {
		m                   *machine.Machine
		path, outcome, code string
	}{
		{doubt.Machine, "refund[0]", saga.SameEffect, "bad_outcome"},
		{doubt.Machine, "refund[0]", saga.NewEffect, "bad_outcome"},
		{doubt.Machine, "refund[0]", "failed", ""},
		{p.Machine, "refund[0]", saga.NewEffect, "not_waiting"},
		{p.Machine, "refund[1]", "succeeded", "bad_outcome"},
		{p.Machine, "refund[1]", "skip", "bad_outcome"},
		{p.Machine, "refund[1]", saga.SameEffect, ""},
		{p.Machine, "refund[1]", saga.NewEffect, ""},
	} {
		_, err := test.m.Validate(uuid.Nil, saga.Command{Do: saga.Resolve{Outcome: test.outcome}, Path: test.path})
		no, _ := errors.AsType[*machine.Refusal](err)
		if (no == nil) != (test.code == "") || no != nil && no.Code != test.code {
			t.Errorf("%s of %s: %v, want %q", test.outcome, test.path, err, test.code)
		}
	}
}
