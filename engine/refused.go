package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"recourse/journal"
	"recourse/saga"
)

// maxPause is the longest delay before a commit is repeated.
const maxPause = time.Second

// maxDeferral is the longest delay before an append that failed by itself is tried again, unless
// the tries themselves take long.
const maxDeferral = time.Minute

// mostTries is how often an append fails by itself before its saga is given up, not counting
// failures when no other append was committed either. With the delays between them, this takes
// more than four minutes.
const mostTries = 16

// quickTries is how many tries count although no other append was committed since the last one.
const quickTries = 6

// repeat handles a commit that failed. Appending is idempotent, so trying again is safe even if the
// first try was written. One append can make its batch fail each time, because the store does not
// take it, or because the batch is too large to be written in time. So the batch is split until
// that append fails by itself, and the others are committed without it. Each append is repeated
// unchanged.
func (l *Lane) repeat(err error) {
	definite := !errors.Is(err, journal.ErrUnknown)
	for _, r := range l.flight[:l.part] {
		r.ambiguous = r.ambiguous || !definite
	}
	if !l.retrying || l.failures > 0 || len(l.flight) > 1 {
		l.failures++
		l.rest = l.now.Add(min(10*time.Millisecond<<min(l.failures, 10), maxPause))
	}
	if l.part == 1 {
		l.failedAlone(err)
	} else {
		l.part = (l.part + 1) / 2
	}
	// If two appends fail by themselves one after the other, the cause is probably not in them.
	if !l.retrying && (l.alone > 1 || !definite || errors.Is(err, context.DeadlineExceeded)) {
		l.down = true
		if definite {
			l.turnAway()
		}
	}
	if l.part = min(l.part, len(l.flight)); l.part > 0 {
		l.try()
	}
}

// failedAlone takes the first append out of the flight. If it surely was not written and starts
// a saga, that start is refused. Otherwise it is deferred: the other sagas of the lane go on, and
// the appends of this one keep their order because none is committed before this one. In the end
// the saga is given up, so that its node reads it again, and its claims show that it makes no
// progress.
func (l *Lane) failedAlone(err error) {
	r := l.flight[0]
	l.flight, l.batch = l.flight[1:], l.batch[1:]
	if !l.retrying {
		l.alone++
	}
	if l.refusable(r, &r.sent) {
		l.refuse(r, fmt.Errorf("%w: %w", saga.ErrUnavailable, err))
		return
	}
	r.refused = r.refused || r.tries > 0 && l.commits > r.commits
	if r.tries < quickTries || l.commits > r.commits {
		r.tries++
	}
	if r.commits = l.commits; r.tries >= mostTries {
		l.abandon(r, fmt.Errorf("the database does not take its records: %w", err))
		return
	}
	// Tries that take long leave nine tenths of the time to the other sagas.
	r.due = l.now.Add(max(min(10*time.Millisecond<<r.tries, maxDeferral), 9*l.now.Sub(l.tried)))
	l.deferred = append(l.deferred, r)
	if l.retrying { // the queue comes next: the store may fail whatever it is given
		l.deferred = append(l.deferred, l.flight...)
		l.flight, l.batch = nil, nil
	}
}

// retryDeferred commits deferred appends that are due. It does so after every other batch at most.
// An append between whose tries others were committed is tried by itself. The others share commits
// as soon as the first of them is committed: after an outage there can be thousands.
func (l *Lane) retryDeferred() bool {
	isDue := func(r *run) bool { return !r.due.After(l.now) }
	at := slices.IndexFunc(l.deferred, isDue)
	if l.retrying = at >= 0 && (!l.retrying || len(l.queue) == 0); !l.retrying {
		return false
	}
	first, size := l.deferred[at], 0
	l.flight, l.batch, l.part = nil, nil, 1
	l.deferred = slices.DeleteFunc(l.deferred, func(r *run) bool {
		if r != first && (first.refused || r.refused || !isDue(r) || len(l.flight) == l.cfg.MaxBatch || l.cfg.MaxBytes > 0 && size+r.sent.Size() > l.cfg.MaxBytes) {
			return false
		}
		size += r.sent.Size()
		l.flight, l.batch = append(l.flight, r), append(l.batch, r.sent)
		return true
	})
	l.try()
	return true
}

// recovered makes deferred appends due, because the store takes commits again, unless they failed
// while it took others.
func (l *Lane) recovered() {
	for _, r := range l.deferred {
		if !r.refused {
			r.due = l.now
		}
	}
}

// errPerhapsStarted is the error of a start that may be durable.
var errPerhapsStarted = fmt.Errorf("%w: %w", saga.ErrUnavailable, journal.ErrUnknown)

// abandon gives up a saga although its append may be refused for good. What only the append
// contains is lost, as if the node had died: the saga's attempts in flight are then in doubt.
func (l *Lane) abandon(r *run, err error) {
	if r.reply != nil {
		l.emit(Replied{Reply: r.reply, ID: r.id, Err: errPerhapsStarted})
		r.reply = nil
	}
	if r.broken != nil {
		l.drop(r, r.broken) // even its release was refused: the node finds it unheld later
		return
	}
	l.free(r.committing...)
	r.sent, r.sending, r.committing = journal.Append{Saga: r.id}, nil, nil
	r.flying, r.refused, r.tries = false, false, 0
	l.giveUp(r, err)
}

// turnAway refuses the starts that surely were not written.
func (l *Lane) turnAway() {
	keep, batch := l.flight[:0], l.batch[:0]
	for i, r := range l.flight {
		if l.refusable(r, &r.sent) {
			l.refuse(r, saga.ErrUnavailable)
			continue
		}
		keep, batch = append(keep, r), append(batch, l.batch[i])
	}
	l.flight, l.batch = keep, batch
	for _, r := range slices.Clone(l.queue) {
		if l.refusable(r, &r.next) {
			l.refuse(r, saga.ErrUnavailable)
		}
	}
}

// refusable reports whether an append is a start that surely was not written.
func (l *Lane) refusable(r *run, a *journal.Append) bool {
	return a.Start != nil && r.reply != nil && !r.ambiguous
}

// refuse answers a start that was not written.
func (l *Lane) refuse(r *run, err error) {
	l.emit(Replied{Reply: r.reply, Err: err})
	r.reply = nil
	l.drop(r, err)
}
