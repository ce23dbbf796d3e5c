package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/mutant"
	"recourse/journal"
	"recourse/saga"
)

// LaneConfig are a lane's knobs.
type LaneConfig struct {
	ParkAfter  time.Duration // waits longer than this leave memory
	Retention  time.Duration // of sagas whose definition has none; 0 or saga.Forever: they are kept
	MaxBatch   int           // appends in one commit
	MaxBytes   int           // of all appends in one commit, by journal.Append.Size, unless it has only one; 0: any
	MaxRecords int           // records that one saga adds to one commit
	// MaxSagaBytes bounds the bytes of records of all sagas in the lane; 0: no bound. Above it, the
	// larger sagas leave memory between two steps.
	MaxSagaBytes int
	Random       func() uint64 // even draws, for jitter
	Notices      *saga.Notices // who is told of what happens to sagas; nil: nobody
	StallAfter   time.Duration // how long a request may wait before it leaves until its step is stalled; 0: for ever
}

// Lane runs the sagas that hash to it. It is the engine's logic: an event
// handler without goroutines, clocks or IO, so that a simulator can drive the
// very same code. Time comes in with each event, as the store's clock.
//
// A lane has at most one commit under way. What its sagas append meanwhile
// becomes the next one: that is all of group commit. A saga's state in memory runs ahead of
// what is committed; nothing leaves the process before it is.
type Lane struct {
	cfg      LaneConfig
	node     string // "" without a lease
	number   int    // of the last commit
	runs     map[uuid.UUID]*run
	queue    []*run // with something to append, first come first
	flight   []*run // whose appends are being committed
	batch    []journal.Append
	part     int // how many of the flight the commit under way has: the first ones
	failures int // to commit the flight
	draining bool
	watched  time.Time // the last Watch
	alarms   alarms
	stalest  time.Time
	strange  map[uuid.UUID]bool // owned by the last Owned, and not held since
	bytes    int                // bytes of records of its sagas
	now      time.Time
	out      []Effect
}

// NewLane returns an empty lane.
func NewLane(cfg LaneConfig) *Lane {
	return &Lane{cfg: cfg, runs: make(map[uuid.UUID]*run)}
}

// Len returns how many sagas the lane holds.
func (l *Lane) Len() int { return len(l.runs) }

// Bytes returns about how many bytes the lane's sagas take: those of the data of their records.
func (l *Lane) Bytes() int { return l.bytes }

// Alarm returns when the lane wants its next Tick; zero: it does not.
func (l *Lane) Alarm() time.Time { return l.alarms.next() }

// Handle takes one event in, at now, and returns what is to be done, in order.
func (l *Lane) Handle(now time.Time, ev Event) []Effect {
	l.now, l.out = now, nil
	switch ev := ev.(type) {
	case StartSaga:
		l.start(ev)
	case Loaded:
		l.load(ev)
	case Answered:
		l.answer(ev)
	case Received:
		l.receive(ev)
	case Committed:
		if ev.Number == l.number && len(l.flight) > 0 {
			l.committed(ev)
		}
	case LeaseLost:
		l.forget()
	case Leased:
		l.node = ev.Node
	case Tick:
		for _, id := range l.alarms.due(now) {
			if r := l.runs[id]; r != nil && r.broken == nil {
				r.alarm = time.Time{}
				l.isolate(r, func() error { return l.advance(r) })
			}
		}
	case Waits:
		if r := l.runs[ev.ID]; r != nil {
			if c := r.called(ev.Path, ev.Way, ev.Attempt); c != nil {
				c.until, r.watches, c.waitsFor = now.Add(c.timeout), 0, ev.For
			}
		}
	case Watch:
		l.watch()
	case Owned:
		l.reconcile(ev)
	case Stranger:
		l.giveUpStranger(ev)
	case Drain:
		l.drain()
	}
	l.flush()
	return l.out
}

