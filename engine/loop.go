package engine

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/failpoint"
	"recourse/internal/quota"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// laneLoop drives one lane.
type laneLoop struct {
	e       *Engine
	lane    *Lane
	events  chan Event
	commit  chan Commit
	quit    chan struct{}
	empty   chan struct{} // closed when the lane has drained
	running atomic.Int64  // sagas in the lane
	bytes   atomic.Int64  // Lane.Bytes

	outage     outage
	committing atomic.Pointer[time.Time] // when the commit in flight was first tried; nil: there is none
	stalest    atomic.Pointer[time.Time] // Lane.Stalest
}

// prepare returns LaneConfig.Prepare; nil if no caller is a Preparer.
func (c *Config) prepare() func(kind string, r saga.Request) (saga.Request, bool) {
	by := make(map[string]Preparer)
	for kind, caller := range c.Callers { // any order
		if p, ok := caller.(Preparer); ok {
			by[kind] = p
		}
	}
	if len(by) == 0 {
		return nil
	}
	return func(kind string, r saga.Request) (saga.Request, bool) {
		p := by[kind]
		if p == nil {
			return r, false
		}
		return p.Prepare(r), true
	}
}

func newLaneLoop(e *Engine) *laneLoop {
	return &laneLoop{
		e: e,
		lane: NewLane(LaneConfig{ParkAfter: e.cfg.ParkAfter, Retention: e.cfg.Retention, MaxBatch: e.cfg.MaxBatch, MaxBytes: e.cfg.MaxBytes, MaxRecords: 256, MaxSagaBytes: e.cfg.SagaBytes / e.cfg.Lanes, MaxIdle: max(e.cfg.MaxRunning/(4*e.cfg.Lanes), 1), Random: random,
			Notices: e.cfg.Notices, StallAfter: e.cfg.StallAfter, Prepare: e.cfg.prepare()}),
		events: make(chan Event, 4096),
		commit: make(chan Commit, 1),
		quit:   make(chan struct{}),
		empty:  make(chan struct{}),
		outage: outage{what: "could not commit; the node will retry", log: e.cfg.Log, level: slog.LevelError},
	}
}

// run passes events to the lane and carries out its effects, until quit is closed.
func (l *laneLoop) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	watch := time.NewTicker(l.e.cfg.Watch)
	defer watch.Stop()
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
		case <-watch.C:
			ev = Watch{}
		}
		now, latest := l.e.lease.span()
		for _, eff := range l.lane.Handle(now, latest, ev) {
			l.do(eff)
		}
		l.running.Store(int64(l.lane.Len()))
		l.bytes.Store(int64(l.lane.Bytes()))
		if loaded, ok := ev.(Loaded); ok {
			l.e.loading.bytes.Add(-int64(size(loaded.Records)))
		}
		if _, ok := ev.(Committed); ok && l.e.window.MorePending() {
			nudge(l.e.more) // messages that waited for room
		}
		if len(l.lane.flight) == 0 {
			l.committing.Store(nil)
		}
		if _, ok := ev.(Watch); ok {
			at := l.lane.Stalest()
			l.stalest.Store(&at)
		}
		if at := l.lane.Alarm(); !at.IsZero() {
			timer.Reset(max(at.Sub(now), time.Millisecond))
		}
		if l.lane.draining && l.lane.Len() == 0 && !drained {
			drained = true
			close(l.empty)
		}
	}
}

// send passes an event to the lane, unless the lane has ended: then nothing receives from a full
// queue.
func (l *laneLoop) send(ev Event) {
	select {
	case l.events <- ev:
	case <-l.quit:
	}
}

