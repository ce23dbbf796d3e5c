package api

import (
	"testing"

	"github.com/gofrs/uuid/v5"
)

// Sessions that nobody uses are dropped as soon as all of them take too much memory or are too
// many, and those in use stay.
func TestSharedSessions(t *testing.T) {
	t.Parallel()
	var a sharedSessions
	id := func(n int) uuid.UUID { return uuid.UUID{byte(n), byte(n >> 8)} }
	used := a.enter(id(1))
	for n := 2; n < 10; n++ {
		a.leave(a.enter(id(n)), sharedMemory/4)
	}
	if len(a.all) != 5 || a.bytes != sharedMemory || a.all[id(1)] != used {
		t.Errorf("%d entries with %d bytes", len(a.all), a.bytes)
	}
	a.leave(used, sharedMemory+1) // it is dropped itself, or all others and then it
	if a.bytes > sharedMemory {
		t.Errorf("%d entries with %d bytes", len(a.all), a.bytes)
	}
	for n := range mostShared + 100 {
		a.leave(a.enter(id(n)), 1)
		a.leave(a.enter(id(n)), 2) // it has grown
	}
	sum := 0
	for _, e := range a.all {
		sum += e.bytes
	}
	if len(a.all) != mostShared || a.bytes != sum {
		t.Errorf("%d entries with %d bytes, want %d with %d", len(a.all), a.bytes, mostShared, sum)
	}
}
