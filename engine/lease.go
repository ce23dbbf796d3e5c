package engine

import (
	"sync"
	"time"

	"recourse/journal"
)

// lease is what the node knows of its right to write, and of the store's clock.
// The clock is kept as an offset to this process's monotonic one, so that
// setting the node's wall clock changes nothing.
type lease struct {
	mu     sync.Mutex
	id     string
	until  time.Time // local monotonic time
	known  bool      // whether the store's clock has been seen
	origin time.Time // local monotonic time of …
	store  time.Time // … this store time
}

func (l *lease) init() {
	l.origin = time.Now()
	l.store = l.origin.UTC()
}

// setBack is how far the store's clock may fall behind what was reckoned before
// it is believed to have been set back.
const setBack = time.Second

// renewed takes in a lease that was asked for at asked, by this process's clock.
// The store began to count after that and read its clock before the answer came:
// so the lease is reckoned from when it was asked for, and the store's clock from the answer's arrival.
func (l *lease) renewed(got journal.Lease, asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	arrived := time.Now()
	// A quarter is margin for a request that is about to leave.
	l.id, l.until = got.Node, asked.Add(got.TTL-got.TTL/4)
	reckoned := l.store.Add(arrived.Sub(l.origin))
	if !l.known || got.Now.After(reckoned) || reckoned.Sub(got.Now) > setBack {
		l.known, l.origin, l.store = true, arrived, got.Now
	}
}

func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id, l.until = "", time.Time{}
}

func (l *lease) node() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id
}

// valid reports whether requests may leave.
func (l *lease) valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id != "" && time.Now().Before(l.until)
}

func (l *lease) now() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store.Add(time.Since(l.origin))
}
