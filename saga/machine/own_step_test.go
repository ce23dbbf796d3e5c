package machine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	folded "recourse/saga/history"
	"recourse/saga/machine"
)

const clerkActions = `action: drop
agents: auto
http: DELETE https://files.example/files/1
`

// clerk plays a session whose agent does steps itself.
func clerk(t *testing.T, script string) *player {
	t.Helper()
	return play(t, map[string]string{"actions": clerkActions, "input": "null", "script": script,
		"definition": `session: {"name": "clerk", "actions": ["drop@1"], "lease": "5s", "max_steps": 2}`})
}

// called returns the record that begins an attempt of an own step.
func called(path string, d saga.CalledData) machine.Draft {
	d.What = saga.OwnStep
	return machine.Draft{Kind: journal.Called, Path: path, Way: journal.Do, Data: d}
}

// A record that begins an attempt of an own step where no machine would have begun one is refused.
func TestImpossibleOwnSteps(t *testing.T) {
	own := &saga.OwnData{Effect: saga.NoEffect, InDoubt: saga.RetrySame}
	const one = "attach host-1 aa\nbegin {\"id\": \"a\", \"effect\": \"none\"}\n"
	const ended = one + "finish {\"id\": \"a\", \"attempt\": 1, \"status\": \"succeeded\"}\n"
	const again = one + "finish {\"id\": \"a\", \"attempt\": 1, \"status\": \"in_doubt\"}\n"
	for name, c := range map[string]struct {
		script string
		drafts []machine.Draft
		want   string // in the error; "": all are applied
	}{
		"it is not described":       {one, []machine.Draft{called("own.b", saga.CalledData{Life: 1})}, "own step own.b in life 1"},
		"not its first attempt":     {one, []machine.Draft{called("own.b", saga.CalledData{Life: 1, Own: own, N: 1})}, "own step own.b in life 1"},
		"no id":                     {one, []machine.Draft{called("b", saga.CalledData{Life: 1, Own: own})}, "own step b in life 1"},
		"the last one":              {one, []machine.Draft{called("own.b", saga.CalledData{Life: 1, Own: own})}, ""},
		"one too many":              {one, []machine.Draft{called("own.b", saga.CalledData{Life: 1, Own: own}), called("own.c", saga.CalledData{Life: 1, Own: own})}, "own step own.c in life 1"},
		"it has succeeded":          {ended, []machine.Draft{called("own.a", saga.CalledData{Life: 1, N: 1})}, "attempt 2 of own.a while done"},
		"it is begun already":       {again, []machine.Draft{called("own.a", saga.CalledData{Life: 1, N: 1}), called("own.a", saga.CalledData{Life: 1, N: 1})}, "attempt 2 of own.a while ready"},
		"another attempt":           {again, []machine.Draft{called("own.a", saga.CalledData{Life: 1, N: 2})}, "attempt 3 of own.a while ready"},
		"the next attempt":          {again, []machine.Draft{called("own.a", saga.CalledData{Life: 1, N: 1})}, ""},
		"a life that has not begun": {one, []machine.Draft{called("own.b", saga.CalledData{Life: 2, Own: own})}, "life 2"},
	} {
		t.Run(name, func(t *testing.T) {
			p := clerk(t, c.script)
			var err error
			for _, d := range c.drafts {
				if _, err = p.m.Append(d, p.now, "node-1"); err != nil {
					break
				}
			}
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, machine.ErrImpossible) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// Only the last life of a session finishes own steps, and no other saga has some.
func TestFinishOfAnotherLife(t *testing.T) {
	p := clerk(t, "attach host-1 aa\nbegin {\"id\": \"a\", \"effect\": \"none\"}\nattach host-2 bb aa\nbegin {\"id\": \"a\", \"effect\": \"none\"}\n")
	plain := begun(t, "saga: x\nsteps:\n  - {id: kid, run: child}\n")
	for _, c := range []struct {
		m    *machine.Machine
		life int
		code string
	}{{p.m, 2, ""}, {p.m, 1, "superseded"}, {p.m, 0, "superseded"}, {p.m, 3, "superseded"}, {plain.m, 0, "no_session"}, {plain.m, 1, "no_session"}} {
		_, no := c.m.Finish(saga.FinishStep{Life: c.life, ID: "a", Attempt: 2, Status: saga.OwnSucceeded})
		if (no == nil) != (c.code == "") || no != nil && no.Code != c.code {
			t.Errorf("life %d finishes: %v, want %q", c.life, no, c.code)
		}
	}
}

// While a session is aborted, its process keeps its lease as long as it does a step that it has
// begun, and may report how that ends. Once the lease has ended, it may not.
func TestFinishWhileAborted(t *testing.T) {
	p := clerk(t, "attach host-1 aa\nbegin {\"id\": \"a\", \"effect\": \"irreversible\"}\n")
	check := func(when string, holds bool) {
		t.Helper()
		_, no := p.m.Finish(saga.FinishStep{Life: 1, ID: "a", Attempt: 1, Status: saga.OwnSucceeded})
		if p.m.HoldsLease() != holds || (no == nil) != holds {
			t.Errorf("%s: it holds the lease: %v, and finishes: %v", when, p.m.HoldsLease(), no)
		}
	}
	check("before", true)
	d, err := p.m.Validate(uuid.Must(uuid.NewV7()), saga.Command{Do: saga.Cancel{}})
	if err != nil {
		t.Fatal(err)
	}
	p.write(d)
	check("aborted", true)
	end, ok := p.m.EndLife(p.m.LeaseTask().Attempt, string(journal.TaskExpired), p.now)
	if !ok {
		t.Fatal("the lease does not end")
	}
	p.write(end)
	check("after the lease", false)
	if begun(t, "saga: x\nsteps:\n  - {id: kid, run: child}\n").m.HoldsLease() {
		t.Error("a saga that is no session has a lease")
	}
}

// An agent sees its own steps: from when one is begun, how each has ended, and what it has cost.
func TestOwnViews(t *testing.T) {
	p := clerk(t, `attach host-1 aa
begin {"id": "a", "input": 1, "effect": "none"}
finish {"id": "a", "attempt": 1, "status": "succeeded", "output": 2, "cost": "0.02"}
begin {"id": "b", "effect": "irreversible"}
finish {"id": "b", "attempt": 1, "status": "in_doubt"}
`)
	var log folded.Steps
	m := machine.New(p.def, p.m.ID())
	for i := range p.records {
		r := &p.records[i]
		if err := m.Apply(*r); err != nil {
			t.Fatal(err)
		}
		if err := log.Add(r); err != nil {
			t.Fatal(err)
		}
		// An attempt that is begun has its number once its intent is recorded.
		if id, own := strings.CutPrefix(r.Path, saga.OwnPrefix); own && m.OwnBegun(id) != (r.Kind != journal.Called) {
			t.Errorf("after record %d (%s) the beginning of %s is recorded: %v", r.Seq, r.Kind, id, m.OwnBegun(id))
		}
	}
	views := machine.OwnSteps(m, &log)
	if got, want := mustJSON(t, views), `[{"id":"a","path":"own.a","status":"succeeded","attempt":1,"key":"`+keyOfRecord(p, "own.a")+`","effect":"none","input":1,"output":2,"cost":"0.02","undo":"none"},`+
		`{"id":"b","path":"own.b","status":"waiting","attempt":1,"key":"`+keyOfRecord(p, "own.b")+`","effect":"irreversible","input":null,"error":{"code":"own_in_doubt","title":"the agent does not know whether it has happened"},"cost":"0","waits_for":"doubt","inbox":"`+m.Inbox()[0].ID.String()+`","undo":"none"}]`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	for i, id := range []string{"a", "b"} {
		one, ok := machine.OwnOf(m, &log, id)
		if !ok || mustJSON(t, one) != mustJSON(t, views[i]) || m.OwnStatus(saga.OwnPrefix+id) != views[i].Status {
			t.Errorf("%s: %+v, %v, %s", id, one, ok, m.OwnStatus(saga.OwnPrefix+id))
		}
	}
	if _, ok := machine.OwnOf(m, &log, "none"); ok || m.OwnStatus("own.none") != "" || !m.OwnBegun("none") {
		t.Error("there is a step that was never begun")
	}
	if fresh := machine.OwnSteps(m, &folded.Steps{}); fresh[0].Cost != "0" {
		t.Errorf("without records it has cost %s", fresh[0].Cost)
	}
	if list := machine.OwnSteps(begun(t, "saga: x\nsteps:\n  - {id: kid, run: child}\n").m, &log); list != nil {
		t.Errorf("a saga that is no session has %v", list)
	}
}

// keyOfRecord returns the key of a step's intent.
func keyOfRecord(p *player, path string) string {
	for _, r := range p.records {
		if r.Path == path && r.Kind == journal.Intent {
			return r.Key
		}
	}
	return ""
}
