package engine

import (
	"sync/atomic"
	"time"
)

// counters are what the engine counts of itself.
type counters struct {
	commits, appends, failed, renewFailed, sent atomic.Int64
	commitTime                                  atomic.Int64 // nanoseconds
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
	Running       int // sagas in memory
	Calls         int // requests under way
}

// Stats returns the engine's counts.
func (e *Engine) Stats() Stats {
	c := &e.stats
	return Stats{
		Commits: c.commits.Load(), Appends: c.appends.Load(), CommitTime: time.Duration(c.commitTime.Load()),
		CommitsFailed: c.failed.Load(), RenewsFailed: c.renewFailed.Load(), RequestsSent: c.sent.Load(),
		Running: e.running(), Calls: len(e.calls),
	}
}
