package invariant

import (
	"encoding/json"
	"time"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/expr"
)

// reading is the last answer of a step with fresh_for.
type reading struct {
	seq     int64
	at      time.Time
	output  json.RawMessage
	again   bool // it is being read again
	changed bool // it differs from the one before, and nobody was asked since
	before  *reading
}

// readings follows the answers of a saga that have to be fresh.
type readings struct {
	def    *saga.Definition
	of     map[string]*reading // by the id of the step
	doubt  map[string]bool     // steps in doubt, by path
	passed bool                // the pivot has succeeded
}

// fresh checks invariant 33: no request leaves on an answer that is older than its fresh_for, while
// it is read again, or after it has changed, unless it was approved since. A request in doubt is
// sent again as it was, and after the pivot nothing is read again.
func (c *sagaCheck) fresh(t *sagaState) {
	if t.Definition == nil || t.Definition.FreshUses == nil || t.origin != nil {
		return
	}
	t.readings(func(v *readings, r journal.Record, id string) {
		a, age := v.of[id], t.Definition.ByID[id].FreshFor
		switch {
		case a.again:
			c.say(33, r.Seq, "record %d sends %s, while the answer of %s is read again", r.Seq, r.Path, id)
		case !r.At.Before(a.at.Add(age)):
			c.say(33, r.Seq, "record %d sends %s, but the answer of %s in record %d is %s old, and fresh_for is %s", r.Seq, r.Path, id, a.seq, r.At.Sub(a.at), age)
		case a.changed:
			c.say(33, r.Seq, "record %d sends %s, but the answer of %s has changed in record %d, and nobody was asked", r.Seq, r.Path, id, a.seq)
		}
	})
}

// readings follows the journal and returns the answers at its end. leaves is called for each step
// with fresh_for on whose answer a request depends that leaves.
func (t *sagaState) readings(leaves func(v *readings, r journal.Record, id string)) *readings {
	v := &readings{def: t.Definition, of: make(map[string]*reading), doubt: make(map[string]bool)}
	if t.from != nil {
		for id, a := range t.from.readings(func(*readings, journal.Record, string) {}).of { // any order
			if t.reused[id] && !a.again {
				a.seq, a.changed = 0, false
				v.of[id] = a
			}
		}
	}
	if t.forkOf != nil { // what was read again then has the answer before
		v.of = t.forkOf.readings(func(*readings, journal.Record, string) {}).of
		open := false            // others are read again, so none has taken effect that differs
		for _, a := range v.of { // any order
			open = open || a.again
		}
		for id, a := range v.of { // any order
			if open && a.changed && a.before != nil {
				a = a.before
			}
			a.seq, a.again = 0, false
			v.of[id] = a
		}
	}
	for i, r := range t.Records {
		if _, check := saga.SplitQuery(r.Path); check || r.Way != journal.Do {
			continue
		}
		if step := t.Definition.Step(r.Path); step != nil {
			v.apply(step, r, t.data[i], leaves)
		}
	}
	return v
}

func (v *readings) apply(step *saga.Step, r journal.Record, data any, leaves func(*readings, journal.Record, string)) {
	switch d := data.(type) {
	case *saga.IntentData:
		switch {
		case d.Request != nil && r.Attempt > 0:
			v.leaves(step, r, leaves)
		case d.Awaited != nil && d.Awaited.Approval != nil:
			v.asked()
		}
	case *saga.OutcomeData:
		if d.Event != nil {
			v.leaves(step, r, leaves)
		}
		switch {
		case r.Class == journal.InDoubt:
			v.doubt[r.Path] = true
		case d.Next == saga.NextDone || d.Next == saga.NextFail:
			v.doubt[r.Path] = false
		}
		if passed := v.passed; d.Next == saga.NextDone {
			v.done(step, r, d.Output)
			v.passed = passed || v.passed && !d.Stubbed
		}
	case *saga.DecidedData:
		if d.Next == saga.NextDone && d.Branch == nil && !d.Enter {
			v.done(step, r, d.Output)
		}
	case *saga.WokeData:
		if a := v.of[r.Path]; a != nil && d.Timer == saga.TimerFresh {
			a.again = true
		}
	case *saga.CommandData:
		v.command(step, r, d)
	default:
		if _, approves := step.Body.(saga.Approver); approves && r.Kind == journal.Skipped {
			v.asked()
		}
	}
}

func (v *readings) leaves(step *saga.Step, r journal.Record, leaves func(*readings, journal.Record, string)) {
	if v.passed || v.doubt[r.Path] {
		return
	}
	for _, id := range step.FreshReads {
		if v.of[id] != nil {
			leaves(v, r, id)
		}
	}
}

// asked notes that an approval is asked, or that its `when` needs none.
func (v *readings) asked() {
	for _, a := range v.of { // any order
		a.changed = false
	}
}

// done notes the success of a step.
func (v *readings) done(step *saga.Step, r journal.Record, output json.RawMessage) {
	v.passed = v.passed || step.Pivot
	if step.FreshFor == 0 {
		return
	}
	a := &reading{seq: r.Seq, at: r.At, output: output}
	if before := v.of[r.Path]; before != nil && before.again {
		was, _ := expr.Decode(before.output)
		is, _ := expr.Decode(output)
		_, differs := saga.Difference(was, is)
		a.changed, a.before = before.changed || differs, before
	}
	v.of[r.Path] = a
}

func (v *readings) command(step *saga.Step, r journal.Record, d *saga.CommandData) {
	switch {
	case d.Rejected != nil:
	case d.Outcome == "succeeded":
		v.doubt[r.Path] = false
		v.done(step, r, d.Output)
	case d.Outcome == "skip" && step.FreshFor > 0:
		delete(v.of, r.Path) // a person does without it
	}
}

// stale checks the part of invariant 13 about an answer that is too old: the record says since
// when.
func (c *sagaCheck) stale(t *sagaState, r journal.Record, d *saga.WokeData) {
	if t.Definition == nil {
		return
	}
	before := *t
	before.Records = t.Records[:r.Seq-1]
	a := before.readings(func(*readings, journal.Record, string) {}).of[r.Path]
	if a == nil || !d.Due.Equal(a.at.Add(t.Definition.ByID[r.Path].FreshFor)) {
		c.say(13, r.Seq, "record %d reads %s again because of its age since %s, which is not when its answer became too old", r.Seq, r.Path, stamp(d.Due.Time))
	}
}

// rereads reports whether a step is read again before a record: its own fresh_for is over, or an
// answer that it uses has changed.
func (t *sagaState) rereads(path string, seq int64) bool {
	step := t.Definition.Step(path)
	if step == nil {
		return false
	}
	call, ok := step.Body.(saga.Call)
	if !ok || !call.ReadOnly() {
		return false
	}
	for i, r := range t.Records {
		if d, ok := t.data[i].(*saga.WokeData); ok && r.Seq < seq && d.Timer == saga.TimerFresh {
			return true
		}
	}
	return false
}