func (l *Lane) emit(e Effect) { l.out = append(l.out, e) }

func (l *Lane) start(ev StartSaga) {
	if l.draining || l.failures > 0 || l.node == "" {
		l.emit(Replied{Reply: ev.Reply, Err: saga.ErrUnavailable})
		return
	}
	if l.runs[ev.ID] != nil {
		l.emit(Replied{Reply: ev.Reply, Err: journal.ErrConflict})
		return
	}
	ev.Start.CreatedAt = l.now.UTC().Truncate(time.Millisecond) // the time of `started`
	r := &run{id: ev.ID, m: saga.New(ev.Def, ev.ID), reply: ev.Reply, view: ev.View, moved: l.now}
	r.next.Saga, r.next.Start = ev.ID, &ev.Start
	l.add(r)
	l.isolate(r, func() error {
		if err := l.write(r, r.m.Start(ev.Data)); err != nil {
			return err
		}
		return l.advance(r)
	})
}

func (l *Lane) load(ev Loaded) {
	id := ev.Claimed.Saga
	if ev.Node != l.node {
		l.free(ev.Memory)
		return // claimed under an earlier lease, which another node has taken over
	}
	if old := l.runs[id]; old != nil {
		l.free(ev.Memory)
		if old.parking() || old.starting() {
			// The store has it released already and has given it to us again, but the answer to the
			// release is not in yet. Or a start of it is repeated here, and will be turned away.
			// The records that were read may be out of date by then.
			if !mutant.On("claimed-again-ignored") {
				old.again = &ev.Claimed
			}
		}
		return
	}
	r := &run{id: id, moved: l.now}
	r.next.Saga = id
	l.add(r)
	r.keep(ev.Memory)
	if ev.Err != nil {
		l.giveUp(r, ev.Err)
		return
	}
	l.isolate(r, func() error {
		m, err := saga.Replay(ev.Def, id, ev.Records)
		if err != nil {
			return err
		}
		r.m, r.shown = m, m.Status()
		for i := range ev.Records {
			l.grow(r, &ev.Records[i])
		}
		l.known(r)
		if r.shown == saga.Running {
			r.shown = saga.Waiting // parked as it may have been, its row is written anew
		}
		l.emit(Acquired{ID: id, Records: ev.Records, Machine: m, Cost: m.Cost()})
		for _, a := range m.InFlight() {
			if mutant.On("lost-attempts-forgotten") {
				break
			}
			if err := l.recordOutcome(r, a.Path, a.Way, a.Number, saga.InterruptedAnswer(), l.now); err != nil {
				return err
			}
		}
		for _, s := range m.Respawn() {
			if mutant.On("respawn-forgotten") {
				break
			}
			r.inFlight++
			l.perform(r, s)
		}
		return l.apply(r, ev.Messages, ev.At)
	})
}

func (l *Lane) answer(ev Answered) {
	r := l.runs[ev.ID]
	if r == nil || r.broken != nil {
		l.free(ev.Memory)
		return
	}
	r.keep(ev.Memory)
	ours := r.called(ev.Path, ev.Way, ev.Attempt) != nil
	r.uncall(ev.Path, ev.Way, ev.Attempt)
	if ev.Answer.Code == saga.Spawned { // the other saga tells by itself
		if ours {
			r.inFlight--
		}
		r.withdrawn = nil // it is there now, so it gets what came too early for it
		l.isolate(r, func() error { return l.advance(r) })
		return
	}
	l.isolate(r, func() error {
		err := l.recordOutcome(r, ev.Path, ev.Way, ev.Attempt, ev.Answer, ev.At)
		switch {
		case errors.Is(err, saga.ErrStale): // a message has told first, or it is an earlier life's
			l.giveBack(r, ev.Memory)
			if !ours {
				return nil
			}
		case err != nil:
			return err
		}
		r.inFlight--
		return l.advance(r)
	})
}

