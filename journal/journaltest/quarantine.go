package journaltest

import (
	"slices"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

var quarantineTests = []test{
	{"claims are counted until there is progress", countsClaims},
	{"the release of a node does not count", releaseIsNoFault},
	{"a saga that is released repeatedly is delayed longer, then quarantined", givenUp},
	{"a saga that its node does not have in memory is due at once, at first", givenUpUnheld},
	{"a saga that kills its nodes is delayed longer, then quarantined", func(b *bench) { b.killsNodes(b.die) }},
	{"a saga that kills its nodes, whose successors know that they are dead", func(b *bench) { b.killsNodes(b.dieKnown) }},
	{"one more claim for each message", oneMoreTry},
	{"progress ends the quarantine", progressEndsIt},
	{"suspects come last, one at a time", suspectsLast},
	{"sagas claimed with a killer are not quarantined", innocents},
	{"a saga that has ended is not quarantined", endedRests},
}

// claimed claims this saga, and fails if a claim returns others.
func (b *bench) claimed(saga uuid.UUID) journal.Claimed {
	b.Helper()
	got, err := b.Claim(b.ctx, b.node, 10)
	b.must(err)
	if len(got) != 1 || got[0].Saga != saga {
		b.Fatalf("claimed %+v, want %s only", got, saga)
	}
	return got[0]
}

// releaseAgain sends a message to a saga without an owner, claims the saga and releases it without
// a row, n times.
func (b *bench) releaseAgain(saga uuid.UUID, n int) {
	b.Helper()
	for range n {
		b.send(saga)
		b.claimed(saga)
		b.ok(journal.Append{Saga: saga, Release: true})
	}
}

// die ends the bench's node without a release; another node takes over.
func (b *bench) die() {
	b.Helper()
	doomed := b.node
	_, err := b.Renew(b.ctx, doomed, time.Millisecond)
	b.must(err)
	b.node = b.register(ttl)
	if !b.exclusive {
		b.fenceOff(doomed)
	}
}

// dieKnown ends the bench's node; the next one knows that it is dead.
func (b *bench) dieKnown() { b.node = b.register(ttl, b.node) }

func (b *bench) entries(saga uuid.UUID) []journal.Entry {
	b.Helper()
	got, err := b.Inbox(b.ctx, journal.InboxFilter{Saga: saga})
	b.must(err)
	return got
}

// delayed fails unless the saga has no owner and wakes after a delay from now, which was after
// from.
func (b *bench) delayed(saga uuid.UUID, from time.Time, rest time.Duration) {
	b.Helper()
	h := b.head(saga)
	if h.Owner != "" || h.WakeAt.Before(from.Add(rest)) || h.WakeAt.After(b.now().Add(rest)) {
		b.Errorf("after %d claims: owner %q, wakes %v after %v; want no owner, and %v", h.Claims, h.Owner, h.WakeAt.Sub(from), from, rest)
	}
}

// quarantined fails unless the saga is quarantined after this number of claims.
func (b *bench) quarantined(saga uuid.UUID, claims int) journal.Entry {
	b.Helper()
	h := b.head(saga)
	if !h.Quarantined() || h.Claims != claims || h.Owner != "" || !h.WakeAt.IsZero() || h.Status != journal.StatusStuck {
		b.Fatalf("want it quarantined after %d claims: %+v", claims, h)
	}
	diff(b, "claimable", b.claim(b.node, 10), nil)
	list := b.entries(saga)
	at := slices.IndexFunc(list, func(e journal.Entry) bool { return e.Kind == journal.KindStuck && e.Path == "" })
	if at < 0 {
		b.Fatalf("no entry for it: %+v", list)
	}
	st, err := b.Stats(b.ctx)
	b.must(err)
	if st.Quarantined != 1 {
		b.Errorf("%d sagas are quarantined, want 1", st.Quarantined)
	}
	return list[at]
}

func countsClaims(b *bench) {
	saga, hash := b.started()
	prev := b.now()
	for _, progress := range []journal.Append{
		{Records: chain(saga, hash, 2, 1)},
		{Row: rowOf("running", 2)},
		{Records: chain(saga, chain(saga, hash, 2, 1)[0].Hash, 3, 1), Row: rowOf("running", 3)},
	} {
		b.ok(journal.Append{Saga: saga, Release: true})
		b.delayed(saga, prev, journal.FirstRetryDelay)
		b.releaseAgain(saga, 2)
		b.send(saga)
		if c := b.claimed(saga); c.Claims != 3 {
			b.Errorf("claimed with %d claims, want 3", c.Claims)
		}
		if h := b.head(saga); h.Claims != 3 {
			b.Errorf("%d claims, want 3", h.Claims)
		}
		progress.Saga = saga
		b.ok(progress)
		if h := b.head(saga); h.Claims != 0 {
			b.Errorf("%d claims after progress, want 0", h.Claims)
		}
		b.ok(progress)
	}
}

func releaseIsNoFault(b *bench) {
	saga := b.parked(epoch)
	for range 2 * journal.QuarantineAfter {
		if c := b.claimed(saga); c.Claims != 1 {
			b.Fatalf("claimed with %d claims, want 1", c.Claims)
		}
		from := b.now()
		b.must(b.Release(b.ctx, b.node))
		b.node = b.register(ttl)
		b.delayed(saga, from, 0)
	}
}

func givenUp(b *bench) {
	saga := b.parked(epoch)
	for claims := 1; claims < journal.QuarantineAfter; claims++ {
		if claims > 1 {
			b.send(saga)
		}
		b.claimed(saga)
		from := b.now()
		b.ok(journal.Append{Saga: saga, Release: true})
		rest, ok := journal.RetryDelay(claims)
		if !ok {
			b.Fatalf("no delay after %d claims", claims)
		}
		b.delayed(saga, from, rest)
		diff(b, "entries", b.entries(saga), nil)
	}
	from := b.now()
	b.releaseAgain(saga, 1)
	e := b.quarantined(saga, journal.QuarantineAfter)
	if e.Since.Before(from) || e.Since.After(b.now()) || !strings.Contains(string(e.Data), epoch.Format(journal.TimeFormat)) {
		b.Errorf("its entry is since %v, with %s; want it since now, with the time of the last record", e.Since, e.Data)
	}
	if h := b.head(saga); h.UpdatedAt.Before(from) {
		b.Errorf("row of %v, want one of the current time", h.UpdatedAt)
	}
	if got := len(b.records(saga)); got != 1 {
		b.Errorf("%d records, want the first only", got)
	}
}

func givenUpUnheld(b *bench) {
	saga := b.parked(epoch)
	for claims := 1; claims < journal.QuarantineAfter; claims++ {
		if claims > journal.QuarantineAfter/2 {
			b.send(saga)
		}
		b.claimed(saga)
		from := b.now()
		b.drain()
		b.ok(journal.Append{Saga: saga, Release: true, Unheld: true, Seq: 1})
		rest, _ := journal.TakeoverDelay(claims)
		b.delayed(saga, from, rest)
		if rest == 0 {
			b.hinted("a saga that was given up")
		}
		b.ok(journal.Append{Saga: saga, Release: true, Unheld: true, Seq: 1}) // no longer owned by the node
	}
	b.send(saga)
	b.claimed(saga)
	b.ok(journal.Append{Saga: saga, Release: true, Unheld: true, Seq: 1})
	b.quarantined(saga, journal.QuarantineAfter)
}

func (b *bench) killsNodes(die func()) {
	saga := b.parked(epoch)
	for claims := 1; claims < journal.QuarantineAfter; claims++ {
		rest, ok := journal.TakeoverDelay(claims - 1)
		if !ok {
			b.Fatalf("no delay after %d claims", claims-1)
		}
		if rest > 0 {
			b.send(saga)
		}
		if c := b.claimed(saga); c.Claims != claims {
			b.Fatalf("claimed with %d claims, want %d", c.Claims, claims)
		}
		from := b.now()
		die()
		rest, _ = journal.TakeoverDelay(claims)
		b.delayed(saga, from, rest)
	}
	b.send(saga)
	b.claimed(saga)
	die()
	b.quarantined(saga, journal.QuarantineAfter)
}

func oneMoreTry(b *bench) {
	saga := b.parked(epoch)
	other := entry(saga, "in_doubt", epoch)
	b.claimed(saga)
	waits := row("waiting")
	waits.Inbox = []journal.Entry{other}
	b.ok(journal.Append{Saga: saga, Row: waits, Release: true})
	b.releaseAgain(saga, journal.QuarantineAfter)
	first := b.quarantined(saga, journal.QuarantineAfter)
	for try := 1; try <= 3; try++ {
		m := b.send(saga)
		c := b.claimed(saga)
		if c.Claims != journal.QuarantineAfter+try || c.Messages == 0 || !slices.ContainsFunc(b.messages(b.node), func(have journal.Message) bool { return have.ID == m.ID }) {
			b.Errorf("claimed as %+v, want %d claims, and the message", c, journal.QuarantineAfter+try)
		}
		if try < 3 {
			b.ok(journal.Append{Saga: saga, Release: true})
		} else {
			b.die()
		}
		e := b.quarantined(saga, journal.QuarantineAfter+try)
		if e.ID != first.ID || !e.Since.Equal(first.Since) {
			b.Errorf("its entry is now %+v, want it to stay %s since %v", e, first.ID, first.Since)
		}
		if list := b.entries(saga); len(list) != 2 || list[0].ID != other.ID {
			b.Errorf("entries: %+v, want the earlier one and that of the quarantine", list)
		}
	}
	b.send(saga)
	b.claimed(saga)
	b.must(b.Release(b.ctx, b.node)) // a node that shuts down: its claim does not count
	b.node = b.register(ttl)
	b.claimed(saga)
}

func progressEndsIt(b *bench) {
	saga, hash := b.started()
	b.ok(journal.Append{Saga: saga, Release: true})
	b.releaseAgain(saga, journal.QuarantineAfter)
	b.quarantined(saga, journal.QuarantineAfter)
	m := b.send(saga)
	b.claimed(saga)
	b.ok(journal.Append{Saga: saga, Records: chain(saga, hash, 2, 1), Row: row("running"), Applied: []uuid.UUID{m.ID}})
	if h := b.head(saga); h.Quarantined() || h.Claims != 0 || h.Status != "running" {
		b.Errorf("after progress: %+v", h)
	}
	diff(b, "entries", b.entries(saga), nil)
	b.die()
	if c := b.claimed(saga); c.Claims != 1 {
		b.Errorf("claimed with %d claims, want 1", c.Claims)
	}
}

// suspect creates a saga with so many claims that it is a suspect, due at wake.
func (b *bench) suspect() uuid.UUID {
	b.Helper()
	saga := b.parked(time.Time{})
	b.releaseAgain(saga, journal.SuspectAfter)
	return saga
}

func suspectsLast(b *bench) {
	var suspects []uuid.UUID
	for range 3 {
		suspects = append(suspects, b.suspect())
	}
	for i, saga := range suspects {
		b.send(saga)
		if i < 2 { // their wake-up times differ
			from := b.now()
			b.eventually("the clock moves", func() bool { return b.now().After(from) })
		}
	}
	now := b.now()
	late, early, middle := b.parked(now.Add(-time.Second)), b.parked(now.Add(-time.Hour)), b.parked(now.Add(-time.Minute))
	diff(b, "none of none", b.claim(b.node, 0), nil)
	diff(b, "two", b.claim(b.node, 2), []uuid.UUID{early, suspects[0]})
	st, err := b.Stats(b.ctx)
	b.must(err)
	if !st.OldestDue.Equal(now.Add(-time.Minute)) {
		b.Errorf("the oldest is due since %v, want %v", st.OldestDue, now.Add(-time.Minute))
	}
	diff(b, "the others", b.claim(b.node, 10), []uuid.UUID{middle, late, suspects[1]})
	diff(b, "the last", b.claim(b.node, 10), suspects[2:])
	diff(b, "nothing", b.claim(b.node, 10), nil)
}

func innocents(b *bench) {
	const others = 6
	killer := b.parked(epoch)
	hashes := map[uuid.UUID][]byte{}
	for range others {
		saga := b.parked(epoch)
		hashes[saga] = b.records(saga)[0].Hash
	}
	for deaths := 0; deaths < journal.QuarantineAfter; {
		for {
			claimed := b.claim(b.node, 100)
			if len(claimed) == 0 {
				b.send(killer) // it is delayed; a message makes it claimable without waiting
				continue
			}
			if slices.Contains(claimed, killer) {
				b.die() // before any of the sagas claimed with it has continued
				deaths++
				break
			}
			for _, saga := range claimed {
				b.ok(journal.Append{Saga: saga, Records: chain(saga, hashes[saga], 2, 1), Row: row("done"), Release: true})
			}
		}
	}
	b.quarantined(killer, journal.QuarantineAfter)
	for saga := range hashes {
		if h := b.head(saga); h.Status != "done" || h.Claims != 0 {
			b.Errorf("a saga that was claimed with the killer: %+v, want it done", h)
		}
	}
}

func endedRests(b *bench) {
	saga := newID()
	a := begin(saga)
	a.Row, a.Release = ended(), true
	b.ok(a)
	b.releaseAgain(saga, journal.QuarantineAfter)
	h := b.head(saga)
	if h.Quarantined() || h.Status != "succeeded" || !h.WakeAt.IsZero() || len(b.entries(saga)) > 0 {
		b.Errorf("a saga that has ended, after %d claims: %+v, %+v", h.Claims, h, b.entries(saga))
	}
	diff(b, "claimable", b.claim(b.node, 10), nil)
}
