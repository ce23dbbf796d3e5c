package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"recourse/journal"
)

// stalledAfter is how many Watches in a row must find a saga stalled before the lane acts. Watches
// are counted, not time: a process that was frozen finds every time-out past when it goes on, and
// the answers in the queue behind its first Watch.
const stalledAfter = 12

// jumpAfter is how far apart two Watches are when the clock has jumped between them.
const jumpAfter = 30 * time.Second

// call is an attempt under way, from when its intent was durable.
type call struct {
	path     string
	way      journal.Way
	attempt  int
	timeout  time.Duration
	until    time.Time // when it should have been answered
	begun    time.Time // when it was to leave
	waitsFor string    // what it waits for before it leaves, see Waits.For
}

// calling remembers an attempt that leaves at now.
func (r *run) calling(c call, now time.Time) {
	c.until, c.begun = now.Add(c.timeout), now
	r.calls = append(r.calls, c)
}

// called returns the attempt under way, or nil.
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

// stalled says why nothing will ever move the saga again, and at which step; "" if something will.
func (r *run) stalled(now time.Time) (path, why string) {
	switch {
	case r.queued || r.flying:
		return "", "" // a commit that hangs shows in the age of the commit under way
	case !r.empty():
		return "", "what it has written is not being committed"
	}
	for _, c := range r.calls {
		if now.After(c.until) {
			return c.path, fmt.Sprintf("attempt %d of its %s is unanswered, long after its time-out of %v", c.attempt, c.way, c.timeout)
		}
	}
	if len(r.calls) == 0 && !r.alarm.After(now) {
		return "", "it waits for nothing"
	}
	return "", ""
}

// watch looks for stalled sagas: an answer, an alarm or a wake-up of theirs was lost, which is a
// bug of ours. They are given up, to be read again from their journals: what is under way is in
// doubt then, as after a crash.
func (l *Lane) watch() {
	l.stalest = time.Time{}
	// A clock that is set, or a process that stood still: time-outs are reckoned anew.
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

// Stalest returns when the saga that has not moved for longest did so last, as of the last Watch;
// zero if there is none.
func (l *Lane) Stalest() time.Time { return l.stalest }
