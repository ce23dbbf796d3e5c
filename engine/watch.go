package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"recourse/journal"
)

// stalledAfter is how many Watches in a row must find a saga stalled before the lane acts. It
// counts Watches instead of time: when a frozen process continues, all its timeouts have passed,
// and the responses are in the queue after its first Watch.
const stalledAfter = 12

// jumpAfter is the distance between two Watches above which the clock must have jumped.
const jumpAfter = 30 * time.Second

// call is an attempt in flight, from the time when its intent was durable.
type call struct {
	path     string
	way      journal.Way
	attempt  int
	timeout  time.Duration
	until    time.Time // when its timeout ends
	begun    time.Time // when it was emitted
	waitsFor string    // see Waits.For
}

// calling remembers an attempt that is emitted at now.
func (r *run) calling(c call, now time.Time) {
	c.until, c.begun = now.Add(c.timeout), now
	r.calls = append(r.calls, c)
}

// called returns the attempt if it is in flight, or nil.
func (r *run) called(path string, way journal.Way, attempt int) *call {
	at := slices.IndexFunc(r.calls, func(c call) bool { return c.path == path && c.way == way && c.attempt == attempt })
	if at < 0 {
		return nil
	}
	return &r.calls[at]
}

func (r *run) uncall(path string, way journal.Way, attempt int) {
	r.calls = slices.DeleteFunc(r.calls, func(c call) bool { return c.path == path && c.way == way && c.attempt == attempt })
}

// stalled returns why nothing will ever continue the saga, and at which step; "" if something will.
func (r *run) stalled(now time.Time) (path, why string) {
	switch {
	case r.queued || r.flying:
		return "", "" // if the commit hangs, Stats.CommitAge shows it
	case !r.empty():
		return "", "its records are not being committed"
	}
	for _, c := range r.calls {
		if now.After(c.until) {
			return c.path, fmt.Sprintf("attempt %d (%s) has no response, long after its timeout of %v", c.attempt, c.way, c.timeout)
		}
	}
	if len(r.calls) == 0 && !r.alarm.After(now) {
		return "", "no timer, request or message will continue it"
	}
	return "", ""
}

// watch finds stalled sagas: a response, an alarm or a wake-up was lost, which is a bug. It
// releases them, to be read again from their journals. Their attempts in flight are then in doubt,
// as after a crash.
func (l *Lane) watch() {
	l.stalest = time.Time{}
	// If the clock was set, or the process was frozen, the timeouts move by the same amount.
	jump := l.now.Sub(l.watched)
	if l.watched.IsZero() || jump > 0 && jump < jumpAfter {
		jump = 0
	}
	l.watched = l.now
	var found []*run
	var late []journal.Stall
	for _, r := range l.runs {
		for i := range r.calls {
			r.calls[i].until = r.calls[i].until.Add(jump)
		}
		if l.stalest.IsZero() || r.moved.Before(l.stalest) {
			l.stalest = r.moved
		}
		late = append(late, l.delayed(r)...)
		if _, why := r.stalled(l.now); why == "" {
			r.watches = 0
		} else if r.watches++; r.watches >= stalledAfter {
			found = append(found, r)
		}
	}
	slices.SortFunc(late, func(a, b journal.Stall) int { return cmp.Or(a.Since.Compare(b.Since), journal.CompareID(a.ID, b.ID)) })
	for _, s := range late[:min(len(late), maxDelayed)] {
		l.emit(Delayed{Stall: s})
	}
	slices.SortFunc(found, func(a, b *run) int { return journal.CompareID(a.id, b.id) })
	for _, r := range found {
		path, why := r.stalled(l.now)
		l.emit(Stalled{ID: r.id, Path: path, Since: r.moved, Why: why, Stall: r.stall(path, why), Trace: r.trace()})
		r.watches = 0
		l.isolate(r, func() error {
			if r.empty() {
				row := r.m.Row()
				row.WakeAt = l.now
				r.permit.revoke()
				r.next.Row, r.next.Release = &row, true
			}
			l.enqueue(r)
			return nil
		})
	}
}

// Stalest returns, as of the last Watch, when the saga that has been without progress for longest
// last made progress; zero if the lane is empty.
func (l *Lane) Stalest() time.Time { return l.stalest }
