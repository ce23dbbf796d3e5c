package invariant

import (
	"slices"
	"strings"
	"time"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
)

// stepState is the state of one step, from its journal.
type stepState struct {
	path    string
	step    *saga.Step // nil: not in the definition, or no definition
	first   int64
	do      []sent // intents of the step itself
	undo    []sent
	state   journal.Class // of the forward track, at the end; "" if it never ended
	ended   time.Time     // of the last forward record that is no intent
	settled bool          // undone, skipped or abandoned: the compensation has ended
	lifted  bool          // by a person or by `when`: no compensation was needed
	over    bool          // the step itself has ended, by a record of its own
	// undoneBefore says that the saga whose outcome it is has tried to undo it.
	undoneBefore bool
}

// sent is one intent, with the outcome of its attempt.
type sent struct {
	record  journal.Record
	data    *saga.IntentData
	outcome *journal.Record
	result  *saga.OutcomeData
}

func (n *stepState) apply(r journal.Record, data any) {
	n.over = n.over || r.Way != journal.Undo && endsForward(r, data)
	switch d := data.(type) {
	case *saga.IntentData:
		if d.Request != nil && d.Awaited == nil { // otherwise it is sent once it is approved
			list := n.intents(r.Way)
			*list = append(*list, sent{record: r, data: d})
		}
	case *saga.OutcomeData:
		n.took(r, d)
	case *saga.DecidedData:
		n.decided(d)
	case *saga.CommandData:
		n.command(r, d)
	default:
		if r.Kind == journal.Skipped && r.Way == journal.Undo {
			n.settled, n.lifted = true, true
		}
	}
}

// endsForward reports whether a record of a step's forward track ends it.
func endsForward(r journal.Record, data any) bool {
	switch d := data.(type) {
	case *saga.OutcomeData:
		return d.Next == saga.NextDone || d.Next == saga.NextFail || d.Next == saga.NextInDoubt
	case *saga.DecidedData:
		return d.Branch == nil && !d.Enter && (d.Next == saga.NextDone || d.Next == saga.NextFail || d.Next == saga.NextInDoubt)
	case *saga.CommandData:
		return d.Rejected == nil && d.Outcome != "retry"
	}
	return r.Kind == journal.Skipped
}

func (n *stepState) intents(way journal.Way) *[]sent {
	if way == journal.Undo {
		return &n.undo
	}
	return &n.do
}

func (n *stepState) took(r journal.Record, d *saga.OutcomeData) {
	list := *n.intents(r.Way)
	for i := range list {
		if list[i].record.Attempt == r.Attempt && r.Attempt > 0 {
			list[i].outcome, list[i].result = &r, d
		}
	}
	switch {
	case r.Way == journal.Undo && d.Next == saga.NextDone:
		n.settled = true
	case r.Way != journal.Undo:
		n.state = r.Class
	}
}

func (n *stepState) decided(d *saga.DecidedData) {
	switch {
	case d.Branch != nil, d.Enter:
	case d.Next == saga.NextDone:
		n.state = journal.Succeeded
	case d.Next == saga.NextFail:
		n.state = journal.Refused
	}
}

func (n *stepState) command(r journal.Record, d *saga.CommandData) {
	if d.Rejected != nil {
		return
	}
	switch d.Outcome {
	case "succeeded":
		n.state = journal.Succeeded
	case "failed":
		n.state = journal.Refused
	case "compensated":
		n.settled, n.lifted = true, true
	case "skip":
		n.settled, n.lifted = r.Way == journal.Undo, true
	}
}

// wrote reports whether the step has sent a request that can have an effect.
func (n *stepState) wrote() bool {
	if n.step == nil || len(n.do) == 0 {
		return false
	}
	switch n.step.Body.(type) {
	case saga.Queued, saga.Spawner:
		return false // the effects of workers and of other sagas are in no ledger
	}
	c, ok := n.step.Body.(saga.Call)
	return ok && !c.ReadOnly() && !n.readsOnly()
}

// readsOnly reports whether the step calls a tool of which its server has said that it only reads.
func (n *stepState) readsOnly() bool {
	for _, s := range n.do {
		if s.data.Request.Reads() || s.data.Request.Tool != nil && s.result != nil && s.result.Hint == saga.HintRead {
			return true
		}
	}
	return false
}

// shown reports whether the step's key was sent in a place that every ledger records.
func (n *stepState) shown() bool {
	switch p := n.step.Idempotency; p.In {
	case idempotency.Header:
		return strings.EqualFold(p.Name, idempotency.DefaultPlacement.Name)
	case idempotency.Body:
		return true
	}
	return false
}

// skippedByWhen reports whether the compensation's `when` was false.
func (n *stepState) skippedByWhen() bool { return n.lifted && n.settled && len(n.undo) == 0 }

// keysOf lists the different keys of a track's intents.
func keysOf(list []sent) []string {
	var keys []string
	for _, s := range list {
		if k := s.record.Key; k != "" && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}
