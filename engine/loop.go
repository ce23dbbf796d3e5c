package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"recourse/internal/failpoint"
	"recourse/journal"
	"recourse/saga"
)

// laneLoop is the goroutines around one lane.
type laneLoop struct {
	e      *Engine
	lane   *Lane
	events chan Event
	commit chan Commit
	quit   chan struct{}
	empty  chan struct{} // closed when the lane has drained
	held   atomic.Int64  // sagas in the lane
}

func newLaneLoop(e *Engine) *laneLoop {
	return &laneLoop{
		e:      e,
		lane:   NewLane(LaneConfig{ParkAfter: e.cfg.ParkAfter, MaxBatch: e.cfg.MaxBatch, MaxRecords: 256, Chance: chance}),
		events: make(chan Event, 4096),
		commit: make(chan Commit, 1),
		quit:   make(chan struct{}),
		empty:  make(chan struct{}),
	}
}

// run feeds the lane.
func (l *laneLoop) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	defer close(l.commit)
	drained := false
	for {
		var ev Event
		select {
		case <-l.quit:
			return
		case ev = <-l.events:
		case <-timer.C:
			ev = Tick{}
		}
		now := l.e.Now()
		for _, eff := range l.lane.Handle(now, ev) {
			l.do(eff)
		}
		l.held.Store(int64(l.lane.Len()))
		if at := l.lane.Alarm(); !at.IsZero() {
			timer.Reset(max(at.Sub(now), time.Millisecond))
		}
		if l.lane.draining && l.lane.Len() == 0 && !drained {
			drained = true
			close(l.empty)
		}
	}
}

func (l *laneLoop) do(eff Effect) {
	e := l.e
	switch eff := eff.(type) {
	case Commit:
		l.commit <- eff
	case Perform:
		e.work.Go(func() { l.perform(eff) })
	case Replied:
		eff.Reply.(chan Replied) <- eff
	case Advanced:
		e.hub.notify(eff.ID)
	case Dropped:
		if eff.Err != nil && !errors.Is(eff.Err, journal.ErrUnique) && !errors.Is(eff.Err, journal.ErrStartKey) { // which the client is told
			e.cfg.Log.Warn("saga dropped from this node", "saga", eff.ID, "error", eff.Err)
		}
	case Reload:
		e.work.Go(func() { e.load(l.quit, eff.Node, eff.Claimed) })
	case Fenced:
		select {
		case e.lost <- eff.Node:
		default:
		}
	}
}

// commits appends one batch after the other.
func (l *laneLoop) commits() {
	for c := range l.commit {
		if c.After > 0 {
			select {
			case <-time.After(c.After):
			case <-l.quit:
			}
		}
		hit("commit.before.", c.Batch)
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		results, err := l.e.cfg.Store.Append(ctx, c.Node, c.Batch)
		cancel()
		l.e.stats.committed(len(c.Batch), time.Since(began), err)
		if err != nil {
			l.e.cfg.Log.Error("commit did not go through; it is repeated", "error", err, "appends", len(c.Batch))
		} else {
			hit("commit.after.", c.Batch)
		}
		select {
		case l.events <- Committed{Number: c.Number, Results: results, Err: err}:
		case <-l.quit:
		}
	}
}

// hit passes the failpoints of a batch: one for each record.
func hit(prefix string, batch []journal.Append) {
	if !failpoint.Enabled {
		return
	}
	for _, a := range batch {
		for _, r := range a.Records {
			name := prefix + string(r.Kind)
			if r.Kind == journal.Intent || r.Kind == journal.Outcome {
				name += "." + string(r.Way)
			}
			failpoint.Hit(name)
		}
	}
}

// perform sends one request, if the lease under which its intent was written
// still holds, and brings the answer back.
func (l *laneLoop) perform(p Perform) {
	e := l.e
	e.calls <- struct{}{}
	defer func() { <-e.calls }()
	answer := saga.Answer{Code: "not_sent", Detail: "the node's lease could not be renewed in time"}
	if e.lease.node() != p.Node {
		return // the saga is another's; what it does about this attempt is its own affair
	}
	switch {
	case !e.lease.valid():
	case !p.Send.Until.IsZero() && e.Now().After(p.Send.Until):
		answer.Detail = "the other side may have forgotten the key by now"
	default:
		answer = l.call(p.Send)
	}
	select {
	case l.events <- Answered{ID: p.ID, Path: p.Send.Path, Way: p.Send.Way, Attempt: p.Send.Attempt, Answer: answer}:
	case <-l.quit:
	}
}

func (l *laneLoop) call(s saga.Send) saga.Answer {
	caller := l.e.cfg.Callers[s.Kind]
	if caller == nil {
		return saga.Answer{Code: "unknown_kind", Detail: "this node cannot perform steps of kind " + s.Kind}
	}
	ctx, cancel := context.WithTimeout(l.e.callCtx, s.Timeout)
	defer cancel()
	failpoint.Hit("send.before." + string(s.Way))
	l.e.stats.sent.Add(1)
	answer := caller.Call(ctx, s.Request)
	failpoint.Hit("send.after." + string(s.Way))
	return answer
}
