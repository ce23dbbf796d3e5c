package invariant

import (
	"time"

	"recourse/journal"
	"recourse/saga"
)

// waiting identifies a timer: a track of a step, or without a path the saga's timeout.
type waiting struct {
	path string
	way  journal.Way
}

// lostTimer identifies the timer of a session that waits for a process.
var lostTimer = waiting{path: saga.TimerLost}

// resend is the timer of a record that only notes the time before a request is sent again.
const resend = "resend"

// timers checks invariant 13: a timer fires at most once for each time that it was set, for that
// time, and not early. A wait with a constant duration is set for that duration.
func (c *sagaCheck) timers(t *sagaState) {
	set := make(map[waiting]time.Time)
	for i, r := range t.Records {
		switch d := t.data[i].(type) {
		case *saga.StartedData:
			from := c.from(r, d.Latest)
			t.awaitProcess(set, from)
			if t.Definition != nil && t.Definition.Timeout > 0 {
				set[waiting{}] = from.Add(t.Definition.Timeout)
			}
		case *saga.WokeData:
			c.fired(t, r, d, set)
		case *saga.AttachedData:
			delete(set, lostTimer)
		case *saga.CommandData:
			if _, waits := set[lostTimer]; r.Kind == journal.Resumed && !waits {
				t.awaitProcess(set, c.from(r, d.Latest)) // the session was held
			}
		default:
			c.waits(t, i)
			c.arm(t, i, set)
		}
	}
}

// mostLag is how much later than a record's time the database's clock may have been: a node must
// register, and renew its lease, in less.
const mostLag = 5 * time.Minute

// from returns from when the waits of a record count: from the latest time that its data has, or
// else from its time.
func (c *sagaCheck) from(r journal.Record, latest *saga.Time) time.Time {
	if latest == nil {
		return r.At
	}
	if latest.Before(r.At) || latest.Sub(r.At) > mostLag {
		c.say(13, r.Seq, "record %d is of %s, but its waits count from %s", r.Seq, stamp(r.At), stamp(latest.Time))
	}
	return latest.Time
}

// awaitProcess sets the timer of a session that has no process.
func (t *sagaState) awaitProcess(set map[waiting]time.Time, from time.Time) {
	if t.Definition != nil && t.Definition.Session != nil {
		set[lostTimer] = from.Add(t.Definition.Session.LostWait)
	}
}

// waits compares the end of a wait, as the record that begins it says, with the definition. If the
// record does not say from when it counts, it is from the record before.
func (c *sagaCheck) waits(t *sagaState, i int) {
	r := t.Records[i]
	d, ok := t.data[i].(*saga.IntentData)
	if !ok || d.WakeAt == nil || t.Definition == nil || i == 0 {
		return
	}
	step := t.Definition.Step(r.Path)
	if step == nil {
		return
	}
	begun := t.Records[i-1].At
	if d.Latest != nil {
		begun = c.from(r, d.Latest)
	}
	var due time.Time
	switch body := step.Body.(type) {
	case saga.Wait:
		var env noValues
		end, err := body.Due(&env, begun)
		if err != nil || env.asked {
			return
		}
		due = end.Truncate(time.Millisecond)
	case saga.Await:
		due = begun.Add(step.Timeout)
	default:
		return
	}
	if !d.WakeAt.Equal(due) {
		c.say(13, r.Seq, "record %d makes step %s wait until %s, but the wait ends at %s", r.Seq, r.Path, stamp(d.WakeAt.Time), stamp(due))
	}
}

// noValues is the environment of a constant expression. It notes whether the expression reads a
// value after all.
type noValues struct{ asked bool }

// Root implements expr.Env.
func (e *noValues) Root(string) (any, bool) {
	e.asked = true
	return nil, false
}

// arm notes the timer that a record sets for its step.
func (c *sagaCheck) arm(t *sagaState, i int, set map[waiting]time.Time) {
	r := t.Records[i]
	at, query := waiting{r.Path, r.Way}, waiting{saga.QueryPath(r.Path), journal.Do}
	switch d := t.data[i].(type) {
	case *saga.IntentData:
		delete(set, at)
		if d.WakeAt != nil {
			set[at] = d.WakeAt.Time
		}
	case *saga.OutcomeData:
		delete(set, at)
		if d.RetryAt == nil {
			t.hold(r, d.Next, c.from(r, d.Latest), set)
			return
		}
		switch d.Next {
		case saga.NextRetry, saga.NextHold:
			set[at] = d.RetryAt.Time
		case saga.NextVerify:
			set[query] = d.RetryAt.Time
		}
	case *saga.DecidedData:
		t.hold(r, d.Next, c.from(r, d.Latest), set)
		switch d.Next {
		case saga.NextRetry:
			if set[at].Before(r.At) { // otherwise it was abandoned during a wait
				set[at] = r.At
			}
		case saga.NextVerify:
			set[query] = r.At
		}
	}
}

// hold sets the timer of a step that is held, if its definition has a time for it.
func (t *sagaState) hold(r journal.Record, next saga.Next, from time.Time, set map[waiting]time.Time) {
	if next != saga.NextHold || t.Definition == nil {
		return
	}
	if step := t.Definition.Step(r.Path); step != nil && step.HoldFor > 0 {
		set[waiting{r.Path, r.Way}] = from.Add(step.HoldFor)
	}
}

func (c *sagaCheck) fired(t *sagaState, r journal.Record, d *saga.WokeData, set map[waiting]time.Time) {
	if r.At.Before(d.Due.Time) {
		c.say(13, r.Seq, "record %d fires at %s, but was due at %s", r.Seq, stamp(r.At), stamp(d.Due.Time))
	}
	at := waiting{r.Path, r.Way}
	switch d.Timer {
	case saga.TimerLost:
		at = lostTimer
	case saga.TimerFresh:
		c.stale(t, r, d)
		return
	case saga.TimerLease, saga.TimerDetach: // the store's task has the end of the lease
		t.awaitProcess(set, c.from(r, d.Latest))
		return
	}
	due, ok := set[at]
	delete(set, at)
	switch {
	case d.Timer == resend, r.Path == "" && t.Definition == nil:
	case !ok:
		c.say(13, r.Seq, "record %d fires a timer%s that was not set, or had already fired", r.Seq, of(r.Path))
	case !due.Equal(d.Due.Time):
		c.say(13, r.Seq, "record %d fires a timer%s that was set for %s, as due at %s", r.Seq, of(r.Path), stamp(due), stamp(d.Due.Time))
	}
}

func of(path string) string {
	if path == "" {
		return ""
	}
	path, _ = saga.SplitQuery(path)
	return " of " + path
}

func stamp(at time.Time) string { return at.UTC().Format(journal.TimeFormat) }
