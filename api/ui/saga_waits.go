package ui

import (
	"encoding/json"
	"time"

	"recourse/journal"
	"recourse/saga"
)

// wait is something that a saga waits for, other than a person.
type wait struct {
	Path, Text string
	Link       string
	Until      time.Time // zero: no end is known
}

// maxWaits is how many waits a page lists.
const maxWaits = 12

// waits lists what the saga waits for, but for people: those have the inbox's entries. more is how many are left out.
func (d *dossier) waits(link func(string) string) (list []wait, more int) {
	if d.ended() {
		return nil, 0
	}
	if d.Saga.Status == saga.PausedStatus {
		list = append(list, wait{Text: "somebody to resume it"})
	}
	if d.machine == nil {
		return list, 0
	}
	last := d.lastIntents()
	for _, s := range d.Steps {
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

// wait says what a step waits for, if it does and nobody is asked.
func (d *dossier) wait(s saga.StepView, last map[string]journal.Record) (wait, bool) {
	for _, e := range d.Entries {
		if e.Path == s.Path {
			return wait{}, false
		}
	}
	switch s.Status {
	case saga.StepRunning, saga.StepWaiting, saga.StepInDoubt, saga.StepUndoing:
	default:
		return wait{}, false
	}
	r := last[s.Path]
	var intent saga.IntentData
	var outcome outcomeGist
	switch {
	case r.Kind == journal.Outcome && json.Unmarshal(r.Data, &outcome) == nil && outcome.RetryAt != nil:
		text := "its next attempt"
		if outcome.Then == saga.ThenVerify {
			text = "asking the other side"
		}
		return wait{Text: text, Until: outcome.RetryAt.Time}, true
	case r.Kind != journal.Intent || json.Unmarshal(r.Data, &intent) != nil:
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
		return wait{Text: "the answer to its request"}, true
	}
	return wait{}, false
}

// lastIntents are the last intents and outcomes of steps, from the journal's end.
func (d *dossier) lastIntents() map[string]journal.Record {
	last := map[string]journal.Record{}
	for i := len(d.Records) - 1; i >= 0; i-- {
		r := d.Records[i]
		if r.Kind != journal.Intent && r.Kind != journal.Outcome {
			continue
		}
		step, _ := saga.SplitQuery(r.Path)
		if _, ok := last[step]; !ok {
			last[step] = r
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
