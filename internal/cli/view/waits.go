package view

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"recourse/internal/cli"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// Wait is what a step waits for.
type Wait struct {
	what  string    // "retries", "waits for approval"
	until time.Time // when the wait ends; zero if unknown
	limit bool      // until is the latest time, not the expected one
}

// Text describes the wait at a time.
func (w Wait) Text(now time.Time) string {
	left := w.until.Sub(now)
	switch {
	case w.until.IsZero():
		return w.what
	case left <= 0:
		return w.what + " now"
	case w.limit:
		return fmt.Sprintf("%s, for %s more", w.what, cli.Span(left))
	}
	return fmt.Sprintf("%s in %s", w.what, cli.Span(left))
}

// timers describes what follows the end of a timer.
var timers = map[string]string{"backoff": "retries", "sleep": "continues", "verify": "asks the remote service", saga.TimerHold: "on hold, tries again"}

// Waits returns the waits of a live saga's steps, by path.
func (w *Saga) Waits(views []machine.StepView) map[string]Wait {
	by := make(map[string]Wait)
	for _, v := range views {
		if what := w.others(v); what != "" {
			by[v.Path] = Wait{what: what}
		}
	}
	for _, d := range w.Machine.Decide() {
		switch d := d.(type) {
		case machine.Escalate:
			by[d.Entry.Path] = Wait{what: person(d.Entry)}
		case machine.WakeAt:
			w.timer(by, d)
		}
	}
	return by
}

// timer adds a timer of a step.
func (w *Saga) timer(by map[string]Wait, d machine.WakeAt) {
	path, _ := saga.SplitQuery(d.Woke.Path)
	woke, ok := d.Woke.Data.(saga.WokeData)
	if path == "" || !ok {
		return // the saga's own timeout is not a wait
	}
	what, sure := timers[woke.Timer]
	if there, ok := by[path]; ok && !sure {
		there.until, there.limit = d.At, true
		by[path] = there
		return
	}
	if d.Woke.Way == journal.Undo {
		what = "undoes it again"
	}
	if what != "" {
		by[path] = Wait{what: what, until: d.At}
	}
}

// others describes whom a running step waits for: a worker, another saga, or the sender of a
// signal.
func (w *Saga) others(v machine.StepView) string {
	step := w.Def.Step(v.Path)
	if v.Status != machine.StepWaiting && v.Status != machine.StepRunning || step == nil {
		return ""
	}
	if r, ok := step.Body.(saga.Receiver); ok && v.Status == machine.StepWaiting {
		return "waits for signal " + r.Signal()
	}
	inFlight := false
	for _, at := range v.Attempts {
		inFlight = inFlight || at.EndedAt == nil
	}
	var r saga.Request
	if !inFlight || json.Unmarshal(v.Input, &r) != nil {
		return ""
	}
	switch {
	case r.Task != nil:
		return "waits for a worker of type " + r.Task.Type
	case r.Child != nil:
		return "waits for saga " + r.Child.Saga
	}
	return ""
}

// person describes why a person is needed.
func person(e saga.Entry) string {
	switch e.Kind {
	case saga.InboxApproval:
		if len(e.Approvers) > 0 {
			return "waits for approval by " + strings.Join(e.Approvers, ", ")
		}
		return "waits for approval"
	case saga.InboxBudget:
		return "waits for a higher budget"
	case saga.InboxExhausted:
		return "on hold until somebody resumes the saga"
	case saga.InboxSession:
		return "waits for a process of its agent"
	case saga.InboxRepeat:
		return "waits for somebody to compare it with an earlier call"
	case saga.InboxHeld:
		return "waits until its credentials or its configuration are fixed"
	case saga.InboxInDoubt:
		return "waits for somebody to find out whether it happened"
	}
	return "needs somebody to fix it"
}
