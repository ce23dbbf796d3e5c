package engine

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"recourse/journal"
)

// A node's clock is an hour off and runs fast or slow. After any renewal, its estimate of the
// store's clock is at most one round trip too late.
func TestLeaseClock(t *testing.T) {
	store := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, drift := range []time.Duration{-5 * time.Millisecond, 0, 5 * time.Millisecond} { // per second
		var l Lease
		local := store.Add(-time.Hour)
		trip := 20 * time.Millisecond
		for i := range 10_000 {
			now := store.Add(time.Duration(i) * time.Second)
			asked := local.Add(time.Duration(i) * (time.Second + drift))
			l.Renewed(journal.Lease{Node: "n", Now: now.Add(trip / 2), TTL: 3 * time.Second}, asked, asked.Add(trip))
			if ahead := l.Now(asked.Add(trip)).Sub(now.Add(trip)); ahead > trip || ahead < -trip {
				t.Fatalf("drift %v: after %d renewals the estimate is %v too late", drift, i+1, ahead)
			}
		}
	}
}

// If the store's clock is set back, the estimate follows.
func TestLeaseFollowsBack(t *testing.T) {
	var l Lease
	local := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l.Renewed(journal.Lease{Node: "n", Now: local.Add(time.Hour), TTL: time.Second}, local, local)
	l.Renewed(journal.Lease{Node: "n", Now: local, TTL: time.Second}, local.Add(time.Second), local.Add(time.Second))
	if got := l.Now(local.Add(time.Second)); !got.Equal(local) {
		t.Errorf("got %v, want %v", got, local)
	}
}

// The node stops sending requests well before the store lets other nodes take over its sagas.
func TestLeaseEnds(t *testing.T) {
	var l Lease
	asked := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if l.Valid(asked) {
		t.Error("valid before the first lease")
	}
	l.Renewed(journal.Lease{Node: "n", Now: asked, TTL: 4 * time.Second}, asked, asked.Add(time.Second))
	for after, want := range map[time.Duration]bool{0: true, 3*time.Second - 1: true, 3 * time.Second: false, 4 * time.Second: false} {
		if got := l.Valid(asked.Add(after)); got != want {
			t.Errorf("%v after it was asked for: valid is %v", after, got)
		}
	}
	l.End()
	if l.Valid(asked) || l.Node() != "" {
		t.Error("valid after its end")
	}
}

// A wait that begins at Latest and ends by Now is never too short by the store's clock,
// however long the renewals took.
func TestLeaseWaitsAreNeverShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const delay = time.Second
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		off := time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "the node's clock is off by"))
		var l Lease
		store, begun, due := start, time.Time{}, time.Time{}
		for range 20 {
			there := time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "there"))
			back := time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "back"))
			got := journal.Lease{Node: "n", Now: store.Add(there), TTL: time.Minute}
			l.Renewed(got, store.Add(off), store.Add(off+there+back))
			store = store.Add(there + back)
			for range rapid.IntRange(0, 3).Draw(t, "reads") {
				store = store.Add(time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "later")))
				now, latest := l.Now(store.Add(off)), l.Latest(store.Add(off))
				if now.After(store) || latest.Before(store) {
					t.Fatalf("the store's clock shows %v, but the estimate is between %v and %v", store, now, latest)
				}
				if due.IsZero() {
					begun, due = store, latest.Add(delay)
				} else if !now.Before(due) {
					if waited := store.Sub(begun); waited < delay {
						t.Fatalf("waited %v instead of %v", waited, delay)
					}
					due = time.Time{}
				}
			}
		}
	})
}
