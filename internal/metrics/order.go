package metrics

import (
	"slices"

	"recourse/journal"
	"recourse/saga"
)

// ordered are the orders that people give. Sagas' words to those that they run are none.
var ordered = []string{"approve", "cancel", "compensate", "patch", "pause", "reject", "resolve", "resume", "retry"}

// order counts what a person has told the saga, and what that means for a doubt.
func (r *reader) order(rec journal.Record) {
	d := decode[saga.OrderData](rec)
	if !slices.Contains(ordered, d.Do) {
		return
	}
	if d.Rejected != nil {
		r.told(d.Do, "refused")
		return
	}
	r.told(d.Do, "done")
	if d.Do != "resolve" {
		return
	}
	switch d.Outcome {
	case "succeeded", "failed":
		r.settle(sideOf(rec), "person")
	case "compensated":
		r.settle(sideOf(rec), "person")
		r.count(r.m.compensations, "by_hand")
	case "skip":
		r.settle(sideOf(rec), "person")
		if rec.Way == journal.Undo {
			r.count(r.m.compensations, "skipped")
		}
	}
}

func (r *reader) told(order, result string) {
	if !r.quiet {
		r.m.orders.WithLabelValues(order, result).Inc()
	}
}
