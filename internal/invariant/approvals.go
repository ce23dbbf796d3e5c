package invariant

import (
	"slices"
	"time"

	"recourse/journal"
	"recourse/saga"
)

// asked is an approval that a step waits for.
type asked struct {
	*saga.ApprovalData
	until time.Time // zero: forever
	by    int64     // the seq of the record that decided it; 0: none yet
}

// approvals checks invariant 16: an approval is decided at most once, in time, on what was shown,
// by an authorized person.
func (c *sagaCheck) approvals(t *sagaState) {
	open := make(map[string]*asked)
	for i, r := range t.Records {
		switch d := t.data[i].(type) {
		case *saga.IntentData:
			if d.Awaited == nil || d.Awaited.Approval == nil {
				continue
			}
			a := &asked{ApprovalData: d.Awaited.Approval}
			if d.WakeAt != nil {
				a.until = d.WakeAt.Time
			}
			open[r.Path] = a
			if want := a.Hash(t.started().SHA256); a.ShownHash != want {
				c.say(16, r.Seq, "record %d shows an approval with the hash %s, but names the hash %s", r.Seq, want, a.ShownHash)
			}
		case *saga.CommandData:
			if (d.Kind == "approve" || d.Kind == "reject") && d.Rejected == nil {
				c.judged(t, r, d, open[r.Path])
			}
		}
	}
}

func (c *sagaCheck) judged(t *sagaState, r journal.Record, d *saga.CommandData, a *asked) {
	if a == nil {
		c.say(16, r.Seq, "record %d decides an approval of %s, but there was no request for one", r.Seq, r.Path)
		return
	}
	starter := t.started().Actor
	if p := t.started().Parent; p != nil {
		starter = p.Starter
	}
	switch {
	case a.by != 0:
		c.say(16, r.Seq, "record %d decides the approval of %s, which record %d had already decided", r.Seq, r.Path, a.by)
	case !a.until.IsZero() && r.At.After(a.until):
		c.say(16, r.Seq, "record %d decides the approval of %s at %s, but it expired at %s", r.Seq, r.Path, stamp(r.At), stamp(a.until))
	case d.Shown != a.ShownHash && (d.Kind == "approve" || d.Shown != ""):
		c.say(16, r.Seq, "record %d decides on %q, but %s was shown", r.Seq, d.Shown, a.ShownHash)
	case a.FourEyes && (d.Actor == starter || d.Actor == saga.Anonymous):
		c.say(16, r.Seq, "record %d decides the approval of %s by %q, who started the saga and may not", r.Seq, r.Path, d.Actor)
	case len(a.Approvers) > 0 && d.Actor != saga.Anonymous && !slices.Contains(a.Approvers, d.Actor) && !slices.Contains(a.Approvers, d.Role):
		c.say(16, r.Seq, "record %d decides the approval of %s by %q, a %q, who may not", r.Seq, r.Path, d.Actor, d.Role)
	}
	a.by = r.Seq
}

// started returns the data of the first record.
func (t *sagaState) started() saga.StartedData {
	if d, ok := t.data[0].(*saga.StartedData); ok {
		return *d
	}
	return saga.StartedData{}
}
