package journaltest

import (
	"slices"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp/cmpopts"

	"recourse/journal"
)

var claimTests = []test{
	{"the sagas of a node, by pages", owned},
	{"the saga due for longest first, up to the limit", claimOrder},
	{"not before it is due", claimAtTime},
	{"never without a wake-up time", neverDue},
	{"concurrent claims: one owner each", claimConcurrently},
	{"a claim counts the messages", claimCountsMessages},
	{"only the sagas of commands", claimLocal},
}

// whenever ignores Due, which depends on the store's clock.
var whenever = cmpopts.IgnoreFields(journal.Claimed{}, "Due")

func claimOrder(b *bench) {
	now := b.now()
	third, first, second := b.parked(now.Add(-time.Second)), b.parked(now.Add(-time.Hour)), b.parked(now.Add(-time.Minute))
	b.parked(now.Add(time.Hour))
	got, err := b.Claim(b.ctx, b.node, 0)
	b.must(err)
	diff(b, "claim of none", got, nil)
	got, err = b.Claim(b.ctx, b.node, 2)
	b.must(err)
	diff(b, "claimed", got, []journal.Claimed{{Saga: first, Definition: "trip", Version: 3, Claims: 1, Due: now.Add(-time.Hour)},
		{Saga: second, Definition: "trip", Version: 3, Claims: 1, Due: now.Add(-time.Minute)}})
	diff(b, "then", b.claim(b.node, 2), []uuid.UUID{third})
	diff(b, "at last", b.claim(b.node, 2), nil)
	if h := b.head(first); h.Owner != b.node {
		b.Errorf("owner = %q", h.Owner)
	}
}

func claimAtTime(b *bench) {
	wake := b.now().Add(400 * time.Millisecond)
	saga := b.parked(wake)
	b.eventually("claimed", func() bool {
		got := b.claim(b.node, 1)
		if len(got) == 0 {
			return false
		}
		diff(b, "claimed", got, []uuid.UUID{saga})
		if now := b.now(); now.Before(wake) {
			b.Fatalf("claimed at %v, before %v", now, wake)
		}
		return true
	})
}

func neverDue(b *bench) {
	saga := b.parked(time.Time{})
	diff(b, "claimed", b.claim(b.node, 10), nil)
	b.send(saga)
	diff(b, "claimed after a message", b.claim(b.node, 10), []uuid.UUID{saga})
}

func claimConcurrently(b *bench) {
	const sagas, claimers = 200, 8
	due := b.now().Add(-time.Minute)
	for range sagas {
		b.parked(due)
	}
	nodes, stores := []string{b.node}, []journal.Store{b.Store}
	for len(nodes) < claimers && !b.exclusive {
		nodes = append(nodes, b.register(ttl))
		if len(stores) < 3 && b.subject.Again != nil {
			stores = append(stores, b.again())
		}
	}
	var mu sync.Mutex
	owner := map[uuid.UUID]string{}
	var wg sync.WaitGroup
	for i := range claimers {
		node, store := nodes[i%len(nodes)], stores[i%len(stores)]
		wg.Go(func() {
			for {
				got, err := store.Claim(b.ctx, node, 7)
				if err != nil {
					b.Errorf("claim: %v", err)
					return
				}
				mu.Lock()
				for _, c := range got {
					if before, taken := owner[c.Saga]; taken {
						b.Errorf("saga %s claimed by %s and %s", c.Saga, before, node)
					}
					owner[c.Saga] = node
				}
				done := len(owner) >= sagas
				mu.Unlock()
				if done || b.Failed() {
					return
				}
			}
		})
	}
	wg.Wait()
	for saga, node := range owner {
		if h := b.head(saga); h.Owner != node {
			b.Errorf("saga %s: owner %q, claimed by %q", saga, h.Owner, node)
		}
	}
}

func claimCountsMessages(b *bench) {
	saga := b.parked(time.Time{})
	first, second := b.send(saga), b.send(saga)
	got, err := b.Claim(b.ctx, b.node, 1)
	b.must(err)
	diff(b, "claimed", got, []journal.Claimed{{Saga: saga, Definition: "trip", Version: 3, Claims: 1, Messages: 2}}, whenever)
	diff(b, "messages", b.messages(b.node), []journal.Message{first, second})
}

// owned reads the sagas of a node page by page.
func owned(b *bench) {
	want := []uuid.UUID{}
	for range 3 {
		saga, _ := b.started()
		want = append(want, saga)
	}
	parked := b.parked(b.now().Add(-time.Minute))
	b.parked(b.now().Add(time.Hour)) // has no owner
	diff(b, "claimed", b.claim(b.node, 10), []uuid.UUID{parked})
	want = append(want, parked)
	slices.SortFunc(want, journal.CompareID)
	page := func(node string, after uuid.UUID, limit int) []uuid.UUID {
		b.Helper()
		got, err := b.Owned(b.ctx, node, after, limit)
		b.must(err)
		return got
	}
	diff(b, "all", page(b.node, uuid.Nil, 10), want)
	diff(b, "none", page(b.node, uuid.Nil, 0), nil)
	diff(b, "the first page", page(b.node, uuid.Nil, 3), want[:3])
	diff(b, "the second page", page(b.node, want[2], 3), want[3:])
	diff(b, "another node's", page("another", uuid.Nil, 10), nil)
	end := ended()
	b.ok(journal.Append{Saga: want[0], Row: end, Release: true})
	diff(b, "after one has ended", page(b.node, uuid.Nil, 10), want[1:])
}

// claimLocal claims the sagas of commands only.
func claimLocal(b *bench) {
	now := b.now()
	parks := func(wake time.Time) uuid.UUID {
		b.Helper()
		a := begin(newID())
		a.Start.Local, a.Row.WakeAt, a.Release = true, wake, true
		b.ok(a)
		return a.Saga
	}
	local := func(limit int) (got []uuid.UUID) {
		b.Helper()
		claimed, err := b.ClaimLocal(b.ctx, b.node, limit)
		b.must(err)
		for _, c := range claimed {
			got = append(got, c.Saga)
		}
		return got
	}
	other := b.parked(now.Add(-time.Hour))
	second, first := parks(now.Add(-time.Second)), parks(now.Add(-time.Minute))
	parks(now.Add(time.Hour))
	waiting := parks(time.Time{})
	diff(b, "no saga", local(0), nil)
	diff(b, "one saga", local(1), []uuid.UUID{first})
	diff(b, "the next one", local(10), []uuid.UUID{second})
	b.send(waiting)
	diff(b, "after a message", local(10), []uuid.UUID{waiting})
	diff(b, "nothing is left", local(10), nil)
	diff(b, "the other one", b.claim(b.node, 10), []uuid.UUID{other})

	// Suspects come last, and at most one of them.
	suspects := []uuid.UUID{parks(time.Time{}), parks(time.Time{})}
	for _, saga := range suspects {
		b.releaseAgain(saga, journal.SuspectAfter)
	}
	for _, saga := range append(suspects, b.suspect()) {
		b.send(saga)
	}
	sound := parks(b.now().Add(-time.Second))
	got := local(10)
	if len(got) != 2 || got[0] != sound || !slices.Contains(suspects, got[1]) {
		b.Errorf("claimed %v, want %s and then one of the suspects %v", got, sound, suspects)
	}
	_, err := b.ClaimLocal(b.ctx, "nobody", 1)
	b.wantErr(err, journal.ErrFenced)
}
