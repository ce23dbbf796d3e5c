package journaltest

import (
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp/cmpopts"

	"recourse/journal"
)

var indexTests = []test{
	{"the inbox is replaced with the row", inboxReplaced},
	{"a walk of the inbox finds all, once", walkInbox},
	{"delete", deletes},
	{"delete expired sagas", deletesExpired},
	{"a child is not deleted before its parent's end", deletesChild},
	{"live sagas of an opener", countsOpened},
	{"stats", stats},
	{"ping and close", pingAndClose},
}

func entry(saga uuid.UUID, kind string, since time.Time) journal.Entry {
	return journal.Entry{ID: newID(), Saga: saga, Definition: "trip", Kind: kind, Path: "step", Since: since, Data: []byte(`{"ask":"\u0000"}`)}
}

func inboxReplaced(b *bench) {
	saga, hash := b.started()
	other, _ := b.started()
	first, second := entry(saga, "approval", epoch), entry(saga, "stuck", epoch.Add(time.Minute))
	third := entry(other, "approval", epoch.Add(time.Second))
	r, o := row("waiting"), row("waiting")
	r.Inbox, o.Inbox = []journal.Entry{second, first}, []journal.Entry{third}
	b.ok(journal.Append{Saga: saga, Row: r}, journal.Append{Saga: other, Row: o})
	for _, tt := range []struct {
		name string
		f    journal.InboxFilter
		want []journal.Entry
	}{
		{"all", journal.InboxFilter{}, []journal.Entry{first, third, second}},
		{"kind", journal.InboxFilter{Kind: "approval"}, []journal.Entry{first, third}},
		{"saga", journal.InboxFilter{Saga: saga}, []journal.Entry{first, second}},
		{"after", journal.InboxFilter{After: first}, []journal.Entry{third, second}},
		{"limit", journal.InboxFilter{Limit: 1}, []journal.Entry{first}},
	} {
		got, err := b.Inbox(b.ctx, tt.f)
		b.must(err)
		diff(b, tt.name, got, tt.want)
	}
	r = row("waiting")
	r.Inbox = []journal.Entry{second}
	b.ok(journal.Append{Saga: saga, Records: chain(saga, hash, 2, 1), Row: r})
	b.ok(journal.Append{Saga: other, Row: row("running")})
	got, err := b.Inbox(b.ctx, journal.InboxFilter{})
	b.must(err)
	diff(b, "after the rows changed", got, []journal.Entry{second})
}

func countsOpened(b *bench) {
	opened := func(opener string, limit int) int {
		n, err := b.Opened(b.ctx, opener, limit)
		b.must(err)
		return n
	}
	var last uuid.UUID
	for _, opener := range []string{"bot", "bot", "other", "", "bot"} {
		last = newID()
		a := begin(last)
		a.Start.Opener = opener
		b.ok(a)
	}
	diff(b, "those of one", []int{opened("bot", 10), opened("bot", 2), opened("other", 10), opened("nobody", 10)}, []int{3, 2, 1, 0})
	b.ok(journal.Append{Saga: last, Row: ended()})
	diff(b, "after one has ended", opened("bot", 10), 2)
}

func walkInbox(b *bench) {
	var want []journal.Entry
	for i := range 6 {
		saga, _ := b.started()
		r := row("waiting")
		for k := range 4 {
			r.Inbox = append(r.Inbox, entry(saga, "approval", epoch.Add(time.Duration((i+k)%3)*time.Second)))
		}
		b.ok(journal.Append{Saga: saga, Row: r})
		want = append(want, r.Inbox...)
	}
	slices.SortFunc(want, func(x, y journal.Entry) int {
		if c := x.Since.Compare(y.Since); c != 0 {
			return c
		}
		return journal.CompareID(x.ID, y.ID)
	})
	var got []journal.Entry
	for f := (journal.InboxFilter{Limit: 5}); ; f.After = got[len(got)-1] {
		page, err := b.Inbox(b.ctx, f)
		b.must(err)
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
	}
	diff(b, "walk", got, want)
}

func deletes(b *bench) {
	saga := newID()
	a := begin(saga)
	a.Start.Key = "k"
	a.Row.Inbox = []journal.Entry{entry(saga, "approval", epoch)}
	b.ok(a)
	b.send(saga)
	b.wantErr(b.Delete(b.ctx, saga), journal.ErrLive)
	last := ended()
	last.Inbox = a.Row.Inbox
	b.ok(journal.Append{Saga: saga, Row: last, Release: true})
	b.must(b.Delete(b.ctx, saga))
	b.wantErr(b.Delete(b.ctx, saga), journal.ErrNotFound)
	_, err := b.Saga(b.ctx, saga)
	b.wantErr(err, journal.ErrNotFound)
	_, err = b.SagaByKey(b.ctx, "k")
	b.wantErr(err, journal.ErrNotFound)
	_, err = b.Records(b.ctx, saga, 0, 1)
	b.wantErr(err, journal.ErrNotFound)
	left, err := b.Inbox(b.ctx, journal.InboxFilter{})
	b.must(err)
	diff(b, "inbox", left, nil)
	diff(b, "claimed", b.claim(b.node, 10), nil)
	b.ok(a) // its id and key are free again, and it has no old messages
	diff(b, "messages", b.messages(b.node), nil)
}

