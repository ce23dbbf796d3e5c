package engine

import (
	"sync"
	"time"

	"recourse/internal/mutant"
	"recourse/journal"
)

// Lease is what a node knows of its right to write, and of the store's clock.
// The clock is kept as an offset to the node's own one, of which only
// differences count: setting the node's wall clock changes nothing. Times called
// local are by that clock; it comes in, so that a simulator can drive this, too.
type Lease struct {
	id     string
	until  time.Time // local
	known  bool      // whether the store's clock has been seen
	origin time.Time // local time of …
	store  time.Time // … this store time
	asked  time.Time // local time at which the store's clock was not later than …
	latest time.Time // … this store time
}

// Renewed takes in a lease that was asked for and arrived at these local times.
// The store began to count after it was asked and read its clock before the
// answer came: so the lease is reckoned from when it was asked for, and the
// store's clock from the answer's arrival. What was reckoned before stands
// unless the answer proves it wrong: a clock that runs fast is ahead by no more
// than a round trip after each renewal.
func (l *Lease) Renewed(got journal.Lease, asked, arrived time.Time) {
	// A quarter is margin for a request that is about to leave, and for a clock that runs slow.
	l.id, l.until = got.Node, asked.Add(got.TTL-got.TTL/4)
	reckoned := l.Now(arrived)
	if !l.known || got.Now.After(reckoned) || reckoned.Sub(got.Now) > arrived.Sub(asked) {
		l.known, l.origin, l.store = true, arrived, got.Now
	}
	l.asked, l.latest = asked, got.Now.Add(time.Millisecond) // stores leave out what is less
}

// End forgets the lease; what is known of the clock stays.
func (l *Lease) End() { l.id, l.until = "", time.Time{} }

// Node returns under which id the node holds the lease, "" for none.
func (l *Lease) Node() string { return l.id }

// Valid reports whether requests may leave.
func (l *Lease) Valid(local time.Time) bool {
	return l.id != "" && (local.Before(l.until) || mutant.On("lease-outlived"))
}

// Left is how long requests may still leave.
func (l *Lease) Left(local time.Time) time.Duration {
	if l.id == "" {
		return 0
	}
	return max(l.until.Sub(local), 0)
}

// Now is the store's clock; before the first lease, the node's own.
func (l *Lease) Now(local time.Time) time.Time {
	if !l.known || mutant.On("node-clock") {
		return local.UTC()
	}
	return l.store.Add(local.Sub(l.origin))
}

// Latest is the latest that the store's clock may show, which is never before Now. A wait begins at
// Latest and ends by Now: then it is never shorter than it is to be, although Now jumps forward at
// a renewal that was quicker than the one before.
func (l *Lease) Latest(local time.Time) time.Time {
	if !l.known || mutant.On("node-clock") {
		return l.Now(local)
	}
	return l.latest.Add(local.Sub(l.asked))
}

// lease is a Lease by this process's monotonic clock, for several goroutines.
type lease struct {
	mu sync.Mutex
	l  Lease
}

func (l *lease) renewed(got journal.Lease, asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.l.Renewed(got, asked, time.Now())
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
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.l.Now(time.Now())
}

func (l *lease) latest() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.l.Latest(time.Now())
}