// recordOutcome records an attempt's answer. at is when it came, at the latest.
func (l *Lane) recordOutcome(r *run, path string, way journal.Way, attempt int, a saga.Answer, at time.Time) error {
	if at.Before(l.now) {
		at = l.now
	}
	at = at.Add(time.Millisecond - 1).Truncate(time.Millisecond) // what waits from then on does not begin early
	rec, err := r.m.RecordOutcome(path, way, attempt, a, at, l.cfg.Random())
	if err != nil {
		return err
	}
	return l.write(r, rec)
}

// receive takes messages in, and their memory until they are durable.
func (l *Lane) receive(ev Received) {
	r := l.runs[ev.ID]
	if r == nil || r.parking() { // whoever claims it next gets them
		l.free(ev.Memory)
		return
	}
	taken := len(r.next.Applied)
	r.keep(ev.Memory)
	l.isolate(r, func() error { return l.apply(r, ev.Messages, ev.At) })
	if len(r.next.Applied) == taken { // all were taken before
		l.giveBack(r, ev.Memory)
	}
}

// apply takes messages into the journal, then goes on.
func (l *Lane) apply(r *run, mail []journal.Message, at time.Time) error {
	for _, m := range mail {
		if r.applies(m.ID) {
			continue
		}
		r.next.Applied = append(r.next.Applied, m.ID)
		if mutant.On("mail-thrown-away") {
			continue
		}
		if r.m.Applied(m.ID) || r.m.Status().Terminal() {
			continue
		}
		var c saga.Command
		if err := json.Unmarshal(m.Data, &c); err != nil {
			return fmt.Errorf("%w: mail %s: %w", saga.ErrUnreadable, m.ID, err)
		}
		if c.Task != nil {
			if c.Attempt == 0 { // of another saga
				c.Attempt = r.m.InFlightAttempt(c.Path, c.Way, c.Task.Saga)
			}
			switch err := l.recordOutcome(r, c.Path, c.Way, c.Attempt, c.Task.Answer(), at); {
			case err == nil && c.Task.Outcome == string(journal.TaskExpired):
				l.workerSilent(r, c.Path)
			case err != nil && !errors.Is(err, saga.ErrStale):
				return err
			}
			continue
		}
		c.At = l.now
		rec, err := r.m.Validate(m.ID, c)
		var no *saga.Refusal
		if errors.As(err, &no) {
			rec = r.m.Reject(m.ID, c, no)
		} else if err != nil {
			return err
		}
		if err := l.write(r, rec); err != nil {
			return err
		}
		r.rewrite = true
	}
	return l.advance(r)
}

// write makes rec the journal's next record and takes it in. It is not durable yet.
func (l *Lane) write(r *run, rec journal.Record) error {
	rec = r.m.Seal(rec, l.now, l.node)
	if err := r.m.Apply(rec); err != nil {
		return err
	}
	if r.next.Records == nil {
		r.next.Records = make([]journal.Record, 0, 2) // an outcome and the next intent
	}
	r.next.Records = append(r.next.Records, rec)
	l.grow(r, &rec)
	if rec.Kind == journal.Compensating {
		// It comes with a row, whatever its append's size: a child's start that comes after it must
		// see that its parent is being undone.
		row := r.m.Row()
		r.next.Row, r.rewrite = &row, true
	}
	r.steps = r.steps || rec.Kind == journal.Outcome
	if !mutant.On("posts-forgotten") {
		r.next.Messages = append(r.next.Messages, r.m.Messages(rec)...)
	}
	r.moved, r.watches = l.now, 0
	return nil
}