func (l *laneLoop) do(eff Effect) {
	e := l.e
	switch eff := eff.(type) {
	case Commit:
		if eff.After == 0 || l.committing.Load() == nil {
			began := time.Now()
			l.committing.Store(&began)
		}
		e.hub.appending(eff.Batch)
		l.commit <- eff
	case Perform:
		e.workers.do(func() { l.perform(eff) })
	case Freed:
		switch m := eff.Memory.(type) {
		case *quota.Account:
			m.Close()
		case Delivery:
			e.window.Done(m)
		}
	case Took:
		eff.Reply.(chan bool) <- eff.Took
	case Replied:
		eff.Reply.(chan Replied) <- eff
	case Acquired:
		for _, o := range e.cfg.Observers {
			o.Acquired(Growth{Saga: eff.ID, Machine: eff.Machine, Records: eff.Records, Cost: eff.Cost})
		}
	case Advanced:
		e.hub.advanced(eff)
		if e.timeline.Load() > 0 {
			e.tails.add(eff.ID, eff.Records[len(eff.Records)-1], time.Now())
		}
		for _, o := range e.cfg.Observers {
			o.Appended(Growth{Saga: eff.ID, Machine: eff.Machine, Records: eff.Records, DeleteAt: eff.DeleteAt})
		}
	case Dropped:
		e.hub.released(eff.ID)
		for _, o := range e.cfg.Observers {
			o.Released(eff.ID)
		}
		if errors.Is(eff.Err, ErrUnheld) {
			e.stats.unheld.Add(1)
		} else if eff.Err != nil && !turnedDown(eff.Err) {
			if !errors.Is(eff.Err, journal.ErrFenced) && !errors.Is(eff.Err, saga.ErrUnavailable) {
				e.stats.givenUp.Add(1)
			}
		}
		if eff.Err != nil && !turnedDown(eff.Err) {
			e.about(eff.ID, eff.Trace).Warn("this node stopped running a saga", "error", eff.Err)
		}
	case Reload:
		e.loading.begin(eff.Claimed)
		e.work.Go(func() { e.load(l.quit, eff.Node, eff.Claimed) })
	case FoundUnheld:
		e.work.Go(func() { e.inspect(l.quit, eff) })
	case Stalled:
		e.stats.stalled.Add(1)
		e.about(eff.ID, eff.Trace).Error("a saga was stalled, which is a bug: it is read again from its journal; please report this log line", "step", eff.Path, "since", eff.Since, "why", eff.Why)
		if eff.Stall != nil {
			e.stalls.found(*eff.Stall)
		}
	case Delayed:
		e.stalls.found(eff.Stall)
	case Fenced:
		select {
		case e.fenced <- eff.Node:
		default:
		}
	}
}

// about returns a logger for lines about a saga. trace is nil if it is unknown.
func (e *Engine) about(id uuid.UUID, trace *saga.Trace) *slog.Logger {
	if trace == nil {
		return e.cfg.Log.With("saga", id)
	}
	return e.cfg.Log.With("saga", id, "trace_id", trace.ID.String())
}

// turnedDown reports whether err is a store's or a lane's refusal of a start. The client gets this
// error, so it needs no log line.
func turnedDown(err error) bool {
	return errors.Is(err, journal.ErrUnique) || errors.Is(err, journal.ErrStartKey) || errors.Is(err, journal.ErrNotNewest) || errors.Is(err, journal.ErrParentEnded) || errors.Is(err, machine.ErrTooLate)
}

