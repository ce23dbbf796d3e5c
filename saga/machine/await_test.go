package machine_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

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
