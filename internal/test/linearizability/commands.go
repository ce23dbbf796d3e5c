package linearizability

import (
	"fmt"
	"slices"

	"recourse/saga"
)

// command checks a command, and adds the events of its response.
func (c *checker) command(o Op) {
	s, a := c.byID[o.Saga], o.Answer
	switch {
	case a.unknown():
		c.lost(s, o)
	case s == nil:
		c.fail("a command to a saga that does not exist was answered", o)
	case a.Code == "key_in_flight": // implies nothing for the saga
	case o.Verb() == "retry" && a.ok() && (a.Status == 201 || a.Status == 200):
		c.retried(s, o)
	case a.ok() && a.Replayed: // a stored response: keys() checks it
	case a.ok():
		c.carriedOut(s, o)
	default:
		c.refused(s, o)
	}
}

// lost handles a command that may have been carried out at any time after it was sent.
func (c *checker) lost(s *Saga, o Op) {
	if made := c.byMark[o.Command.Reason]; made != nil {
		c.says(made, o, event{mayBegin: true})
		return
	}
	if s == nil || c.asked[o.Command.Reason] > 1 { // the record may belong to another request
		return
	}
	at := append(s.carriedOut(o.Command.Reason), s.turnedDown(o.Command.Reason, "")...)
	if len(at) > 1 {
		c.fail("a command that was sent once is in the journal twice", o)
	}
	if len(at) > 0 {
		c.says(s, o, event{writes: true, at: exactly(at...)})
	}
}

// carriedOut handles a command with the response 200 or 202.
func (c *checker) carriedOut(s *Saga, o Op) {
	a, mark := o.Answer, o.Command.Reason
	at := s.carriedOut(mark)
	if seq := o.Command.IfSeq; seq != 0 {
		at = slices.DeleteFunc(at, func(n int64) bool { return n != seq+1 })
	}
	sent := c.asked[mark]
	if len(at) > sent || len(at) > 1 && o.Key != "" {
		c.fail(fmt.Sprintf("a command that was sent %d times, with the key %q, was carried out %d times", sent, o.Key, len(at)), o)
	}
	if o.Verb() == "cancel" && s.End() == saga.Succeeded {
		c.fail("a saga succeeded although its cancel was acknowledged", o)
	}
	seen := slices.DeleteFunc(slices.Clone(at), func(n int64) bool { return n > a.Seq })
	stored := a.Status == 202 && o.Verb() != "cancel" // the saga may apply it later, and reject it then
	switch {
	case sent > 1 && (stored || len(seen) > 0): // the record may belong to an earlier request, or come later
	case len(seen) > 0:
		c.says(s, o, event{writes: true, at: exactly(seen...)})
	case !stored:
		c.fail("a command was acknowledged, but the journal that it showed does not have it", o)
		return
	case len(at) == 0 && len(s.turnedDown(mark, "")) == 0 && !s.End().Terminal():
		c.fail("a command was stored, but nobody has read it", o)
		return
	}
	if o.Verb() == "resolve" { // the response is the step
		c.says(s, o, event{at: exactly(a.Seq)})
		return
	}
	c.reads(s, o, a.Seq, a.Body)
}

// refused handles a command with a 4xx response.
func (c *checker) refused(s *Saga, o Op) {
	code := o.Answer.Code
	at := append(s.turnedDown(o.Command.Reason, code), s.refuses(o.Command, code)...)
	if o.Verb() == "retry" && code == "saga_succeeded" && s.End() == saga.Succeeded {
		at = append(at, s.length())
	}
	if o.Verb() == "compensate" && s.undoRefused(code) {
		at = append(at, s.length())
	}
	slices.Sort(at)
	if len(at) == 0 {
		c.fail(fmt.Sprintf("saga %s never was as this refusal says", s.ID()), o)
		return
	}
	c.says(s, o, event{at: exactly(at...)})
}

// retried handles the retry of a saga that had ended, which starts a new saga.
func (c *checker) retried(s *Saga, o Op) {
	a := o.Answer
	made := c.byID[a.Saga]
	if made == nil || made.Started.RetryOf != s.ID() {
		c.fail("an acknowledged retry has no saga", o)
		return
	}
	if !s.End().Terminal() {
		c.fail(fmt.Sprintf("saga %s was started again, but has not ended", s.ID()), o)
		return
	}
	if a.Replayed { // with an earlier state of the saga
		c.says(made, o, event{at: existing})
		if why := made.shows(a.Seq, a.Body); why != "" {
			c.fail(fmt.Sprintf("saga %s: %s", made.ID(), why), o)
		}
		return
	}
	c.says(s, o, event{at: exactly(s.length())})
	c.says(made, o, event{begins: true})
	c.reads(made, o, a.Seq, a.Body)
}