// commits appends one batch after another.
func (l *laneLoop) commits() {
	for c := range l.commit {
		if c.After > 0 {
			select {
			case <-time.After(c.After):
			case <-l.quit:
			}
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(l.e.storeCtx, 30*time.Second)
		add := l.e.cfg.Store.Append
		if c.Deferred {
			add = l.e.health.AppendDeferred
		}
		results, err := add(ctx, c.Node, c.Batch)
		cancel()
		took := time.Since(began)
		l.e.stats.committed(len(c.Batch), took, err)
		if err == nil {
			l.e.cfg.Meter.Committed(len(c.Batch), took)
		}
		more := []any{"appends", len(c.Batch)}
		if len(c.Batch) == 1 {
			more = append(more, "saga", c.Batch[0].Saga)
		}
		l.outage.observe(err, more...)
		if err == nil && slices.ContainsFunc(c.Batch, func(a journal.Append) bool { return len(a.Messages) > 0 }) {
			l.e.wakeScanner() // a message may be for a saga of this node, or for one that no node runs
		}
		l.send(Committed{Number: c.Number, Results: results, Err: err})
	}
}

// perform sends one request, if the lease under which its intent was written is still valid, and
// returns the response to the lane.
func (l *laneLoop) perform(p Perform) {
	e := l.e
	l.turn(p)
	defer func() { <-e.calls }()
	var memory any
	answer := saga.Answer{Code: "not_sent", Detail: "the node stopped before its lease could be renewed"}
	if p.Send.Lives {
		answer = saga.Answer{Code: saga.Spawned} // an earlier node may have sent it
	}
	if !l.leased(p) {
		return // another node may own the saga, and decides about this attempt
	}
	switch {
	case !e.lease.valid():
	case !p.Send.Until.IsZero() && e.Now().After(p.Send.Until):
		answer.Detail = "the remote service may have forgotten the key by now"
	default:
		account := e.answers.Open()
		answer = l.read(p, l.call(p, account))
		if account.Held() > 0 {
			memory = account
		}
	}
	l.send(Answered{ID: p.ID, Path: p.Send.Path, Way: p.Send.Way, Attempt: p.Send.Attempt, Answer: answer, At: e.lease.latest(), Memory: memory})
}

// turn waits until one more request may be in flight. Meanwhile it reports to the lane that the
// request waits, so that the lane does not take it for lost.
func (l *laneLoop) turn(p Perform) {
	select {
	case l.e.calls <- struct{}{}:
		return
	default:
	}
	every := time.NewTicker(l.reportEvery())
	defer every.Stop()
	for waits := true; waits; {
		select {
		case l.e.calls <- struct{}{}:
			waits = false
		case <-every.C:
		}
		stall := ""
		if waits {
			stall = journal.StallNoSlot
		}
		l.waits(p, stall)
	}
}

// waits reports to the lane that a request has not been sent yet, and the kind of stall that it
// waits in; "": it has been sent.
func (l *laneLoop) waits(p Perform, stall string) {
	l.send(Waits{ID: p.ID, Path: p.Send.Path, Way: p.Send.Way, Attempt: p.Send.Attempt, For: stall})
}

// reportEvery is the interval at which a request that takes longer than its timeout is reported by
// waits, so that the lane does not take it for lost.
func (l *laneLoop) reportEvery() time.Duration {
	return min(l.e.cfg.Watch*stalledAfter, l.e.cfg.StallAfter) / 2
}

// leasePoll is the interval at which a request checks whether the lease is valid again.
const leasePoll = 20 * time.Millisecond

// leased waits until the lease is valid under which the intent was written, so that a slow database
// does not use up attempts. It returns false if the lease is lost. If it returns true because the
// engine stops, the lease may be invalid.
func (l *laneLoop) leased(p Perform) bool {
	e := l.e
	var waited time.Duration
	for ; e.lease.node() == p.Node && p.Permit.Valid(); waited += leasePoll {
		valid := e.lease.valid()
		if waited > 0 && (valid || waited%e.cfg.Watch < leasePoll) {
			stall := ""
			if !valid {
				stall = journal.StallNoLease
			}
			l.waits(p, stall)
		}
		if valid {
			return true
		}
		select {
		case <-time.After(leasePoll):
		case <-e.callCtx.Done():
			return true
		case <-l.quit:
			return false
		}
	}
	return false
}

// call performs a request, and reserves the memory of its response in the account. If the caller
// panics, the request may have been sent.
func (l *laneLoop) call(p Perform, memory *quota.Account) (answer saga.Answer) {
	s := p.Send
	defer func() {
		if v := recover(); v != nil {
			l.e.about(p.ID, s.Trace).Error("panic while sending a request; please report this log line", "step", s.Path, "kind", s.Kind, "panic", v, "stack", string(debug.Stack()))
			answer = saga.Answer{Sent: true, Code: saga.Interrupted, Detail: "the node failed while it sent the request; its log has the details"}
		}
	}()
	caller := l.e.cfg.Callers[s.Kind]
	if caller == nil {
		return saga.Answer{Code: "unknown_kind", Detail: "this node cannot perform steps of kind " + s.Kind}
	}
	if err := failpoint.Err("send.before."+sendPoint(s), nil); err != nil {
		return saga.Answer{Code: "connection", Detail: err.Error()}
	}
	l.e.stats.sent.Add(1)
	s.Request.Traceparent = s.Traceparent()
	ctx := quota.NewContext(l.e.callCtx, memory)
	if streamer, ok := caller.(Streamer); ok {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		memory.OnWait(l.waitsForMemory(p, cancel))
		answer = streamer.Stream(ctx, s.Request, s.Timeout, l.pulse(p))
	} else {
		ctx := withPausableTimeout(ctx, s.Timeout)
		defer ctx.cancel()
		memory.OnWait(ctx.pause)
		memory.OnWait(l.waitsForMemory(p, ctx.cancel))
		answer = caller.Call(ctx, s.Request)
	}
	if err := failpoint.Err("send.after."+sendPoint(s), nil); err != nil {
		return saga.Answer{Sent: true, Code: "connection", Detail: err.Error()}
	}
	return answer
}

// largeBody is the size in bytes above which responses are read one after another, and largeReads
// how many at the same time: decoded, they take about 25 times as much memory.
const (
	largeBody  = 64 << 10
	largeReads = 2
)

// read finds out what a response means as far as that can take seconds, so that the lane, and with
// it its other sagas, does not wait for it.
func (l *laneLoop) read(p Perform, answer saga.Answer) (read saga.Answer) {
	if len(answer.Body) > largeBody {
		defer l.reporting(p)()
		l.e.reads <- struct{}{}
		defer func() { <-l.e.reads }()
	}
	defer func() {
		if recover() != nil {
			read = answer // the lane reads it again, panics too, and knows what follows for the saga
		}
	}()
	return p.Send.Read(answer)
}

// reporting reports to the lane at intervals that a request is not lost, until stop is called.
func (l *laneLoop) reporting(p Perform) (stop func()) {
	ended := make(chan struct{})
	l.e.work.Go(func() {
		every := time.NewTicker(l.reportEvery())
		defer every.Stop()
		for {
			select {
			case <-ended:
				return
			case <-every.C:
				l.waits(p, "")
			}
		}
	})
	return func() { close(ended) }
}

// waitsForMemory returns a function for quota.Account.OnWait. It reports to the lane that a
// response waits for memory, so that the lane does not take its request for lost, and when that
// wait is over. It cancels the wait if the response is no longer needed.
func (l *laneLoop) waitsForMemory(p Perform, cancel func()) func(bool) {
	var over chan struct{}
	return func(waits bool) {
		if !waits {
			close(over)
			return
		}
		ended := make(chan struct{}) // of this wait: a response may wait more than once
		over = ended
		l.e.work.Go(func() {
			report := time.NewTicker(min(l.reportEvery(), p.Send.Timeout/2))
			defer report.Stop()
			wanted := time.NewTicker(wantedPoll)
			defer wanted.Stop()
			for {
				select {
				case <-ended:
					l.waits(p, "")
					return
				case <-report.C:
					l.waits(p, journal.StallNoMemory)
				case <-wanted.C:
					if !p.Permit.Valid() {
						cancel()
					}
				}
			}
		})
	}
}

// wantedPoll is the interval at which a response that waits for memory checks whether this node
// still runs its saga.
const wantedPoll = 200 * time.Millisecond

// pulse returns a function that reports to the lane, at intervals, that a response is still
// arriving.
func (l *laneLoop) pulse(p Perform) func() {
	every := p.Send.Timeout / 2
	reported := time.Now()
	return func() {
		if now := time.Now(); now.Sub(reported) >= every {
			reported = now
			l.waits(p, "")
		}
	}
}

// sendPoint names the failpoint of a request: status checks have their own.
func sendPoint(s machine.Send) string {
	if _, query := saga.SplitQuery(s.Path); query {
		return "verify"
	}
	return string(s.Way)
}
