package invariant

import (
	"slices"
	"strings"
	"time"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// awake checks invariant 12 for a saga at rest: it has ended, waits for a person, or has a wake-up
// time that is not overdue.
func (c *sagaCheck) awake(t *sagaState) {
	if t.machine == nil || t.brokenAt != nil || c.cfg.Clock.IsZero() {
		return // invariant 2 is violated already, or the saga may be running
	}
	status, seq := t.machine.Status(), t.machine.Seq()
	if status.Terminal() || status == saga.PausedStatus {
		return
	}
	if list := t.machine.InFlight(); len(list) > 0 {
		c.say(12, seq, "attempt %d of %s was sent, but it has no outcome and nothing waits for one", list[0].Number, list[0].Path)
		return
	}
	escalated, wakes := 0, 0
	if t.machine.HoldsLease() {
		wakes++ // the end of the lease wakes the session
	}
	for _, d := range t.machine.Decide() {
		switch d := d.(type) {
		case machine.Escalate:
			escalated++
		case machine.WakeAt:
			if data, ok := d.Woke.Data.(saga.WokeData); d.Woke.Path != "" || ok && data.Timer == saga.TimerLost {
				wakes++
			}
			if d.At.Before(c.cfg.Clock) {
				c.say(12, seq, "it should have woken up at %s", stamp(d.At))
			}
		default:
			c.say(12, seq, "it could continue, but does not")
			return
		}
	}
	if escalated == 0 && wakes != 1 {
		c.say(12, seq, "it is %s, waits for no person, and has %d wake-up times", status, wakes)
	}
}

// row checks the part of invariant 12 about rows: the row agrees with the journal, and a saga that
// has not ended has a node with a lease, or a row with a wake-up time. A node writes the rows of
// its own sagas only at intervals.
func (c *sagaCheck) row(t *sagaState) {
	h := t.Head
	if h == nil || t.machine == nil || t.brokenAt != nil {
		return
	}
	status, seq := t.machine.Status(), t.machine.Seq()
	switch {
	case h.Seq > seq:
		c.say(12, seq, "its row is as of record %d, but its journal has only %d: the last records are lost", h.Seq, seq)
	case status.Terminal() && h.Status != string(status):
		c.say(12, seq, "its journal ends as %s, but its row says %s", status, h.Status)
	case status.Terminal() && !h.EndedAt.Equal(t.last()):
		c.say(12, seq, "its journal ends at %s, but its row says %s", stamp(t.last()), stamp(h.EndedAt))
	case status.Terminal(): // a node may own it for a short time, to discard messages
	case !h.EndedAt.IsZero():
		c.say(12, seq, "its row says that it ended at %s, but its journal has no end", stamp(h.EndedAt))
	case h.Owner != "":
		if c.cfg.Nodes != nil && !c.cfg.Nodes(h.Owner) {
			c.say(12, seq, "its row names node %s as its owner, which has no lease: no node runs it", h.Owner)
		}
	case h.Quarantined(): // it waits for a person
	default:
		c.unowned(t, h)
	}
}

// slack is how far Config.Now may be from the database's clock.
const slack = time.Hour

func (c *sagaCheck) unowned(t *sagaState, h *journal.Head) {
	status, seq, wake := t.machine.Status(), t.machine.Seq(), t.machine.WakeAt()
	if h.Seq == seq && h.Status != string(status) {
		c.say(12, seq, "its row says %s, but by its journal it is %s", h.Status, status)
	}
	if h.Seq == seq && h.Inbox != nil && !slices.Equal(entries(h.Inbox), entries(t.machine.Row().Inbox)) {
		c.say(11, seq, "its inbox has %s, but by its journal it should have %s", named(h.Inbox), named(t.machine.Row().Inbox))
	}
	latest := wake
	if latest.Before(c.cfg.Now) { // it was taken over, or given up
		latest = c.cfg.Now
	}
	switch {
	case h.WakeAt.IsZero() && t.wantsWaking():
		c.say(12, seq, "it is %s, no node owns it, and its row has no wake-up time: it will never continue", status)
	case h.Claims == 0 && !h.WakeAt.IsZero() && !wake.IsZero() && !c.cfg.Now.IsZero() && h.WakeAt.After(latest.Add(journal.FirstRetryDelay+slack)):
		c.say(12, seq, "its row wakes it at %s, but it is due at %s", stamp(h.WakeAt), stamp(wake))
	}
}

// wantsWaking reports whether the saga continues by itself, now or later.
func (t *sagaState) wantsWaking() bool {
	return len(t.machine.InFlight()) > 0 || slices.ContainsFunc(t.machine.Decide(), func(d machine.Decision) bool {
		_, escalated := d.(machine.Escalate)
		return !escalated
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
