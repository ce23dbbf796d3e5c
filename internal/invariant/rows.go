package invariant

import (
	"slices"
	"strings"
	"time"

	"recourse/journal"
	"recourse/saga"
)

// awake is invariant 12 for a saga at rest: it has ended, waits for a person, or has a wake-up that
// is not overdue.
func (c *sagaCheck) awake(t *sagaState) {
	if t.machine == nil || t.brokenAt != nil || c.cfg.Clock.IsZero() {
		return // invariant 2 is broken already, or the saga may be under way
	}
	status, seq := t.machine.Status(), t.machine.Seq()
	if status.Terminal() || status == saga.PausedStatus {
		return
	}
	if open := t.machine.InFlight(); len(open) > 0 {
		c.say(12, seq, "attempt %d of %s was sent, and nobody settles it", open[0].Number, open[0].Path)
		return
	}
	held, wakes := 0, 0
	for _, d := range t.machine.Decide() {
		switch d := d.(type) {
		case saga.Escalate:
			held++
		case saga.WakeAt:
			if d.Woke.Path != "" {
				wakes++
			}
			if d.At.Before(c.cfg.Clock) {
				c.say(12, seq, "it should have woken up at %s", stamp(d.At))
			}
		default:
			c.say(12, seq, "it could go on, and does not")
			return
		}
	}
	if held == 0 && wakes != 1 {
		c.say(12, seq, "it is %s, waits for nobody, and has %d wake-ups", status, wakes)
	}
}

// row is the other half of it: what the row says follows from the journal, and somebody looks after
// a saga that has not ended: a node with a lease, or the row's wake-up. The row of a saga that a
// node owns is written now and then only.
func (c *sagaCheck) row(t *sagaState) {
	h := t.Head
	if h == nil || t.machine == nil || t.brokenAt != nil {
		return
	}
	status, seq := t.machine.Status(), t.machine.Seq()
	switch {
	case h.Seq > seq:
		c.say(12, seq, "its row is of %d records, and its journal has %d: the last ones are lost", h.Seq, seq)
	case status.Terminal() && h.Status != string(status):
		c.say(12, seq, "its journal ends as %s, its row says %s", status, h.Status)
	case status.Terminal() && !h.EndedAt.Equal(t.last()):
		c.say(12, seq, "its journal ends at %s, its row says %s", stamp(t.last()), stamp(h.EndedAt))
	case status.Terminal(): // a node may own it for a moment all the same, to turn down its mail
	case !h.EndedAt.IsZero():
		c.say(12, seq, "its row says that it ended at %s, its journal does not", stamp(h.EndedAt))
	case h.Owner != "":
		if c.cfg.Nodes != nil && !c.cfg.Nodes(h.Owner) {
			c.say(12, seq, "its row names node %s as its owner, which has no lease: nobody drives it", h.Owner)
		}
	case h.Quarantined(): // it waits for a person, whatever its journal says
	default:
		c.unowned(t, h)
	}
}

// slack is what the database's clock and Config.Now may be apart.
const slack = time.Hour

func (c *sagaCheck) unowned(t *sagaState, h *journal.Head) {
	status, seq, wake := t.machine.Status(), t.machine.Seq(), t.machine.WakeAt()
	if h.Seq == seq && h.Status != string(status) {
		c.say(12, seq, "its row says %s, and by its journal it is %s", h.Status, status)
	}
	if h.Seq == seq && h.Inbox != nil && !slices.Equal(entries(h.Inbox), entries(t.machine.Row().Inbox)) {
		c.say(11, seq, "its inbox has %s, and by its journal it should have %s", named(h.Inbox), named(t.machine.Row().Inbox))
	}
	latest := wake
	if latest.Before(c.cfg.Now) { // it was taken over, or set aside
		latest = c.cfg.Now
	}
	switch {
	case h.WakeAt.IsZero() && t.wantsWaking():
		c.say(12, seq, "it is %s, no node owns it, and its row has no wake-up: it will never go on", status)
	case h.Claims == 0 && !h.WakeAt.IsZero() && !wake.IsZero() && !c.cfg.Now.IsZero() && h.WakeAt.After(latest.Add(journal.FirstRetryDelay+slack)):
		c.say(12, seq, "its row wakes it at %s, and it is due at %s", stamp(h.WakeAt), stamp(wake))
	}
}

// wantsWaking reports whether the saga goes on by itself, now or some time.
func (t *sagaState) wantsWaking() bool {
	return len(t.machine.InFlight()) > 0 || slices.ContainsFunc(t.machine.Decide(), func(d saga.Decision) bool {
		_, held := d.(saga.Escalate)
		return !held
	})
}

func entries(list []journal.Entry) []string {
	var ids []string
	for _, e := range list {
		ids = append(ids, e.ID.String())
	}
	slices.Sort(ids)
	return ids
}

func named(list []journal.Entry) string {
	var names []string
	for _, e := range list {
		names = append(names, e.Kind+" "+e.Path)
	}
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}