// advance goes on with a saga as far as it can without the world, then sees to
// how it waits.
func (l *Lane) advance(r *run) error {
	defer l.notice(r)
	if r.parking() {
		return nil
	}
	for {
		// The record that ends a saga comes with its row, whatever its size: a child's start that
		// comes after it must see that the parent has ended.
		if len(r.next.Records) >= l.cfg.MaxRecords && !r.m.Status().Terminal() {
			r.more = true // go on when these are durable
			break
		}
		wrote, err := l.step(r)
		if err != nil {
			return err
		}
		if !wrote {
			l.park(r)
			break
		}
	}
	if r.next.Start != nil && r.next.Row == nil {
		row := r.m.Row()
		r.next.Row, r.shown = &row, saga.Running
	}
	l.enqueue(r)
	return nil
}

// step carries out the first decision that can be carried out now.
func (l *Lane) step(r *run) (wrote bool, err error) {
	r.yielded = false
	decisions := r.m.Decide()
	for _, d := range decisions {
		now := l.now
		if mutant.On("timers-fire-early") {
			now = now.Add(time.Second)
		}
		if w, ok := d.(saga.WakeAt); ok && !w.At.After(now) {
			return true, l.write(r, w.Woke)
		}
	}
	for _, d := range decisions {
		switch d := d.(type) {
		case saga.Dispatch:
			if l.draining || l.crowded(r) {
				r.yielded = true
				continue
			}
			if d.Send.Attempt > 1 && l.now.Sub(r.m.At()) > resendAfter {
				// Whether sending again is still safe goes by the last record's time.
				return true, l.write(r, journal.Record{Kind: journal.Woke, Path: d.Send.Path, Way: d.Send.Way, Data: resendData(l.now)})
			}
			if err := l.write(r, d.Intent); err != nil {
				return false, err
			}
			if d.Task != nil {
				r.next.Tasks = append(r.next.Tasks, *d.Task)
				return true, nil
			}
			r.inFlight++
			if d.Early && !l.waits(r) {
				l.perform(r, d.Send)
				return true, nil
			}
			r.sends = append(r.sends, d.Send)
			if mutant.On("send-before-commit") {
				l.emit(Perform{ID: r.id, Node: l.node, Permit: &r.permit, Send: d.Send})
				r.sends = nil
			}
			return true, nil
		case saga.Write:
			if !mutant.On("events-forgotten") {
				r.next.Events = append(r.next.Events, d.Events...)
			}
			return true, l.write(r, d.Record)
		}
	}
	return false, nil
}

// grow counts the bytes that a record takes in memory.
func (l *Lane) grow(r *run, rec *journal.Record) {
	r.size += len(rec.Data)
	l.bytes += len(rec.Data)
}

// crowded reports whether a saga that could go on has to leave memory before: there is too much in
// it, and the saga has its share of that at least. A node that has memory claims it again and goes
// on with its next step. It leaves only if an attempt of its has ended here, so that all sagas go
// on even if none fits, and nothing of it is under way.
func (l *Lane) crowded(r *run) bool {
	return l.cfg.MaxSagaBytes > 0 && l.bytes > l.cfg.MaxSagaBytes && r.steps && r.inFlight == 0 && r.size*len(l.runs) >= l.bytes
}

// perform has a request leave, and remembers that it is under way.
func (l *Lane) perform(r *run, s saga.Send) {
	r.calling(call{path: s.Path, way: s.Way, attempt: s.Attempt, timeout: s.Timeout}, l.now)
	l.emit(Perform{ID: r.id, Node: l.node, Permit: &r.permit, Send: s})
}

// waits reports whether a request that may leave early has to wait for what is not durable yet.
func (l *Lane) waits(r *run) bool {
	pending := r.next.Records[:len(r.next.Records)-1] // but for its own intent
	return r.starting() || r.broken != nil || r.m.Waits(r.sent.Records) || r.m.Waits(pending)
}

// resendAfter is how old the last record may be when a request is sent again on
// the strength of it.
const resendAfter = time.Second

func resendData(now time.Time) json.RawMessage {
	data, err := journal.Encode(saga.WokeData{Timer: "resend", Due: saga.Time{Time: now.UTC().Truncate(time.Millisecond)}})
	if err != nil {
		panic(err)
	}
	return data
}

