package metrics

import (
	"slices"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
)

// commands are the commands of people. Messages between sagas are not counted.
var commands = []string{"approve", "cancel", "compensate", "patch", "pause", "reject", "resolve", "resume", "retry", "undo"}

// command counts a person's command, and its effect on a doubt.
func (r *reader) command(e *history.Event) {
	d, _ := history.DataOf[saga.CommandData](e.Record)
	if !slices.Contains(commands, d.Kind) {
		return
	}
	if d.Rejected != nil {
		r.reported(d.Kind, "refused")
		return
	}
	r.reported(d.Kind, "done")
	if d.Kind != "resolve" {
		return
	}
	switch d.Outcome {
	case "succeeded", "failed":
		r.settleDoubt(e.Track, "person")
	case "compensated":
		r.settleDoubt(e.Track, "person")
		r.count(r.m.compensations, "by_hand")
	case "skip":
		r.settleDoubt(e.Track, "person")
		if e.Way == journal.Undo {
			r.count(r.m.compensations, "skipped")
		}
	}
}

func (r *reader) reported(command, result string) {
	if !r.quiet {
		r.m.commands.WithLabelValues(command, result).Inc()
	}
}
