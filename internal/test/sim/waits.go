package sim

import (
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/expr"
)

// writing identifies the records that a node has written at one time, in milliseconds, by its
// estimate of the store's clock.
type writing struct {
	node string
	at   int64
}

// skew is how far clocks drift apart between two renewals.
const skew = 25 * time.Millisecond

// checkWaits compares the times until which sagas wait with the store's own clock when the waits
// began, which only the simulator knows: the times of records may be earlier.
func (s *sim) checkWaits(id uuid.UUID, def *saga.Definition, records []journal.Record) {
	// A record has the time of the one before it if its node's clock shows an earlier time. Then
	// its time does not say when its node wrote it.
	before := make(map[int64]bool)
	for i, first := 0, 0; i < len(records); i++ {
		if records[i].At.After(records[first].At) {
			first = i
		}
		before[records[i].Seq] = records[i].Node != records[first].Node
	}
	check := func(what string, begun journal.Record, wait time.Duration, due time.Time) {
		at, ok := s.wrote[writing{begun.Node, begun.At.UnixMilli()}]
		if short := at.Add(wait).Sub(due); ok && short > skew && !before[begun.Seq] {
			s.violate(id, "13: by the store's clock, %s of %v that began at record %d was %v too short", what, wait, begun.Seq, short)
		}
	}
	var alone journal.Record // from which a session waits for a process
	lost := false
	held := make(map[string]journal.Record)
	for _, r := range records {
		step := def.Step(r.Path)
		switch r.Kind {
		case journal.Started:
			alone = r
		case journal.Attached:
			lost = false
		case journal.Resumed:
			if lost {
				alone, lost = r, false
			}
		case journal.Intent:
			var d saga.IntentData
			mustRead(r, &d)
			if d.WakeAt == nil || step == nil {
				continue
			}
			wait := step.Timeout
			if body, ok := step.Body.(saga.Wait); ok {
				due, err := body.Due(expr.MapEnv{}, r.At)
				if err != nil {
					continue // it depends on data
				}
				wait = due.Sub(r.At)
			}
			check("the wait of step "+r.Path, r, wait, d.WakeAt.Time)
		case journal.Outcome, journal.Decided:
			var d struct {
				Next saga.Next `json:"next"`
			}
			mustRead(r, &d)
			if d.Next == saga.NextHold {
				held[r.Path] = r
			}
		case journal.Woke:
			var d saga.WokeData
			mustRead(r, &d)
			switch {
			case d.Timer == saga.TimerLease, d.Timer == saga.TimerDetach:
				alone = r
			case d.Timer == saga.TimerLost:
				lost = true
				check("the wait for a process", alone, def.Session.LostWait, d.Due.Time)
			case d.Timer == saga.TimerHold && step != nil:
				check("the hold of step "+r.Path, held[r.Path], step.HoldFor, d.Due.Time)
			case d.Timer == "timeout":
				check("the timeout", records[0], def.Timeout, d.Due.Time)
			}
		}
	}
}
