package timeline

import (
	"strconv"
	"strings"
	"time"

	"recourse/api/ui/format"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
)

// builder builds bars from a lane's records, in order.
type builder struct {
	lane *lane
	end  time.Time
}

func (b *builder) add(r *journal.Record) {
	query := history.TrackOf(r).Check
	switch r.Kind {
	case journal.Called:
		if d, _ := history.DataOf[saga.CalledData](r); d.Resembles != "" {
			b.wait("person", r.At, "may repeat "+d.Resembles+", waits for a person")
		}
	case journal.Intent:
		b.intent(r, query)
	case journal.Outcome:
		b.outcome(r, query)
	case journal.Skipped:
		b.lane.bars = append(b.lane.bars, bar{stretch: stretch{r.At, r.At}, what: "skipped", point: true, said: []string{"skipped: its `when` is false"}})
	case journal.Woke:
		b.close(r.At)
	case journal.Operator:
		if d, ok := history.DataOf[saga.CommandData](r); ok && d.Rejected == nil {
			b.close(r.At)
		}
	case journal.Decided:
		b.decided(r)
	}
}

func (b *builder) intent(r *journal.Record, query bool) {
	b.close(r.At)
	one := bar{stretch: stretch{from: r.At}, what: "running", path: r.Path, attempt: r.Attempt, query: query, open: true}
	if r.Attempt == 0 {
		one.what, one.said = "wait", []string{"waits"}
		if d, ok := history.DataOf[saga.IntentData](r); ok {
			switch {
			case d.Awaited != nil && d.Awaited.Approval != nil:
				one.what, one.said = "person", []string{"asks for an approval"}
			case d.Awaited != nil:
				one.said = []string{"waits for the signal " + d.Awaited.Signal}
			case d.WakeAt != nil:
				one.said = []string{"sleeps until " + format.Clock(d.WakeAt.Time)}
			}
		}
	} else if r.Key != "" {
		one.said = append(one.said, "key "+r.Key)
	}
	b.lane.bars = append(b.lane.bars, one)
}

func (b *builder) outcome(r *journal.Record, query bool) {
	d, _ := history.OutcomeOf(r) // an unreadable record still has its class
	if r.Attempt == 0 {
		if !b.close(r.At) || r.Class != journal.Succeeded {
			b.lane.bars = append(b.lane.bars, bar{stretch: stretch{r.At, r.At}, what: string(r.Class), point: true, said: gist(d)})
		}
		return
	}
	for i := len(b.lane.bars) - 1; i >= 0; i-- {
		one := &b.lane.bars[i]
		if one.path == r.Path && one.attempt == r.Attempt && one.query == query && one.open {
			one.what, one.open, one.to = string(r.Class), false, r.At
			one.said = append(one.said, gist(d)...)
			break
		}
	}
	switch d.Next {
	case saga.NextRetry, saga.NextVerify:
		if d.RetryAt != nil && d.RetryAt.After(r.At) {
			b.wait("backoff", r.At, "waits until "+format.Clock(d.RetryAt.Time))
		}
	case saga.NextAwaitResolution, saga.NextAwaitCredentials, saga.NextBlock, saga.NextHold:
		b.wait("person", r.At, "waits for a person")
	}
}

func (b *builder) decided(r *journal.Record) {
	d, _ := history.DataOf[saga.DecidedData](r) // an unreadable record still ends the wait
	b.close(r.At)
	switch {
	case d.Enter, d.Branch != nil && *d.Branch >= 0:
		b.lane.bars = append(b.lane.bars, bar{stretch: stretch{from: r.At}, what: "block", open: true, said: []string{"its steps run"}})
	case d.Next == saga.NextAwaitResolution, d.Next == saga.NextAwaitCredentials, d.Next == saga.NextBlock, d.Next == saga.NextHold:
		b.wait("person", r.At, "waits for a person")
	}
}

func (b *builder) wait(what string, from time.Time, said string) {
	b.lane.bars = append(b.lane.bars, bar{stretch: stretch{from: from}, what: what, open: true, said: []string{said}})
}

// close ends the open waits, and reports whether there were any. Attempts end by their outcomes.
func (b *builder) close(at time.Time) (closed bool) {
	for i := range b.lane.bars {
		if one := &b.lane.bars[i]; one.open && one.attempt == 0 {
			one.open, one.to, closed = false, at, true
		}
	}
	return closed
}

// gist describes an outcome in a few lines.
func gist(d history.Outcome) (said []string) {
	if d.StatusCode > 0 {
		said = append(said, "HTTP "+strconv.Itoa(d.StatusCode))
	}
	if d.Error != nil {
		said = append(said, format.Cut(160, d.Error.Error()))
	}
	if strings.Trim(d.Cost, "0.") != "" {
		said = append(said, "cost "+d.Cost)
	}
	return said
}
