package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/notify"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// LaneConfig configures a lane. MaxBatch, MaxRecords and Random must be set.
type LaneConfig struct {
	ParkAfter time.Duration // a saga with a longer wait leaves memory
	Retention time.Duration // of sagas whose definition sets none; 0 or saga.Forever: they are kept
	MaxBatch  int           // appends in one commit
	// MaxBytes bounds all appends in one commit, by journal.Append.Size, unless it has only one; 0:
	// no bound.
	MaxBytes   int
	MaxRecords int // records that one saga adds to one commit
	// MaxSagaBytes bounds the bytes of the records of all sagas in the lane; 0: no bound.
	// Above it, the larger sagas leave memory between two steps.
	MaxSagaBytes int
	// MaxIdle bounds how many sagas the lane may have while a session stays in memory without
	// anything in progress; 0: no bound.
	MaxIdle int
	Random  func() uint64   // uniform random numbers, for jitter
	Notices *notify.Notices // builds the notifications about sagas; nil: none
	// StallAfter is how long a request may wait to be sent before its step counts as stalled; 0:
	// without bound.
	StallAfter time.Duration
	// Prepare returns a request of a kind of step as its intent records it, and false if that is r
	// itself: see [Preparer]. It does not block. nil: all requests are recorded as they are.
	Prepare func(kind string, r saga.Request) (saga.Request, bool)
}

// Lane runs the sagas that its shell assigns to it. It is an event handler without goroutines,
// clocks or IO; see the package comment.
type Lane struct {
	cfg      LaneConfig
	node     string // "" without a lease
	number   int    // of the last Commit
	runs     map[uuid.UUID]*run
	queue    []*run // sagas with something to append, in order of arrival
	flight   []*run // sagas whose appends are being committed
	batch    []journal.Append
	part     int       // the commit in flight has so many of flight, from the first
	tried    time.Time // when it was or will be tried
	failures int       // commits that have failed since the last one that has not
	alone    int       // appends among them that failed by themselves, for the first time
	rest     time.Time // no commit is tried before
	down     bool      // the store probably fails whatever it is given, so starts are refused
	commits  int       // that have succeeded
	draining bool
	// deferred are the sagas whose appends failed by themselves. They are tried again when they are
	// due. retrying says that the commit in flight, or the last one, is such a try.
	deferred    []*run
	retrying    bool
	watched     time.Time // when the last Watch came
	alarms      alarms
	stalest     time.Time
	unheld      map[uuid.UUID]bool // listed by the last Owned, and not run since
	bytes       int                // bytes of records of its sagas
	now, latest time.Time          // see Handle
	out         []Effect
}

// NewLane returns an empty lane.
func NewLane(cfg LaneConfig) *Lane {
	return &Lane{cfg: cfg, runs: make(map[uuid.UUID]*run)}
}

// Len returns how many sagas are in the lane.
func (l *Lane) Len() int { return len(l.runs) }

// Bytes returns about how many bytes the lane's sagas take: the data of their records.
func (l *Lane) Bytes() int { return l.bytes }

// Alarm returns when the lane needs its next Tick; zero: no Tick is needed.
func (l *Lane) Alarm() time.Time {
	at := l.alarms.next()
	if len(l.flight) == 0 {
		for _, r := range l.deferred {
			at = earlier(at, r.due)
		}
	}
	return at
}

// Handle takes one event and the earliest and the latest time that the store's clock may show
// (Lease.Now, Lease.Latest), and returns the effects of the event in the order in which they must
// be carried out. Records have the earliest time, and waits begin at the latest.
func (l *Lane) Handle(now, latest time.Time, ev Event) []Effect {
	l.now, l.latest, l.out = now, latest, nil
	switch ev := ev.(type) {
	case StartSaga:
		l.start(ev)
	case Loaded:
		l.load(ev)
	case Answered:
		l.answer(ev)
	case Received:
		l.receive(ev)
	case Asked:
		l.asked(ev)
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
	case Unheld:
		l.releaseUnheld(ev)
	case Drain:
		l.drain()
	}
	l.flush()
	return l.out
}