// park decides how a saga waits that has nothing to do at once: in memory,
// with an alarm; or as a row, when the wait is long or has no end.
func (l *Lane) park(r *run) {
	r.more = false
	for _, task := range r.m.Unwanted() {
		if !slices.Contains(r.withdrawn, task) {
			r.withdrawn = append(r.withdrawn, task)
			r.next.Withdraw = append(r.next.Withdraw, task)
		}
	}
	for _, m := range r.m.Orphaned() {
		if !slices.Contains(r.withdrawn, m.ID) {
			r.withdrawn = append(r.withdrawn, m.ID)
			r.next.Messages = append(r.next.Messages, m)
		}
	}
	status, asks := r.m.Status(), r.m.InboxRevision()
	wake := r.m.WakeAt()
	soon := !wake.IsZero() && wake.Sub(l.now) <= l.cfg.ParkAfter
	switch {
	case r.inFlight > 0 || (soon && !l.draining && !r.yielded):
		l.alarm(r, wake)
		if shown(status) == shown(r.shown) && asks == r.inboxRevision && !r.rewrite && r.next.Start == nil {
			return
		}
	case status.Terminal():
		r.next.Release = true
	default:
		r.next.Release = true
		if r.yielded {
			wake = l.now // another node goes on at once
		}
	}
	row := r.m.Row()
	row.DeleteAt = l.cfg.deleteAt(r.m.Definition(), row.EndedAt)
	if r.next.Release && !status.Terminal() {
		row.WakeAt = wake
		if mutant.On("timers-only-in-memory") {
			row.WakeAt = time.Time{}
		}
	}
	r.next.Row, r.shown, r.inboxRevision, r.rewrite = &row, status, asks, false
}

// alarm has a saga that stays in memory looked at when its next wait is over. For a far one it
// looks again when it is nearer: most sagas are gone by then, and their alarms with them.
func (l *Lane) alarm(r *run, wake time.Time) {
	if wake.IsZero() {
		return
	}
	if far := l.now.Add(l.cfg.ParkAfter); wake.After(far) {
		if r.alarm.After(l.now) {
			return
		}
		wake = far
	}
	if wake.Equal(r.alarm) {
		return
	}
	r.alarm = wake
	if !mutant.On("alarms-forgotten") {
		l.alarms.add(wake, r.id)
	}
}

// shown folds the statuses between which a row is not rewritten: a short wait in
// memory shows as running.
func shown(s saga.Status) saga.Status {
	if s == saga.Waiting {
		return saga.Running
	}
	return s
}

// enqueue has a saga's append committed, once its last one is.
func (l *Lane) enqueue(r *run) {
	if r.queued || r.flying || r.empty() {
		return
	}
	r.queued = true
	l.queue = append(l.queue, r)
}

// flush commits what is queued, if no commit is under way.
func (l *Lane) flush() {
	if len(l.flight) > 0 || len(l.queue) == 0 || l.node == "" {
		return
	}
	n := l.fitting()
	l.flight = append([]*run(nil), l.queue[:n]...)
	l.queue = slices.Delete(l.queue, 0, n) // which forgets the runs: they can be large
	l.batch = make([]journal.Append, n)
	for i, r := range l.flight {
		r.queued, r.flying = false, true
		r.announce()
		r.sent, r.sending, r.next, r.sends = r.next, r.sends, journal.Append{Saga: r.id}, nil
		r.committing, r.memory = r.memory, nil
		l.batch[i] = r.sent
	}
	l.part = n
	l.try(0)
}

// fitting returns how many of the queue's appends one commit takes: all that count and bytes allow,
// and at least one.
func (l *Lane) fitting() int {
	most, size := min(len(l.queue), l.cfg.MaxBatch), 0
	for n := range most {
		size += l.queue[n].next.Size()
		if n > 0 && l.cfg.MaxBytes > 0 && size > l.cfg.MaxBytes {
			return n
		}
	}
	return most
}