func deletesExpired(b *bench) {
	past := b.now().Add(-time.Hour)
	over := func(at time.Time) journal.Append {
		a := begin(newID())
		a.Row, a.Release = ended(), true
		a.Row.DeleteAt = at
		b.ok(a)
		return a
	}
	expire := func(limit, want int, left ...uuid.UUID) {
		b.Helper()
		n, err := b.DeleteExpired(b.ctx, limit)
		b.must(err)
		diff(b, "deleted", n, want)
		ids := b.listed(journal.Filter{})
		slices.Reverse(ids)
		diff(b, "left", ids, left)
	}
	never, later, first, second, third := over(time.Time{}), over(past.Add(2*time.Hour)), over(past), over(past.Add(time.Second)), over(past.Add(time.Minute))
	live := begin(newID())
	live.Row.DeleteAt = past // it has not ended
	b.ok(live)
	diff(b, "DeleteAt", b.head(first.Saga).DeleteAt, past)
	expire(0, 0, never.Saga, later.Saga, first.Saga, second.Saga, third.Saga, live.Saga)
	expire(1, 1, never.Saga, later.Saga, second.Saga, third.Saga, live.Saga) // the earliest DeleteAt first
	expire(10, 2, never.Saga, later.Saga, live.Saga)
	expire(10, 0, never.Saga, later.Saga, live.Saga)
	_, err := b.Records(b.ctx, first.Saga, 0, 1)
	b.wantErr(err, journal.ErrNotFound)
	b.ok(first, second) // their ids are free again
	b.send(first.Saga)
	b.send(second.Saga)
	diff(b, "claimed", b.claim(b.node, 10), []uuid.UUID{first.Saga, second.Saga})
	kept, doomed := journal.Append{Saga: first.Saga, Row: row("kept")}, journal.Append{Saga: second.Saga, Row: row("doomed")}
	doomed.Row.DeleteAt = past
	b.ok(kept, doomed) // a row replaces DeleteAt, but not EndedAt
	expire(10, 1, never.Saga, later.Saga, first.Saga, live.Saga)
	end := journal.Append{Saga: live.Saga, Records: chain(live.Saga, live.Records[0].Hash, 2, 1), Row: ended(), Release: true}
	end.Row.DeleteAt = b.now().Add(200 * time.Millisecond)
	b.ok(end)
	b.eventually("its time has come", func() bool {
		n, err := b.DeleteExpired(b.ctx, 10)
		b.must(err)
		return n == 1
	})
	_, err = b.Saga(b.ctx, live.Saga)
	b.wantErr(err, journal.ErrNotFound)
}

func deletesChild(b *bench) {
	parent, hash := b.started()
	over := func() journal.Append {
		a := childOf(parent)
		a.Row, a.Release = ended(), true
		a.Row.DeleteAt = b.now().Add(-time.Hour)
		return a
	}
	child, other, alone := over(), over(), over()
	alone.Start.Parent = uuid.Nil
	b.ok(child, other, alone)
	expire := func(limit, want int) {
		b.Helper()
		n, err := b.DeleteExpired(b.ctx, limit)
		b.must(err)
		diff(b, "deleted", n, want)
	}
	expire(1, 1) // the limit counts deleted sagas, not skipped ones
	expire(10, 0)
	_, err := b.Saga(b.ctx, alone.Saga)
	b.wantErr(err, journal.ErrNotFound)
	b.wantErr(b.Delete(b.ctx, child.Saga), journal.ErrParentLive)
	b.head(child.Saga)
	b.ok(end(parent, hash))
	b.must(b.Delete(b.ctx, child.Saga))
	b.must(b.Delete(b.ctx, parent))
	expire(10, 1) // a deleted parent has ended
}

func stats(b *bench) {
	got, err := b.Stats(b.ctx)
	b.must(err)
	if age := b.now().Sub(got.CountedAt); age < -time.Second || age > patience {
		b.Errorf("few sagas are counted immediately, but these were counted %s ago", age)
	}
	uncounted := cmpopts.IgnoreFields(journal.Stats{}, "CountedAt")
	diff(b, "none", got, journal.Stats{}, uncounted)
	due := b.now().Add(-time.Minute)
	b.parked(due.Add(time.Second))
	b.parked(due)
	b.parked(due.Add(time.Hour))
	newer := begin(newID())
	newer.Row.UpdatedAt = epoch.Add(time.Hour)
	b.ok(newer)
	saga, _ := b.started()
	r := row("waiting")
	r.WakeAt = due.Add(-time.Hour) // owned: not due
	r.UpdatedAt = epoch.Add(time.Second)
	r.Inbox = []journal.Entry{entry(saga, "stuck", epoch.Add(time.Second)), entry(saga, "approval", epoch), entry(saga, "stuck", epoch.Add(time.Minute))}
	b.ok(journal.Append{Saga: saga, Row: r})
	over := begin(newID())
	over.Row, over.Release = ended(), true
	b.ok(over)
	got, err = b.Stats(b.ctx)
	b.must(err)
	diff(b, "stats", got, journal.Stats{ByStatus: map[string]int64{"running": 4, "waiting": 1, "succeeded": 1}, ByDefinition: map[string]int64{"trip": 5},
		Inbox: map[string]int64{"stuck": 2, "approval": 1}, OldestInbox: epoch, OldestDue: due,
		OldestInboxByKind: map[string]time.Time{"stuck": epoch.Add(time.Second), "approval": epoch},
		Oldest:            map[string]time.Time{"running": epoch, "waiting": epoch.Add(time.Second)}}, uncounted)
}

func pingAndClose(b *bench) {
	b.must(b.Ping(b.ctx))
	b.must(b.Store.Close())
	if err := b.Ping(b.ctx); err == nil {
		b.Error("a closed store answers")
	}
	if _, err := b.Store.Append(b.ctx, b.node, []journal.Append{begin(newID())}); err == nil {
		b.Error("a closed store takes appends")
	}
	for i := range 2 {
		if _, err := b.Saga(b.ctx, newID()); err == nil {
			b.Errorf("a closed store reads (%d)", i)
		}
	}
}
