package engine

import (
	"sync"
	"time"

	"recourse/journal"
)

// Lease is a node's knowledge of its right to write, and of the store's clock. It stores the clock
// as an offset to the node's own clock, of which only differences count, so setting the node's wall
// clock changes nothing. Times named local are times of the node's clock. They are parameters, so
// that a simulator can drive a Lease.
type Lease struct {
	id     string
	until  time.Time // local
	known  bool      // whether the store's clock has been seen
	origin time.Time // local time that corresponds to …
	store  time.Time // … this time of the store
	asked  time.Time // local time at which the store's clock was at most …
	latest time.Time // … this time of the store
}

// Renewed takes in a lease that was requested and received at these local times. The store began to
// count the TTL after the request and read its clock before the response arrived. So the lease is
// computed from the time of the request, and the store's clock from the time of the response. The
// earlier estimate of the clock stays unless the response contradicts it: after each renewal, even
// a clock that runs fast is at most one round trip too late.
func (l *Lease) Renewed(got journal.Lease, asked, arrived time.Time) {
	// A quarter of the TTL is the margin for a request that is being sent, and for a slow clock.
	l.id, l.until = got.Node, asked.Add(got.TTL-got.TTL/4)
	estimate := l.Now(arrived)
	if !l.known || got.Now.After(estimate) || estimate.Sub(got.Now) > arrived.Sub(asked) {
		l.known, l.origin, l.store = true, arrived, got.Now
	}
	l.asked, l.latest = asked, got.Now.Add(time.Millisecond) // stores truncate to milliseconds
}

// End forgets the lease. The estimate of the clock stays.
func (l *Lease) End() { l.id, l.until = "", time.Time{} }

// Node returns the id that the node holds the lease under, "" if it has none.
func (l *Lease) Node() string { return l.id }

// Valid reports whether requests may be sent.
func (l *Lease) Valid(local time.Time) bool {
	return l.id != "" && local.Before(l.until)
}

// Left returns for how long requests may still be sent.
func (l *Lease) Left(local time.Time) time.Duration {
	if l.id == "" {
		return 0
	}
	return max(l.until.Sub(local), 0)
}

// Now returns the store's clock, or a time before it. Before the first lease it is the node's own
// clock.
func (l *Lease) Now(local time.Time) time.Time {
	if !l.known {
		return local.UTC()
	}
	return l.store.Add(local.Sub(l.origin))
}

// Latest returns the latest time that the store's clock may show. It is never before Now. A delay
// begins at Latest and ends by Now. So it is never too short, although Now jumps forward at a
// renewal that was quicker than the one before.
func (l *Lease) Latest(local time.Time) time.Time {
	if !l.known {
		return l.Now(local)
	}
	return l.latest.Add(local.Sub(l.asked))
}

// lease is a Lease with this process's monotonic clock, for several goroutines.
type lease struct {
	mu sync.Mutex
	l  Lease
}

func (l *lease) renewed(got journal.Lease, asked, arrived time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.l.Renewed(got, asked, arrived)
}

func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.l.End()
}

func (l *lease) node() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.l.Node()
}

func (l *lease) valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.l.Valid(time.Now())
}

func (l *lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.l.Left(time.Now())
}

func (l *lease) now() time.Time {
	now, _ := l.span()
	return now
}

// span returns the earliest and the latest time that the store's clock may show.
func (l *lease) span() (now, latest time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	local := time.Now()
	return l.l.Now(local), l.l.Latest(local)
}

func (l *lease) latest() time.Time {
	_, latest := l.span()
	return latest
}
