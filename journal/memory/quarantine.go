package memory

import (
	"slices"
	"time"

	"recourse/journal"
)

// postpone sets when a saga that has lost its owner can be claimed, or quarantines it.
func (g *saga) postpone(now time.Time, delayOf func(claims int) (time.Duration, bool)) {
	delay, ok := delayOf(g.head.Claims)
	if ok {
		g.head.WakeAt = milli(now.Add(delay))
		return
	}
	g.head.WakeAt = time.Time{}
	if !g.head.EndedAt.IsZero() {
		return // it was claimed only to apply late messages
	}
	h := journal.Halted{Saga: g.head.ID, Definition: g.head.Definition, Claims: g.head.Claims, Now: now}
	if n := len(g.records); n > 0 {
		h.Seq, h.Last = g.records[n-1].Seq, g.records[n-1].At
	}
	g.quarantine(h.Entry())
	if g.head.Status != journal.StatusStuck {
		g.head.Status, g.head.UpdatedAt = journal.StatusStuck, now
	}
}

func (g *saga) quarantine(e journal.Entry) {
	at := slices.IndexFunc(g.head.Inbox, func(have journal.Entry) bool { return have.ID == e.ID })
	if at < 0 {
		g.head.Inbox = append(g.head.Inbox, e)
		return
	}
	g.head.Inbox[at].Data = e.Data
}
