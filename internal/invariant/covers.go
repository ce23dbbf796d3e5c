package invariant

import (
	"slices"
	"strings"

	"recourse/journal"
	"recourse/saga"
)

// shownRequests is what an approval has shown when it was asked last.
type shownRequests struct {
	seq      int64
	covers   map[string]saga.Covered // by the path of the step
	approved bool
}

// coverage follows the approvals of a saga.
type coverage struct {
	asked   map[string]*shownRequests // by the path of the approval
	skipped map[string]bool           // approvals that nobody was asked, or that a person has skipped
	sent    map[string]bool           // requests that have left, by path, key and content
}

// covered checks invariant 32: a request that an approval covers leaves for the first time under
// its key only as it was shown, after it was approved.
func (c *sagaCheck) covered(t *sagaState) {
	v := coverage{asked: make(map[string]*shownRequests), skipped: make(map[string]bool), sent: make(map[string]bool)}
	for i, r := range t.Records {
		if _, check := saga.SplitQuery(r.Path); check || r.Way == journal.Undo {
			continue
		}
		if r.Kind == journal.Skipped {
			v.skipped[r.Path] = true
		}
		switch d := t.data[i].(type) {
		case *saga.IntentData:
			switch {
			case d.Awaited != nil && d.Awaited.Approval != nil:
				v.asked[r.Path] = c.shownBy(r, d.Awaited.Approval)
			case d.Request != nil && r.Attempt > 0:
				c.leaves(t, &v, r, d)
			}
		case *saga.OutcomeData:
			if a := v.asked[r.Path]; a != nil && r.Class == journal.Succeeded { // nobody has decided in time
				a.approved = true
			}
		case *saga.CommandData:
			v.decided(r, d)
		}
	}
}

func (c *sagaCheck) shownBy(r journal.Record, d *saga.ApprovalData) *shownRequests {
	a := &shownRequests{seq: r.Seq, covers: make(map[string]saga.Covered)}
	for _, s := range d.Covers {
		a.covers[s.Path] = s
		if s.Request != nil && s.Request.SendHash(s.Key) != s.Hash {
			c.say(32, r.Seq, "record %d shows a request of %s that does not have the hash which it names", r.Seq, s.Path)
		}
	}
	return a
}

func (v *coverage) decided(r journal.Record, d *saga.CommandData) {
	a := v.asked[r.Path]
	if d.Rejected != nil || a == nil {
		return
	}
	switch {
	case d.Kind == "approve", d.Outcome == "succeeded":
		a.approved = true
	case d.Outcome == "skip":
		v.skipped[r.Path] = true
	}
}

// leaves checks a request that leaves.
func (c *sagaCheck) leaves(t *sagaState, v *coverage, r journal.Record, d *saga.IntentData) {
	hash := d.Request.SendHash(r.Key)
	id := r.Path + "\n" + hash
	if v.sent[id] {
		return
	}
	v.sent[id] = true
	if t.approvedItself(v, r.Path) {
		return // invariant 34 compares the requests
	}
	for _, path := range c.coveredBy(t, v, r.Path) {
		a := v.asked[path]
		switch {
		case a == nil && t.forkOf != nil && t.forkOf.unasked(path):
		case v.skipped[path]:
		case a == nil && t.reuses(path) && t.from.unasked(path):
		case a == nil:
			c.say(32, r.Seq, "record %d sends the request of %s, which %s covers, but nobody was asked", r.Seq, r.Path, path)
		case !a.approved:
			c.say(32, r.Seq, "record %d sends the request of %s, which record %d shows, but nobody has approved it", r.Seq, r.Path, a.seq)
		case a.covers[r.Path].Hash != hash:
			c.say(32, r.Seq, "record %d sends another request of %s than record %d has shown", r.Seq, r.Path, a.seq)
		}
	}
}

// unasked reports whether nobody was asked for an approval, or a person has skipped it, in the saga
// that has its outcome.
func (t *sagaState) unasked(path string) bool {
	if t.reuses(path) {
		return t.from.unasked(path)
	}
	unasked := true
	for i, r := range t.Records {
		if r.Path != path {
			continue
		}
		switch d := t.data[i].(type) {
		case *saga.IntentData:
			unasked = false
		case *saga.CommandData:
			if d.Rejected == nil && d.Outcome == "skip" {
				return true
			}
		}
	}
	return unasked
}

// coveredBy lists the paths of the approvals that cover a step: those that the definition names,
// or, without one, those that have shown its request.
func (c *sagaCheck) coveredBy(t *sagaState, v *coverage, path string) (list []string) {
	if t.Definition == nil {
		for approval, a := range v.asked { // any order
			if _, ok := a.covers[path]; ok {
				list = append(list, approval)
			}
		}
		slices.Sort(list)
		return list
	}
	step := t.Definition.Step(path)
	if step == nil {
		return nil
	}
	prefix := path[:strings.LastIndexByte(path, '.')+1]
	for _, id := range step.CoveredBy {
		list = append(list, prefix+id)
	}
	return list
}
