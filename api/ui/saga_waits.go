package ui

import (
	"time"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/machine"
)

// wait is something that a saga waits for, except people.
type wait struct {
	Path, Text string
	Link       string
	Until      time.Time // zero if no end is known
}

// maxWaits is the maximum of waits on a page.
const maxWaits = 12

// waits lists what the saga waits for, except people, who have the inbox entries. more is the
// number of omitted waits.
func (d *sagaPage) waits(link func(string) string) (list []wait, more int) {
	if d.ended() {
		return nil, 0
	}
	if d.Saga.Status == saga.PausedStatus {
		list = append(list, wait{Text: "somebody to resume it"})
	}
	if d.machine == nil {
		return list, 0
	}
	var waiting []machine.StepView
	for _, s := range d.Steps {
		if mayWait(s.Status) {
			waiting = append(waiting, s)
		}
	}
	last := d.lastIntents(waiting)
	for _, s := range waiting {
		w, ok := d.wait(s, last)
		if !ok {
			continue
		}
		if len(list) >= maxWaits {
			more++
			continue
		}
		w.Path, w.Link = s.Path, link(s.Path)
		list = append(list, w)
	}
	return list, more
}

// mayWait reports whether steps of a status may wait for something.
func mayWait(s machine.StepStatus) bool {
	return s == machine.StepRunning || s == machine.StepWaiting || s == machine.StepInDoubt || s == machine.StepUndoing
}

// wait returns what a step waits for; false if it does not wait, or waits for a person.
func (d *sagaPage) wait(s machine.StepView, last map[string]*journal.Record) (wait, bool) {
	for _, e := range d.Entries {
		if e.Path == s.Path {
			return wait{}, false
		}
	}
	r := last[s.Path]
	if r == nil {
		return wait{}, false
	}
	if r.Kind == journal.Outcome {
		outcome, err := history.OutcomeOf(r)
		if err != nil || outcome.RetryAt == nil {
			return wait{}, false
		}
		text := "its next attempt"
		if outcome.Next == saga.NextVerify {
			text = "a status check of the remote service"
		}
		return wait{Text: text, Until: outcome.RetryAt.Time}, true
	}
	intent, ok := history.DataOf[saga.IntentData](r)
	switch {
	case !ok:
		return wait{}, false
	case intent.Awaited != nil && intent.Awaited.Signal != "":
		return wait{Text: "the signal " + intent.Awaited.Signal, Until: until(intent.WakeAt)}, true
	case intent.WakeAt != nil:
		return wait{Text: "the timer", Until: intent.WakeAt.Time}, true
	case s.Kind == "task":
		return wait{Text: "a worker"}, true
	case s.Kind == "run":
		return wait{Text: "the saga that it runs"}, true
	case r.Attempt > 0:
		return wait{Text: "the response to its request"}, true
	}
	return wait{}, false
}

// lastIntents returns the last intents and outcomes of steps.
func (d *sagaPage) lastIntents(of []machine.StepView) map[string]*journal.Record {
	last := make(map[string]*journal.Record, len(of))
	wanted := make(map[string]bool, len(of))
	for _, s := range of {
		wanted[s.Path] = true
	}
	for i := len(d.Records) - 1; i >= 0 && len(wanted) > 0; i-- {
		r := &d.Records[i]
		if r.Kind != journal.Intent && r.Kind != journal.Outcome {
			continue
		}
		if step := history.TrackOf(r).Step; wanted[step] {
			last[step] = r
			delete(wanted, step)
		}
	}
	return last
}

func until(at *saga.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.Time
}
