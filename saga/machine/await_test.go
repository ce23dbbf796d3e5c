package machine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

// A saga keeps so many signals that no step has waited for, and says so when it takes no more.
func TestTooManySignals(t *testing.T) {
	def, errs := dsl.Parse("t", []byte("saga: x\nsteps:\n  - {id: nap, sleep: 1h}\n  - {id: a, signal: paid}\n"), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	p := &player{t: t, def: def, m: machine.New(def, uuid.Must(uuid.FromString("01920000-0000-7000-8000-000000000001")))}
	p.write(p.m.Start(saga.StartedData{Definition: "x", Version: 1, SHA256: def.SHA256, Input: json.RawMessage("null")}))
	for n := range 1001 {
		r, err := p.m.Validate(uuid.NewV5(p.m.ID(), strconv.Itoa(n)), saga.Command{Do: saga.Signal{Name: "paid"}})
		var no *machine.Refusal
		switch {
		case n < 1000 && err != nil:
			t.Fatalf("signal %d: %v", n, err)
		case n < 1000:
			p.write(r)
		case !errors.As(err, &no) || no.Code != "too_many_signals":
			t.Errorf("signal %d: %v, want a refusal", n, err)
		}
	}
}

// Running a saga by another does not get round its four eyes.
func TestFourEyesOfChildren(t *testing.T) {
	def, errs := dsl.Parse("t", []byte("saga: x\nsteps:\n  - {id: ok, approval: {title: Yes?}, four_eyes: true}\n"), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	p := &player{t: t, def: def, m: machine.New(def, uuid.Must(uuid.FromString("01920000-0000-7000-8000-000000000001")))}
	p.write(p.m.Start(saga.StartedData{Definition: "x", Version: 1, SHA256: def.SHA256, Input: json.RawMessage("null"), Actor: "saga 1",
		Parent: &saga.ParentData{Saga: "1", Path: "child", Depth: 2, Starter: "ann"}}))
	for len(p.m.Inbox()) == 0 && p.step() {
	}
	e := p.m.Inbox()[0]
	for who, want := range map[string]string{"ann": "four_eyes", "bob": ""} {
		got := ""
		_, err := p.m.Validate(uuid.NewV5(p.m.ID(), who), saga.Command{Do: saga.Approve{Shown: e.ShownHash}, Path: "ok", Actor: who, Role: "approver"})
		if no := (*machine.Refusal)(nil); errors.As(err, &no) {
			got = no.Code
		}
		if got != want {
			t.Errorf("%s: %q, want %q", who, got, want)
		}
	}
}

// An approval that has expired is not given, even if the saga has not been woken yet.
func TestApprovalTooLate(t *testing.T) {
	def, errs := dsl.Parse("t", []byte("saga: x\nsteps:\n  - {id: ok, approval: {title: Yes?}, timeout: 1m}\n"), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	p := &player{t: t, def: def, m: machine.New(def, uuid.Must(uuid.FromString("01920000-0000-7000-8000-000000000001")))}
	p.write(p.m.Start(saga.StartedData{Definition: "x", Version: 1, SHA256: def.SHA256, Input: json.RawMessage("null"), Actor: "ann"}))
	for len(p.m.Inbox()) == 0 && p.step() {
	}
	c := saga.Command{Do: saga.Approve{Shown: p.m.Inbox()[0].ShownHash}, Path: "ok", Actor: "bob", Role: "approver"}
	for after, ok := range map[time.Duration]bool{time.Minute: true, time.Minute + time.Millisecond: false} {
		c.At = p.m.At().Add(after)
		if _, err := p.m.Validate(uuid.NewV5(p.m.ID(), "bob"), c); (err == nil) != ok {
			t.Errorf("after %v: %v", after, err)
		}
	}
}

// A parent's word may come before its child waits for it.
func TestRevertedOnTheWay(t *testing.T) {
	def, errs := dsl.Parse("t", []byte("saga: x\nsteps:\n  - {id: nap, sleep: 1h}\n"), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	for do, want := range map[saga.Operation]saga.Status{saga.Revert{}: saga.Compensated, saga.Release{}: saga.Succeeded} {
		p := &player{t: t, def: def, m: machine.New(def, uuid.Must(uuid.FromString("01920000-0000-7000-8000-000000000001")))}
		p.write(p.m.Start(saga.StartedData{Definition: "x", Version: 1, SHA256: def.SHA256, Input: json.RawMessage("null"),
			Parent: &saga.ParentData{Saga: "01920000-0000-7000-8000-000000000002", Path: "child", Depth: 1}}))
		p.step()
		r, err := p.m.Validate(uuid.NewV5(p.m.ID(), do.Verb()), saga.Command{Do: do})
		if err != nil {
			t.Fatal(err)
		}
		p.write(r)
		for p.step() {
		}
		if p.m.Status() != want {
			t.Errorf("%s: %s, want %s", do.Verb(), p.m.Status(), want)
		}
	}
}

// An approval with four eyes says who may not decide it, as far as the saga knows who has started
// it.
func TestFourEyesNameTheStarter(t *testing.T) {
	def := parsed(t, "saga: x\nsteps:\n  - {id: ok, approval: {title: Yes?}, four_eyes: true}\n")
	for starter, want := range map[string]string{
		"ann":          "It may not be decided by ann, who started the saga.",
		saga.Anonymous: "It may not be decided by the person who started the saga.",
		"":             "It may not be decided by the person who started the saga.",
	} {
		h := started(t, def, parentID, machine.StartOptions{Actor: starter})
		if got := h.m.Inbox()[0].Detail; !strings.Contains(got, want) {
			t.Errorf("started by %q: %s", starter, got)
		}
	}
}

// An approval in a block that has failed is no longer needed: it is skipped, and nobody can give
// it, wherever in the block it is, although the saga goes on.
func TestApprovalsOfAFailedBlock(t *testing.T) {
	const (
		parallel = "saga: x\nsteps:\n  - id: block\n    on_error: continue\n    parallel:\n      - {id: ok, approval: {title: Yes?}}\n      - {id: y, http: \"POST http://w/y\", body: {}, compensate: none}\n      - {id: ok2, approval: {title: Yes?}}\n"
		loop     = "saga: x\nsteps:\n  - id: block\n    on_error: continue\n    foreach: [0, 1, 2]\n    max_parallel: 3\n    steps:\n      - {id: ok, when: index == 2, approval: {title: Yes?}}\n      - {id: y, http: \"POST http://w/y\", body: {}, compensate: none}\n"
		more     = "      - {id: z, http: \"POST http://w/z\", body: {}, compensate: none}\n"
		last     = "  - {id: go, signal: go}\n"
	)
	for name, c := range map[string]struct {
		src    string
		fails  string
		others []string // in flight
		asked  []string
	}{
		"of branches":                           {parallel + last, "y", nil, []string{"ok", "ok2"}},
		"after an iteration that has ended":     {loop + last, "block[1].y", []string{"block[0].y"}, []string{"block[2].ok"}},
		"after an iteration that has not ended": {loop + more + last, "block[1].y", []string{"block[0].y"}, []string{"block[2].ok"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := byHand(t, c.src, "null")
			shown := make(map[string]string)
			for _, e := range h.m.Inbox() {
				shown[e.Path] = e.ShownHash
			}
			h.reply(c.fails, "422 {}")
			for _, path := range c.others {
				h.reply(path, "200 {}")
			}
			if s := h.m.Status(); s != saga.Waiting || len(shown) != len(c.asked) {
				t.Fatalf("%s, and %v were asked\n%s", s, shown, h.out.String())
			}
			for _, path := range c.asked {
				err := h.do(saga.Command{Do: saga.Approve{Shown: shown[path]}, Path: path, Actor: "bob", Trusted: true})
				if codeOf(err) != "decided" {
					t.Errorf("%s: %v", path, err)
				}
			}
			views, err := machine.Steps(h.m, h.records)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range views {
				if slices.Contains(c.asked, v.Path) && v.Status != machine.StepSkipped {
					t.Errorf("%s is %s", v.Path, v.Status)
				}
			}
		})
	}
}

// The tasks of a saga that ends are withdrawn, unless undoing them needs to know whether they
// happened. Requests that this process sends are no tasks.
func TestUnwantedTasks(t *testing.T) {
	const branches = "saga: x\n%ssteps:\n  - id: both\n    parallel:\n      - {id: a, task: work, retry: 3, %s}\n      - {id: b, http: \"POST http://w/b\", body: {}, compensate: none}\n"
	const reads, blind = `compensate: {http: "DELETE http://w/${output.id}"}`, `compensate: {http: "DELETE http://w/a"}`
	expired := saga.TaskResult{Outcome: "expired"}
	for name, c := range map[string]struct {
		stop, undo    string
		doubt, cancel bool
		want          int
	}{
		"the saga goes on":       {undo: reads},
		"it ends":                {undo: reads, cancel: true, want: 1},
		"in doubt":               {undo: reads, doubt: true, cancel: true},
		"in doubt, undone blind": {undo: blind, doubt: true, cancel: true, want: 1},
		"nothing is undone":      {stop: "on_failure: stop\n", undo: reads, doubt: true, cancel: true, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := byHand(t, fmt.Sprintf(branches, c.stop, c.undo), "null")
			task := machine.TaskID(h.m.ID(), "a", journal.Do, 1)
			if c.doubt {
				h.report("a", journal.Do, &expired)
				h.wait()
				task = machine.TaskID(h.m.ID(), "a", journal.Do, 2)
			}
			if c.cancel {
				h.must("", saga.Cancel{})
			}
			if list := h.m.Unwanted(); len(h.open) != 2 || len(list) != c.want || c.want > 0 && list[0] != task {
				t.Errorf("%d attempts in flight, and %v are withdrawn, want %d of %s\n%s", len(h.open), list, c.want, task, h.out.String())
			}
		})
	}
}
