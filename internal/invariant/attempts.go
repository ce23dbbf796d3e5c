package invariant

import (
	"encoding/json"
	"time"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// attempts checks invariant 14: the number of attempts, and the delays between them, follow the
// policy.
func (c *sagaCheck) attempts(t *sagaState) {
	for _, n := range t.order {
		if n.step == nil {
			continue
		}
		c.round(t, n, n.do, n.step.Retry)
		if n.step.Compensate != nil {
			c.round(t, n, n.undo, n.step.Compensate.Retry)
		}
	}
}

func (c *sagaCheck) round(t *sagaState, n *stepState, list []sent, p retry.Policy) {
	since := 0 // attempts since the last command of a person, or hold, which restart the count
	for i := range list {
		s := &list[i]
		if i > 0 && roundBetween(t, n.path, list[i-1].record.Seq, s.record.Seq) {
			since = 0
		}
		since++
		if !p.Left(since - 1) {
			c.say(14, s.record.Seq, "record %d is attempt %d of %s %s, of at most %d", s.record.Seq, since, s.record.Way, n.path, p.Attempts)
		}
		if i > 0 && (since > 1 || held(&list[i-1])) {
			c.gap(&list[i-1], s)
		}
	}
}

// gap checks that an attempt waited as long as the outcome before it said, and that this was at
// least as long as the remote service asked for.
func (c *sagaCheck) gap(before, s *sent) {
	r := before.outcome
	if r == nil || before.result.RetryAt == nil || before.result.Next != saga.NextRetry && !held(before) {
		return
	}
	at := before.result.RetryAt
	if s.record.At.Before(at.Time) && !held(before) { // a person may end a hold earlier
		c.say(14, s.record.Seq, "record %d was due at %s, but is of %s", s.record.Seq, stamp(at.Time), stamp(s.record.At))
	}
	asked := retry.After(retryAfter(before.result), r.At)
	// The response arrived shortly before its record was written.
	if earliest := r.At.Add(asked - grace); asked > 0 && at.Before(earliest) {
		c.say(14, r.Seq, "the remote service asked for a delay of %s after record %d, but the delay was %s", asked, r.Seq, at.Sub(r.At))
	}
}

// grace is the time that may pass between a response and its record.
const grace = 2 * time.Second

func retryAfter(d *saga.OutcomeData) string {
	var result struct {
		Headers map[string]string `json:"headers"`
	}
	if len(d.Result) == 0 || json.Unmarshal(d.Result, &result) != nil {
		return ""
	}
	return result.Headers["retry-after"]
}

// held reports whether the step was held after an attempt.
func held(s *sent) bool { return s.result != nil && s.result.Next == saga.NextHold }

// roundBetween reports whether a new round of attempts of a step has begun between two records: by
// a command of a person, or because a hold has ended.
func roundBetween(t *sagaState, path string, from, to int64) bool {
	hold := false
	for i, r := range t.Records {
		if r.Seq <= from || r.Seq >= to {
			continue
		}
		switch d := t.data[i].(type) {
		case *saga.OutcomeData:
			if d.Changed != "" {
				return true // steps that use the answer run again
			}
			hold = hold || r.Path == path && d.Next == saga.NextHold
		case *saga.DecidedData:
			hold = hold || r.Path == path && d.Next == saga.NextHold
		case *saga.WokeData:
			if r.Path == path && (d.Timer == saga.TimerHold || d.Timer == saga.TimerFresh) {
				return true
			}
		case *saga.CommandData:
			if r.Kind == journal.Operator && r.Path == path || hold && r.Kind == journal.Resumed && d.Rejected == nil {
				return true
			}
		}
	}
	return false
}