func (l *Lane) emit(e Effect) { l.out = append(l.out, e) }

func (l *Lane) start(ev StartSaga) {
	if l.draining || l.down || l.node == "" {
		l.emit(Replied{Reply: ev.Reply, Err: saga.ErrUnavailable})
		return
	}
	if l.runs[ev.ID] != nil {
		l.emit(Replied{Reply: ev.Reply, Err: journal.ErrConflict})
		return
	}
	ev.Start.CreatedAt = l.now.UTC().Truncate(time.Millisecond) // the same time as the record `started`
	r := &run{id: ev.ID, m: machine.New(ev.Def, ev.ID), reply: ev.Reply, view: ev.View, moved: l.now}
	r.next.Saga, r.next.Start = ev.ID, &ev.Start
	l.add(r)
	l.isolate(r, func() error {
		if err := l.write(r, r.m.Start(ev.Data)); err != nil {
			return err
		}
		if r.m.BegunLate() {
			return machine.ErrTooLate
		}
		return l.advance(r)
	})
}

func (l *Lane) load(ev Loaded) {
	id := ev.Claimed.Saga
	if ev.Node != l.node {
		l.free(ev.Memory)
		return // claimed under an earlier lease: another node may own the saga by now
	}
	if old := l.runs[id]; old != nil {
		l.free(ev.Memory)
		if old.parking() || old.starting() {
			// Either the release is committed, and the saga was claimed again before Committed
			// arrived. Or a repeated start of the saga is being committed here and will be refused.
			// The records of ev may be out of date by then, so the saga is read again.
			old.again = &ev.Claimed
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
		m, err := machine.Replay(ev.Def, id, ev.Records)
		if err != nil {
			return err
		}
		m.Clock(l.latest)
		r.m, r.shown = m, m.Status()
		for i := range ev.Records {
			l.grow(r, &ev.Records[i])
		}
		l.known(r)
		if r.shown == saga.Running {
			r.shown = saga.Waiting // its row may say waiting, so it must be written again
		}
		l.emit(Acquired{ID: id, Records: ev.Records, Machine: m, Cost: m.Cost()})
		for _, a := range m.InFlight() {
			if err := l.recordOutcome(r, a.Path, a.Way, a.Number, saga.InterruptedAnswer(), l.latest); err != nil {
				return err
			}
		}
		for _, s := range m.Respawn() {
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
	if ev.Answer.Code == saga.Spawned { // the child sends its result as a message
		if ours {
			r.inFlight--
		}
		r.withdrawn = nil // the child exists now: messages that came too early for it are sent again
		l.isolate(r, func() error { return l.advance(r) })
		return
	}
	l.isolate(r, func() error {
		err := l.recordOutcome(r, ev.Path, ev.Way, ev.Attempt, ev.Answer, ev.At)
		switch {
		// A message has brought the outcome first, or the attempt belongs to an earlier load.
		case errors.Is(err, machine.ErrStale):
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

// recordOutcome records the outcome of an attempt. at is the latest time at which the answer can
// have arrived.
func (l *Lane) recordOutcome(r *run, path string, way journal.Way, attempt int, a saga.Answer, at time.Time) error {
	if at.Before(l.now) {
		at = l.latest
	}
	at = at.Add(time.Millisecond - 1).Truncate(time.Millisecond) // round up: a delay must not begin early
	rec, err := r.m.RecordOutcome(path, way, attempt, a, at, l.cfg.Random())
	if err != nil {
		return err
	}
	return l.write(r, rec)
}

// receive applies messages, and keeps their memory until they are durable.
func (l *Lane) receive(ev Received) {
	r := l.runs[ev.ID]
	if r == nil || r.parking() { // the next node that claims the saga reads them
		l.free(ev.Memory)
		return
	}
	taken := len(r.next.Applied)
	r.keep(ev.Memory)
	l.isolate(r, func() error { return l.apply(r, ev.Messages, ev.At) })
	if len(r.next.Applied) == taken { // all of them were applied before
		l.giveBack(r, ev.Memory)
	}
}

// asked applies a command that came without a message.
func (l *Lane) asked(ev Asked) {
	r := l.runs[ev.ID]
	took := r != nil && r.broken == nil && !r.parking() && !r.starting() && !l.draining && !r.applies(ev.Message)
	l.emit(Took{Reply: ev.Reply, Took: took})
	if !took || r.m.Applied(ev.Message) || r.m.Status().Terminal() {
		return
	}
	l.isolate(r, func() error {
		if err := l.command(r, ev.Message, ev.Command); err != nil {
			return err
		}
		return l.advance(r)
	})
}

// command applies or refuses a command.
func (l *Lane) command(r *run, message uuid.UUID, c saga.Command) error {
	c.At = l.now
	rec, err := r.m.Validate(message, c)
	if refusal, ok := errors.AsType[*machine.Refusal](err); ok {
		rec = r.m.Reject(message, c, refusal)
	} else if err != nil {
		return err
	}
	if rec.Kind == "" {
		return nil // it changes nothing
	}
	if o, ok := c.Do.(saga.AskModel); ok && o.Body != nil && rec.Kind == journal.Called {
		if r.contents == nil {
			r.contents = make(map[string]*[]byte)
		}
		r.contents[rec.Path] = &o.Body
	}
	if rec.Kind != journal.Called { // a call is in the row as little as a step's intent is
		r.rewrite = true
	}
	return l.write(r, rec)
}

// apply applies messages to the saga, then continues it.
func (l *Lane) apply(r *run, messages []journal.Message, at time.Time) error {
	for _, m := range messages {
		if r.applies(m.ID) {
			continue
		}
		r.next.Applied = append(r.next.Applied, m.ID)
		if r.m.Applied(m.ID) || r.m.Status().Terminal() {
			continue
		}
		var c saga.Command
		if err := json.Unmarshal(m.Data, &c); err != nil {
			return fmt.Errorf("%w: message %s: %w", saga.ErrUnreadable, m.ID, err)
		}
		var err error
		if end, ok := c.Do.(saga.EndTask); ok {
			err = l.endTask(r, c.Path, end, at)
		} else {
			err = l.command(r, m.ID, c)
		}
		if err != nil {
			return err
		}
	}
	return l.advance(r)
}

// endTask applies the end of a task. The task without a path is the lease of a session's life.
func (l *Lane) endTask(r *run, path string, end saga.EndTask, at time.Time) error {
	if path == "" {
		rec, ok := r.m.EndLife(end.Attempt, end.Result.Outcome, l.now)
		if !ok {
			return nil
		}
		r.rewrite = true
		return l.write(r, rec)
	}
	if end.Attempt == 0 { // the result of a child saga, which does not know the attempt
		end.Attempt = r.m.InFlightAttempt(path, end.Way, end.Result.Saga)
	}
	err := l.recordOutcome(r, path, end.Way, end.Attempt, end.Result.Answer(), at)
	switch {
	case err == nil && end.Result.Outcome == string(journal.TaskExpired):
		l.workerSilent(r, path)
	case errors.Is(err, machine.ErrStale):
		return nil
	}
	return err
}

// write appends a record to the saga's journal in memory and applies it. It is not durable yet.
func (l *Lane) write(r *run, d machine.Draft) error {
	prev := r.m.Hash()
	rec, err := r.m.Append(d, l.now, l.node)
	if err != nil {
		return err
	}
	if r.next.Records == nil {
		r.next.Prev, r.next.Alike = prev, r.like()
		r.next.Records = make([]journal.Record, 0, 2) // an outcome and the next intent
	}
	r.next.Records = append(r.next.Records, rec)
	r.next.Blobs = append(r.next.Blobs, d.Blobs...)
	l.grow(r, &rec)
	if rec.Kind != journal.Called { // it is sent now, or never
		delete(r.contents, rec.Path)
	}
	if rec.Kind == journal.Attached {
		r.next.Tasks = append(r.next.Tasks, r.m.LeaseTask())
	}
	if rec.Kind == journal.Compensating {
		// This record needs the row in its own append, however large that is: a child's start that
		// is committed later must see that its parent is being undone.
		row := r.m.Row()
		r.next.Row, r.rewrite = &row, true
	}
	r.steps = r.steps || rec.Kind == journal.Outcome
	r.next.Messages = append(r.next.Messages, r.m.Messages(rec)...)
	r.moved, r.watches = l.now, 0
	return nil
}

// like describes the records of the definition's sagas. Those of sessions are not known before.
func (r *run) like() *journal.Alike {
	if def := r.m.Definition(); r.alike == nil && def.Session == nil {
		r.alike = &journal.Alike{Name: def.Name + "@" + def.SHA256, Records: func() []journal.Record { return machine.Sample(def) }}
	}
	return r.alike
}

// advance continues a saga until every step waits for something, then parks it or sets its alarm.
func (l *Lane) advance(r *run) error {
	defer l.notice(r)
	if r.parking() {
		return nil
	}
	for {
		// The record that ends a saga needs the row in its own append, however large that is: a
		// child's start that is committed later must see that the parent has ended.
		if len(r.next.Records) >= l.cfg.MaxRecords && !r.m.Status().Terminal() {
			r.more = true // continue when these are durable
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

// step carries out the first decision that is possible now.
func (l *Lane) step(r *run) (wrote bool, err error) {
	r.yielded = false
	decisions := r.m.Decide()
	for _, d := range decisions {
		if w, ok := d.(machine.WakeAt); ok && !w.At.After(l.now) {
			return true, l.write(r, w.Woke)
		}
	}
	for _, d := range decisions {
		switch d := d.(type) {
		case machine.Dispatch:
			if l.draining || l.crowded(r) {
				r.yielded = true
				continue
			}
			if d.Send.Attempt > 1 && l.now.Sub(r.m.At()) > resendAfter {
				// The machine decides by the last record's time whether a resend is still safe
				// (key_window), and that record is old: write a new one first.
				return true, l.write(r, machine.Draft{Kind: journal.Woke, Path: d.Send.Path, Way: d.Send.Way, Data: saga.WokeData{Timer: "resend", Due: saga.Time{Time: l.now.UTC().Truncate(time.Millisecond)}}})
			}
			d = l.prepared(d)
			d.Send.Request.Content = r.contents[d.Send.Path]
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
			return true, nil
		case machine.Write:
			r.next.Events = append(r.next.Events, d.Events...)
			return true, l.write(r, d.Record)
		}
	}
	return false, nil
}

// prepared adds to an intent and its request what the caller of the kind knows.
func (l *Lane) prepared(d machine.Dispatch) machine.Dispatch {
	data, ok := d.Intent.Data.(saga.IntentData)
	if l.cfg.Prepare == nil || !ok {
		return d
	}
	r, changed := l.cfg.Prepare(d.Send.Kind, d.Send.Request)
	if changed {
		data.Request = &r
		d.Intent.Data, d.Send.Request = data, r
	}
	return d
}

// grow adds the bytes of a record to the saga's size.
func (l *Lane) grow(r *run, rec *journal.Record) {
	r.size += len(rec.Data)
	l.bytes += len(rec.Data)
}

// crowded reports whether a saga that could continue must leave memory first: the lane is above
// MaxSagaBytes, and this saga takes at least an average share. A node that has memory claims the
// saga again and continues with its next step. The saga leaves only if it has no attempt in flight,
// and one of its attempts has ended here: so all sagas make progress even if none of them fits.
func (l *Lane) crowded(r *run) bool {
	return l.cfg.MaxSagaBytes > 0 && l.bytes > l.cfg.MaxSagaBytes && r.steps && r.inFlight == 0 && r.size*len(l.runs) >= l.bytes
}

// perform emits a request, and remembers that it is in flight.
func (l *Lane) perform(r *run, s machine.Send) {
	r.calling(call{path: s.Path, way: s.Way, attempt: s.Attempt, timeout: s.Timeout}, l.now)
	l.emit(Perform{ID: r.id, Node: l.node, Permit: &r.permit, Send: s})
}

// waits reports whether a request that may be sent early must wait for records that are not durable
// yet.
func (l *Lane) waits(r *run) bool {
	pending := r.next.Records[:len(r.next.Records)-1] // without its own intent
	return r.starting() || r.broken != nil || r.m.Waits(r.sent.Records) || r.m.Waits(pending)
}

// resendAfter is how old the last record may be when the machine decides by its time that a request
// is sent again.
const resendAfter = time.Second

// park decides how a saga waits that has nothing to do now: in memory, with an alarm; or as a
// released row, if the wait is long or has no end.
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
	status, inboxRevision := r.m.Status(), r.m.InboxRevision()
	wake := r.m.WakeAt()
	soon := !wake.IsZero() && wake.Sub(l.now) <= l.cfg.ParkAfter
	stays := l.stays(r)
	switch {
	case r.inFlight > 0 || ((soon || !stays.IsZero()) && !l.draining && !r.yielded):
		l.alarm(r, earlier(wake, stays))
		if shown(status) == shown(r.shown) && inboxRevision == r.inboxRevision && !r.rewrite && r.next.Start == nil {
			return
		}
	case status.Terminal():
		r.next.Release = true
	default:
		r.next.Release = true
		if r.yielded {
			wake = l.now // another node continues it at once
		}
	}
	row := r.m.Row()
	row.DeleteAt = l.cfg.deleteAt(r.m, row.EndedAt)
	if r.next.Release && !status.Terminal() {
		row.WakeAt = wake
	}
	r.next.Row, r.shown, r.inboxRevision, r.rewrite = &row, status, inboxRevision, false
}

// stays returns until when a session stays in memory although nothing is in progress, because its
// agent is about to make the next call; zero: it does not. Idle sessions take at most half of the
// lane's memory.
func (l *Lane) stays(r *run) time.Time {
	until := r.moved.Add(stayFor)
	if l.cfg.MaxIdle > 0 && len(l.runs) > l.cfg.MaxIdle || !r.m.Live() || !until.After(l.now) || l.cfg.MaxSagaBytes > 0 && l.bytes > l.cfg.MaxSagaBytes/2 {
		return time.Time{}
	}
	return until
}

// stayFor is how long a session stays in memory after its journal has grown.
const stayFor = time.Minute

// earlier returns the earlier of two times; zero is no time.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// alarm makes the lane continue a saga in memory when its next wait is over. If that is far away,
// the alarm is earlier and is then set again: most sagas have ended by then, so few alarms remain.
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
	l.alarms.add(wake, r.id)
}

// shown maps the statuses between which a row is not rewritten to one: a short wait in memory is
// shown as running.
func shown(s saga.Status) saga.Status {
	if s == saga.Waiting {
		return saga.Running
	}
	return s
}

// enqueue queues a saga's append for the next commit, unless its last one is still in flight.
func (l *Lane) enqueue(r *run) {
	if r.queued || r.flying || r.empty() {
		return
	}
	r.queued = true
	l.queue = append(l.queue, r)
}

// flush commits the queue, or a deferred append, unless a commit is in flight.
func (l *Lane) flush() {
	if len(l.flight) > 0 || l.node == "" {
		return
	}
	l.down = l.down && len(l.queue) > 0
	if l.retryDeferred() || len(l.queue) == 0 {
		return
	}
	n := l.fitting()
	l.flight = append([]*run(nil), l.queue[:n]...)
	l.queue = slices.Delete(l.queue, 0, n) // clears the pointers too: the runs can be large
	l.batch = make([]journal.Append, n)
	for i, r := range l.flight {
		r.queued, r.flying = false, true
		r.announce()
		r.sent, r.sending, r.next, r.sends = r.next, r.sends, journal.Append{Saga: r.id}, nil
		r.committing, r.memory = r.memory, nil
		l.batch[i] = r.sent
	}
	l.part = n
	l.try()
}

// fitting returns how many appends of the queue go into one commit: as many as MaxBatch and
// MaxBytes allow, and at least one.
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

// try commits the first part of flight.
func (l *Lane) try() {
	l.number++
	after := max(l.rest.Sub(l.now), 0)
	l.tried = l.now.Add(after)
	l.emit(Commit{Number: l.number, Node: l.node, Batch: l.batch[:l.part], After: after, Deferred: l.retrying})
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
	done := l.flight[:l.part]
	l.flight, l.batch = l.flight[l.part:], l.batch[l.part:]
	if len(l.flight) == 0 {
		l.flight, l.batch = nil, nil
	}
	if l.failures > 0 {
		l.recovered()
	}
	l.failures, l.alone, l.down, l.rest, l.commits = 0, 0, false, time.Time{}, l.commits+1
	for i, r := range done {
		r.flying, r.ambiguous, r.refused, r.tries = false, false, false, 0
		if l.runs[r.id] != r {
			continue // dropped in the meantime
		}
		l.durable(r, ev.Results[i])
	}
	if len(l.flight) > 0 {
		l.part = min(2*l.part, len(l.flight))
		l.try()
	}
}

// durable handles the result of a saga's append: it emits the effects that waited for it.
func (l *Lane) durable(r *run, res journal.Result) {
	l.free(r.committing...)
	r.committing = nil
	if res.Err != nil {
		if r.reply != nil {
			l.emit(Replied{Reply: r.reply, ID: res.Saga, Err: res.Err})
			l.drop(r, res.Err)
			return
		}
		if r.broken == nil {
			// If this node still owns the row, no other node will ever claim it: release it.
			l.giveUp(r, res.Err)
			return
		}
		l.drop(r, r.broken)
		return
	}
	if r.broken != nil {
		if r.reply != nil { // it broke while its start was being committed, but the start is durable
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
		r.again = nil // the start is durable, so this lane runs the saga: no need to load it
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
		if r.sent.Row != nil {
			grown.DeleteAt = r.sent.Row.DeleteAt
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

// forget drops all sagas: another node may own them. A start among them may be durable.
func (l *Lane) forget() {
	l.node = ""
	for _, r := range sorted(l.runs) {
		if r.reply != nil {
			l.emit(Replied{Reply: r.reply, ID: r.id, Err: errPerhapsStarted})
		}
		l.drop(r, journal.ErrFenced)
	}
	l.queue, l.flight, l.batch, l.deferred = nil, nil, nil, nil
	l.failures, l.alone, l.down, l.rest = 0, 0, false, time.Time{}
	l.alarms, l.unheld = nil, nil
}

// drain continues the sagas that have no attempt in flight, which releases them.
func (l *Lane) drain() {
	l.draining = true
	for _, r := range sorted(l.runs) {
		if r.inFlight == 0 {
			l.isolate(r, func() error { return l.advance(r) })
		}
	}
}

// free returns the memory of responses and messages.
func (l *Lane) free(memory ...any) {
	for _, m := range memory {
		if m != nil {
			l.emit(Freed{Memory: m})
		}
	}
}

// giveBack returns memory that r.keep has just taken, because it led to nothing that will be
// committed. nil: there was none.
func (l *Lane) giveBack(r *run, memory any) {
	if n := len(r.memory); n > 0 && memory != nil {
		r.memory = r.memory[:n-1]
		l.free(memory)
	}
}

// drop removes a saga from the lane.
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

// isolate runs a saga's own logic. If it fails or panics, the lane gives the saga up without
// writing a record: a journal that this version cannot read, or a bug, must not stop the other
// sagas of the lane.
func (l *Lane) isolate(r *run, f func() error) {
	defer func() {
		if p := recover(); p != nil {
			l.giveUp(r, fmt.Errorf("panic: %v", p))
		}
	}()
	if r.m != nil {
		r.m.Clock(l.latest)
	}
	if err := f(); err != nil {
		l.giveUp(r, err)
	}
}

// giveUp releases a saga without writing a record: its row becomes claimable later, by any node
// that can continue it.
func (l *Lane) giveUp(r *run, err error) {
	if r.next.Start != nil {
		l.emit(Replied{Reply: r.reply, Err: err})
		l.drop(r, err)
		return
	}
	r.permit.revoke()
	l.free(r.memory...)
	r.broken, r.more, r.sends, r.news, r.memory = err, false, nil, nil, nil
	r.next = journal.Append{Saga: r.id, Release: true, Unheld: errors.Is(err, ErrUnheld)}
	l.enqueue(r)
}
