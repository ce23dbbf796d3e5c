package engine

import (
	"sync/atomic"
	"time"
)

// counters are the engine's counters since it was made.
type counters struct {
	commits, appends, failed, renewFailed, sent, stalled, expired, refused, givenUp, unheld, lost atomic.Int64

	commitTime atomic.Int64 // nanoseconds
}

func (c *counters) committed(appends int, took time.Duration, err error) {
	if err != nil {
		c.failed.Add(1)
		return
	}
	c.commits.Add(1)
	c.appends.Add(int64(appends))
	c.commitTime.Add(int64(took))
}

// Stats are the engine's counters since it was made, and its current state.
type Stats struct {
	Commits       int64         // successful
	Appends       int64         // in them; more than one per commit is group commit
	CommitTime    time.Duration // sum
	CommitsFailed int64
	RenewsFailed  int64
	RequestsSent  int64
	Running       int           // sagas in memory
	Calls         int           // requests in flight
	Stalled       int64         // sagas that nothing would have continued, see Stalled
	Expired       int64         // sagas that this node deleted because their retention had ended
	CommitAge     time.Duration // of the commit in flight, from its first try; 0: there is none
	StartsRefused int64         // with saga.ErrBusy
	GivenUp       int64         // sagas that this node could not continue, see Lane.giveUp
	Unheld        int64         // sagas that this node owned but did not run, see ErrUnheld
	Lost          int64         // sagas of which a failover lost records that this node had committed
	Starting      int           // starts whose commit is pending
	AnswerBytes   int64         // of responses that are being read, or whose outcome is not durable yet
	AnswersWait   int           // responses that wait to be read
	SagaBytes     int64         // of the records of sagas in memory
	MaxAnswers    int64         // Config.AnswerBytes
	MaxSagas      int64         // Config.SagaBytes
	MaxRunning    int           // Config's
	MaxCalls      int           // Config's
	MaxStarts     int           // Config's
	// Stalest is the longest time that a saga in memory has been without progress, as of the last
	// Watch.
	Stalest time.Duration
	Node    string // the id that it writes under; "" between leases
	Lanes   int
}

// Stats returns the engine's counts.
func (e *Engine) Stats() Stats {
	c := &e.stats
	st := Stats{
		Commits: c.commits.Load(), Appends: c.appends.Load(), CommitTime: time.Duration(c.commitTime.Load()),
		CommitsFailed: c.failed.Load(), RenewsFailed: c.renewFailed.Load(), RequestsSent: c.sent.Load(),
		Running: e.running(), Calls: len(e.calls), Stalled: c.stalled.Load(), Expired: c.expired.Load(), Node: e.node(), Lanes: len(e.lanes),
		StartsRefused: c.refused.Load(), GivenUp: c.givenUp.Load(), Unheld: c.unheld.Load(), Lost: c.lost.Load(), Starting: int(e.starting.Load()),
		MaxRunning: e.cfg.MaxRunning, MaxCalls: e.cfg.MaxCalls, MaxStarts: e.cfg.MaxStarts,
	}
	answers := e.answers.Usage()
	st.AnswerBytes, st.AnswersWait, st.SagaBytes, st.MaxAnswers, st.MaxSagas = answers.Used, answers.Waiting, e.sagaBytes(), answers.Size, int64(e.cfg.SagaBytes)
	for _, l := range e.lanes {
		if at := l.committing.Load(); at != nil {
			st.CommitAge = max(st.CommitAge, time.Since(*at))
		}
		if at := l.stalest.Load(); at != nil && !at.IsZero() {
			st.Stalest = max(st.Stalest, e.Now().Sub(*at))
		}
	}
	return st
}
