package engine

import (
	"sync/atomic"
	"time"
)

// counters are what the engine counts of itself.
type counters struct {
	commits, appends, failed, renewFailed, sent, stalled, expired, refused, givenUp, strangers, lost atomic.Int64

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

// Stats are counts since the engine was made, and what it holds now.
type Stats struct {
	Commits       int64         // that went through
	Appends       int64         // in them: more than one per commit is group commit at work
	CommitTime    time.Duration // in sum
	CommitsFailed int64
	RenewsFailed  int64
	RequestsSent  int64
	Running       int           // sagas in memory
	Calls         int           // requests under way
	Stalled       int64         // sagas that nothing would have moved again, see Stalled
	Expired       int64         // sagas that this node has deleted because their retention was over
	CommitAge     time.Duration // of the commit under way, from its first try; 0: there is none
	StartsRefused int64         // with saga.ErrBusy
	GivenUp       int64         // sagas that this node could not go on with, see Lane.giveUp
	Strangers     int64         // sagas that were this node's and that it did not hold, see ErrStranger
	Lost          int64         // sagas of which a fail-over has lost what this node had acknowledged
	Starting      int           // starts that wait for their commit
	AnswerBytes   int64         // of answers that are being read, or whose outcome is not durable yet
	AnswersWait   int           // answers that wait to be read
	SagaBytes     int64         // of the records of sagas in memory
	MaxAnswers    int64         // Config.AnswerBytes
	MaxSagas      int64         // Config.SagaBytes
	MaxRunning    int           // Config's
	MaxCalls      int           // Config's
	MaxStarts     int           // Config's
	Stalest       time.Duration // how long the saga in memory has not moved that did not for longest, as last looked
	Node          string        // as which it writes; "" between leases
	Lanes         int
}

// Stats returns the engine's counts.
func (e *Engine) Stats() Stats {
	c := &e.stats
	st := Stats{
		Commits: c.commits.Load(), Appends: c.appends.Load(), CommitTime: time.Duration(c.commitTime.Load()),
		CommitsFailed: c.failed.Load(), RenewsFailed: c.renewFailed.Load(), RequestsSent: c.sent.Load(),
		Running: e.running(), Calls: len(e.calls), Stalled: c.stalled.Load(), Expired: c.expired.Load(), Node: e.node(), Lanes: len(e.lanes),
		StartsRefused: c.refused.Load(), GivenUp: c.givenUp.Load(), Strangers: c.strangers.Load(), Lost: c.lost.Load(), Starting: int(e.starting.Load()),
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