// try commits the first part of the flight.
func (l *Lane) try(after time.Duration) {
	l.number++
	l.emit(Commit{Number: l.number, Node: l.node, Batch: l.batch[:l.part], After: after})
}

func (l *Lane) committed(ev Committed) {
	switch {
	case errors.Is(ev.Err, journal.ErrFenced):
		l.emit(Fenced{Node: l.node})
		l.forget()
		return
	case ev.Err != nil:
		l.repeat(ev.Err)
		return
	}
	if mutant.On("part-is-whole") {
		ev.Results = append(ev.Results, make([]journal.Result, len(l.flight)-l.part)...)
		l.part = len(l.flight)
	}
	done := l.flight[:l.part]
	l.flight, l.batch = l.flight[l.part:], l.batch[l.part:]
	if len(l.flight) == 0 {
		l.flight, l.batch, l.failures = nil, nil, 0
	}
	for i, r := range done {
		r.flying = false
		if l.runs[r.id] != r {
			continue // dropped meanwhile
		}
		l.durable(r, ev.Results[i])
	}
	if len(l.flight) > 0 { // the failures stand: what is left may have been written by a try of the whole
		l.part = min(2*l.part, len(l.flight))
		l.try(0)
	}
}

// durable lets out what waited for a saga's commit.
func (l *Lane) durable(r *run, res journal.Result) {
	l.free(r.committing...)
	r.committing = nil
	if res.Err != nil && !mutant.On("conflicts-ignored") {
		if r.reply != nil {
			l.emit(Replied{Reply: r.reply, ID: res.Saga, Err: res.Err})
			l.drop(r, res.Err)
			return
		}
		if r.broken == nil {
			// If the row is still this node's, nobody else would ever look at it: give it up.
			l.giveUp(r, res.Err)
			return
		}
		l.drop(r, r.broken)
		return
	}
	if r.broken != nil {
		if r.reply != nil { // it broke while its start was being committed: it is there all the same
			l.emit(Replied{Reply: r.reply, ID: r.id})
			r.reply = nil
		}
		if r.sent.Release {
			l.drop(r, r.broken)
		} else {
			l.enqueue(r)
		}
		return
	}
	if r.starting() && !r.sent.Release {
		r.again = nil // the start went through: the saga is held, and was not claimed after that
	}
	r.moved, r.watches = l.now, 0
	seq := r.m.Seq() - int64(len(r.next.Records))
	if r.reply != nil {
		reply := Replied{Reply: r.reply, ID: r.id}
		if r.view && len(r.next.Records) == 0 {
			v := r.m.View()
			reply.View = &v
		}
		l.emit(reply)
		r.reply = nil
	}
	if len(r.sent.Records) > 0 {
		grown := Advanced{ID: r.id, Seq: seq, Records: r.sent.Records, Machine: r.m}
		if r.sent.Release && r.m.Status().Terminal() {
			grown.Final = r.m
		}
		l.emit(grown)
	}
	for _, s := range r.sending {
		l.perform(r, s)
	}
	r.sending = nil
	released := r.sent.Release
	r.sent = journal.Append{}
	switch {
	case released:
		l.drop(r, nil)
	case r.more:
		l.isolate(r, func() error { return l.advance(r) })
	default:
		l.enqueue(r)
	}
}

// maxPause is the longest wait before a commit is repeated.
const maxPause = time.Second

