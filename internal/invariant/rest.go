package invariant

import (
	"time"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// awake is invariant 12: the saga has ended, waits for a person, or has a wake-up that is not overdue.
func (c *checker) awake(t *tale) {
	if t.machine == nil || t.brokenAt != nil {
		return // invariant 2 is broken already
	}
	status := t.machine.Status()
	if h := t.Head; h != nil && status.Terminal() && h.Status != string(status) {
		c.say(12, t.ID, "its journal ends as %s, its row says %s", status, h.Status)
	}
	if status.Terminal() || status == saga.PausedStatus {
		return
	}
	if open := t.machine.Open(); len(open) > 0 {
		c.say(12, t.ID, "attempt %d of %s was sent, and nobody settles it", open[0].Number, open[0].Path)
		return
	}
	held, wakes := 0, 0
	for _, d := range t.machine.Decide() {
		switch d := d.(type) {
		case saga.Hold:
			held++
		case saga.WakeAt:
			if d.Woke.Path != "" {
				wakes++
			}
			if d.At.Before(c.clock) {
				c.say(12, t.ID, "it should have woken up at %s", d.At.Format(journal.TimeFormat))
			}
		default:
			c.say(12, t.ID, "it could go on, and does not")
			return
		}
	}
	if held == 0 && wakes != 1 {
		c.say(12, t.ID, "it is %s, waits for nobody, and has %d wake-ups", status, wakes)
	}
}

// attempts is invariant 14: no more of them than the policy allows, and no sooner.
func (c *checker) attempts(t *tale) {
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

func (c *checker) round(t *tale, n *told, list []sent, p retry.Policy) {
	since := 0 // attempts since a person's last order: they start the count again
	for i := range list {
		s := &list[i]
		if i > 0 && c.orderedBetween(t, n.path, list[i-1].record.Seq, s.record.Seq) {
			since = 0
		}
		since++
		if !p.Left(since - 1) {
			c.say(14, t.ID, "record %d is attempt %d of %s %s, of at most %d", s.record.Seq, since, s.record.Way, n.path, p.Attempts)
		}
		if i > 0 && since > 1 {
			c.gap(t, &list[i-1], s)
		}
	}
}

// gap checks that an attempt waited as long as the outcome before it said, and that this was as long as the other side asked for.
func (c *checker) gap(t *tale, before, s *sent) {
	at, r := before.result.RetryAt, before.outcome
	if r == nil || at == nil || before.result.Then != saga.ThenRetry {
		return
	}
	if s.record.At.Before(at.Time) {
		c.say(14, t.ID, "record %d was due at %s, and is of %s", s.record.Seq, at.UTC().Format(journal.TimeFormat), s.record.At.Format(journal.TimeFormat))
	}
	asked := retry.After(retryAfter(before.result), r.At)
	// The answer came a little before its record was written.
	if earliest := r.At.Add(asked - grace); asked > 0 && at.Before(earliest) {
		c.say(14, t.ID, "the other side asked for %s after record %d, and got %s", asked, r.Seq, at.Sub(r.At))
	}
}

// grace is what may lie between an answer and the record of it.
const grace = 2 * time.Second

func retryAfter(d saga.OutcomeData) string {
	var result struct {
		Headers map[string]string `json:"headers"`
	}
	if decode(journal.Record{Data: d.Result}, &result) != nil {
		return ""
	}
	return result.Headers["retry-after"]
}

func (c *checker) orderedBetween(t *tale, path string, from, to int64) bool {
	for _, r := range t.Records {
		if r.Kind == journal.Operator && r.Path == path && from < r.Seq && r.Seq < to {
			return true
		}
	}
	return false
}

// budget is invariant 15, by an account of its own: what forward intents reserve
// and outcomes settle stays within the budget at every prefix, until undoing begins, which is exempt.
func (c *checker) budget(t *tale) {
	limit, ok := t.limit()
	if !ok {
		return
	}
	var spent, reserved retry.Money
	open := make(map[step]retry.Money)
	for i, r := range t.Records {
		if i == t.planAt {
			return
		}
		at := step{t.ID, r.Path, r.Way, r.Generation}
		switch r.Kind {
		case journal.Operator:
			if raised, ok := raise(r); ok {
				limit = raised
			}
		case journal.Intent:
			open[at] = amount(reserveOf(r))
			reserved = reserved.Add(open[at])
		case journal.Outcome:
			if cost := costOf(r); cost != "" {
				spent, reserved = spent.Add(amount(cost)), reserved.Sub(open[at])
				delete(open, at)
			}
		}
		if used := spent.Add(reserved); used.Cmp(limit) > 0 {
			c.say(15, t.ID, "after record %d %s is spent and %s reserved, of %s", r.Seq, spent.Decimal(), reserved.Decimal(), limit.Decimal())
			return
		}
	}
}

// limit is the budget that the saga starts with.
func (t *tale) limit() (retry.Money, bool) {
	var d saga.StartedData
	if len(t.Records) > 0 && decode(t.Records[0], &d) == nil && d.Budget != nil && d.Budget.Amount != "" {
		return amount(d.Budget.Amount), true
	}
	if b := t.Definition.Budget; b != nil && b.Amount != nil {
		return amount(b.Amount.Decimal()), true
	}
	return retry.Money{}, false
}

func raise(r journal.Record) (retry.Money, bool) {
	var d saga.OrderData
	if decode(r, &d) != nil || d.Rejected != nil || d.Budget == nil || d.Budget.Amount == "" {
		return retry.Money{}, false
	}
	return amount(d.Budget.Amount), true
}

func reserveOf(r journal.Record) string {
	var d saga.IntentData
	if decode(r, &d) != nil {
		return ""
	}
	return d.Reserve
}

func costOf(r journal.Record) string {
	var d saga.OutcomeData
	if decode(r, &d) != nil {
		return ""
	}
	return d.Cost
}

// amount reads a decimal without its currency: a saga has one. Nothing, or nonsense, is zero.
func amount(decimal string) retry.Money {
	m, err := retry.Amount(decimal, "")
	if err != nil {
		return retry.Money{}
	}
	return m
}