// repeat tries the commit again: appending is idempotent, so it does no harm if
// it went through. Starts that surely were not written are turned away. A batch that did not get
// through in time is split, or it might never: each append stays whole, and is repeated as it was.
func (l *Lane) repeat(err error) {
	l.failures++
	if mutant.On("unknown-is-failed") && errors.Is(err, journal.ErrUnknown) {
		l.turnAway()
		for _, r := range l.flight {
			l.drop(r, err)
		}
		l.flight = nil
	}
	if !errors.Is(err, journal.ErrUnknown) && l.failures == 1 {
		l.turnAway()
	}
	if len(l.flight) == 0 {
		l.failures = 0
		return
	}
	l.part = min(l.part, len(l.flight))
	if errors.Is(err, context.DeadlineExceeded) {
		l.part = (l.part + 1) / 2
	}
	l.try(min(10*time.Millisecond<<min(l.failures, 10), maxPause))
}

func (l *Lane) turnAway() {
	keep, batch := l.flight[:0], l.batch[:0]
	for i, r := range l.flight {
		if r.sent.Start != nil && r.reply != nil {
			l.emit(Replied{Reply: r.reply, Err: saga.ErrUnavailable})
			r.reply = nil
			l.drop(r, saga.ErrUnavailable)
			continue
		}
		keep, batch = append(keep, r), append(batch, l.batch[i])
	}
	l.flight, l.batch = keep, batch
}

// forget drops everything: another node may own these sagas.
func (l *Lane) forget() {
	l.node = ""
	for _, r := range sorted(l.runs) {
		if r.reply != nil {
			l.emit(Replied{Reply: r.reply, Err: saga.ErrUnavailable})
		}
		l.drop(r, journal.ErrFenced)
	}
	l.queue, l.flight, l.batch, l.failures = nil, nil, nil, 0
	l.alarms, l.strange = nil, nil
}

func (l *Lane) drain() {
	l.draining = true
	for _, r := range sorted(l.runs) {
		if r.inFlight == 0 {
			l.isolate(r, func() error { return l.advance(r) })
		}
	}
}

// free gives back memory of answers and messages.
func (l *Lane) free(memory ...any) {
	for _, m := range memory {
		if m != nil && !mutant.On("memory-not-freed") {
			l.emit(Freed{Memory: m})
		}
	}
}

// giveBack frees the memory that r keeps since last, if it keeps any: nothing came of it that would
// be committed. nil: there was none.
func (l *Lane) giveBack(r *run, memory any) {
	if n := len(r.memory); n > 0 && memory != nil {
		r.memory = r.memory[:n-1]
		l.free(memory)
	}
}

// drop forgets a saga.
func (l *Lane) drop(r *run, why error) {
	delete(l.runs, r.id)
	l.bytes -= r.size
	r.permit.revoke()
	if r.queued {
		l.queue = slices.DeleteFunc(l.queue, func(q *run) bool { return q == r })
	}
	l.free(r.memory...)
	l.free(r.committing...)
	r.memory, r.committing = nil, nil
	l.emit(Dropped{ID: r.id, Err: why, Trace: r.trace()})
	if r.again != nil && l.node != "" {
		l.emit(Reload{Claimed: *r.again, Node: l.node})
	}
}

// isolate runs a saga's own logic. What it cannot read, or what breaks it, is set
// aside without a record being written: neither a later program's journal nor a
// bug of ours may stop the sagas beside it.
func (l *Lane) isolate(r *run, f func() error) {
	defer func() {
		if p := recover(); p != nil {
			l.giveUp(r, fmt.Errorf("panic: %v", p))
		}
	}()
	if err := f(); err != nil {
		l.giveUp(r, err)
	}
}

// giveUp gives a saga up without a record: its row becomes claimable later, by
// whichever node can go on with it.
func (l *Lane) giveUp(r *run, err error) {
	if r.next.Start != nil {
		l.emit(Replied{Reply: r.reply, Err: err})
		l.drop(r, err)
		return
	}
	r.permit.revoke()
	l.free(r.memory...)
	r.broken, r.more, r.sends, r.news, r.memory = err, false, nil, nil, nil
	r.next = journal.Append{Saga: r.id, Release: true, Stranger: err == ErrStranger}
	l.enqueue(r)
}
