package journaltest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

var appendTests = []test{
	{"records are read as they were written", readsBack},
	{"records after others, and like others", readsBackChained},
	{"records of the appending node", readsBackOwn},
	{"keeps the head", keepsHead},
	{"records by page", pages},
	{"the same batch again is written once", twice},
	{"the same batch again after later ones", twiceLater},
	{"a batch that overlaps written records", overlap},
	{"another record at a seq", conflict},
	{"a gap in the seqs", gap},
	{"a saga that does not exist", absent},
	{"a saga without an owner", notOwned},
	{"a start key that is taken", startKey},
	{"a start of the newest version", newestVersion},
	{"a start whose parent has ended", parentEnded},
	{"a parent's end and its child's start in one batch", parentEndsInBatch},
	{"a parent ends while its child starts", parentEndsConcurrently},
	{"a start whose parent is being undone", parentUndone},
	{"a parent's compensation begins while its child starts", parentUndoneConcurrently},
	{"a unique value that is taken", uniqueValue},
	{"a unique value freed and taken in one batch", uniqueHandedOver},
	{"a start key twice in one batch", startKeyTwice},
	{"a batch of everything", mixed},
	{"a repeated append has no second effect", replayIsOnce},
	{"a release without records, repeated after another's claim", replayedRelease},
	{"a release without records that comes late", overtakenRelease},
	{"a big batch", bigBatch},
	{"big journals", bigJournals},
}

// A store that is told more about the records returns the same ones, from any seq on.
func readsBackChained(b *bench) {
	saga := newID()
	records := chain(saga, nil, 1, 12)
	alike := &journal.Alike{Name: "trip@1", Records: func() []journal.Record { return records[:3] }}
	lengths := []int{2, 1, 3, 1, 4}
	from := 0
	for i, n := range lengths {
		a := journal.Append{Saga: saga, Records: records[from : from+n]}
		if i == 0 {
			a.Start, a.Row = start(), row("running")
		} else if i != 2 { // once it is not told
			a.Prev = records[from-1].Hash
		}
		if i%2 == 0 {
			a.Alike = alike
		}
		b.ok(a)
		if i == 4 { // repeated with more, it writes what is missing
			a.Records = records[from:]
			b.ok(a)
			break
		}
		from += n
	}
	stores := []journal.Store{b.Store}
	if b.subject.Again != nil {
		stores = append(stores, b.again()) // it has read nothing yet
	}
	for _, s := range stores {
		for after := range int64(13) {
			for limit := range 13 {
				got, err := s.Records(b.ctx, saga, after, limit)
				b.must(err)
				diff(b, fmt.Sprintf("%d after %d", limit, after), got, records[after:min(int(after)+limit, len(records))])
			}
		}
		begins, err := s.Begins(b.ctx, []uuid.UUID{saga}, 4, 1<<20)
		b.must(err)
		diff(b, "begins", begins[saga], records[:4])
	}
}

func readsBack(b *bench) {
	saga := newID()
	var records []journal.Record
	var prev []byte
	for i, data := range [][]byte{nil, []byte(`{"nul":"\u0000","raw":"` + "a\x00b" + `"}`), []byte(`9007199254740993`), []byte(`1e400`),
		[]byte(`{"a":1,"a":2, "b" : 19.10}`), bytes.Repeat([]byte{0xff, 0x00, 'x', '\''}, 1<<18)} {
		r := journal.Record{Seq: int64(i + 1), At: epoch, Kind: journal.Outcome, Path: "pages[3].fetch ✈", Way: journal.Undo, Attempt: 1<<31 - 1,
			Generation: 7, Key: "k'\"\\%_", Class: journal.InDoubt, Node: "n1", Data: data}
		journal.Seal(saga, prev, &r)
		prev = r.Hash
		records = append(records, r)
	}
	b.ok(journal.Append{Saga: saga, Start: start(), Records: records})
	got := b.records(saga)
	diff(b, "records", got, records)
	if got[0].Data != nil {
		b.Errorf("nil data came back as %q", got[0].Data)
	}
	b.must(journal.Verify(saga, nil, 1, got))
}

// readsBackOwn reads records that name the node that wrote them, which a store may write only once.
func readsBackOwn(b *bench) {
	saga, other := newID(), newID()
	own := func(saga uuid.UUID, node string) []journal.Record {
		list := chain(saga, nil, 1, 3)
		var prev []byte
		for i := range list {
			if i != 1 {
				list[i].Node = node
			}
			journal.Seal(saga, prev, &list[i])
			prev = list[i].Hash
		}
		return list
	}
	first := begin(saga)
	first.Records = own(saga, b.node)
	b.ok(first)
	if !b.exclusive {
		b.node = b.register(ttl)
	}
	second := begin(other)
	second.Records = own(other, b.node)
	b.ok(second)
	for id, want := range map[uuid.UUID][]journal.Record{saga: first.Records, other: second.Records} {
		diff(b, "records", b.records(id), want)
		if b.subject.Again == nil {
			continue
		}
		got, err := b.again().Records(b.ctx, id, 0, 10)
		b.must(err)
		diff(b, "records, read by another store", got, want)
	}
}

func keepsHead(b *bench) {
	saga := newID()
	parent, _ := b.started()
	st := &journal.Start{Definition: "trip", Version: 4, SHA256: sha("x"), Key: "c1/k", Hash: "h", Unique: "u", Opener: "bot", Local: true, Parent: parent,
		RetryOf: newID(), ForkedFrom: newID(), CreatedAt: epoch}
	r := &journal.Row{Status: "waiting", Reason: "slow", Labels: map[string]string{"tier": "gold", "näme": "Ünï"}, WakeAt: epoch,
		Summary: []byte(`{"cost":1.10}`), Seq: 1, UpdatedAt: epoch}
	b.ok(journal.Append{Saga: saga, Start: st, Records: chain(saga, nil, 1, 1), Row: r})
	want := journal.Head{ID: saga, Start: *st, Row: *r, Owner: b.node}
	diff(b, "Saga", b.head(saga), want)
	got, err := b.SagaByKey(b.ctx, "c1/k")
	b.must(err)
	diff(b, "SagaByKey", got, want)
	want.Row = *row("running")
	b.ok(journal.Append{Saga: saga, Row: row("running")})
	diff(b, "Saga after its row was replaced", b.head(saga), want)
	_, err = b.SagaByKey(b.ctx, "nobody's")
	b.wantErr(err, journal.ErrNotFound)
	_, err = b.Saga(b.ctx, newID())
	b.wantErr(err, journal.ErrNotFound)
}

func pages(b *bench) {
	saga := newID()
	all := chain(saga, nil, 1, 10)
	b.ok(journal.Append{Saga: saga, Start: start(), Records: all})
	for _, tt := range []struct {
		after int64
		limit int
		want  []journal.Record
	}{{0, 3, all[:3]}, {3, 3, all[3:6]}, {9, 3, all[9:]}, {10, 3, nil}, {99, 1, nil}, {0, 100, all}} {
		got, err := b.Records(b.ctx, saga, tt.after, tt.limit)
		b.must(err)
		diff(b, "Records", got, tt.want)
	}
	other, _ := b.started()
	begins, err := b.Begins(b.ctx, []uuid.UUID{saga, newID(), other}, 2, 1<<20)
	b.must(err)
	diff(b, "Begins", begins, map[uuid.UUID][]journal.Record{saga: all[:2], other: b.records(other)})
	few, err := b.Begins(b.ctx, []uuid.UUID{saga, other}, 2, len(all[0].Data)+len(all[1].Data))
	b.must(err)
	if len(few) != 1 {
		b.Errorf("of %d sagas, Begins returned the first records of %d, want 1: both have more bytes than the limit", 2, len(few))
	}
	none, err := b.Begins(b.ctx, []uuid.UUID{saga}, 2, len(all[0].Data)+len(all[1].Data)-1)
	b.must(err)
	if len(none) != 0 {
		b.Errorf("Begins returned only some of a saga's first records: %v", none)
	}
	_, err = b.Records(b.ctx, newID(), 0, 1)
	b.wantErr(err, journal.ErrNotFound)
}

func twice(b *bench) {
	one, two := begin(newID()), begin(newID())
	b.ok(one, two)
	b.ok(one, two)
	b.ok(two)
	diff(b, "records", b.records(one.Saga), one.Records)
}

func twiceLater(b *bench) {
	saga, hash := b.started()
	second := journal.Append{Saga: saga, Records: chain(saga, hash, 2, 2), Row: row("second")}
	third := journal.Append{Saga: saga, Records: chain(saga, second.Records[1].Hash, 4, 1), Row: row("third")}
	b.ok(second)
	b.ok(third)
	b.ok(second)
	diff(b, "records", b.records(saga), append(chain(saga, nil, 1, 1), append(second.Records, third.Records...)...))
	if got := b.head(saga).Status; got != "third" {
		b.Errorf("status = %q: a repeated append was applied again", got)
	}
}

func overlap(b *bench) {
	saga, hash := b.started()
	records := chain(saga, hash, 2, 4)
	b.ok(journal.Append{Saga: saga, Records: records[:2]})
	b.ok(journal.Append{Saga: saga, Records: records, Row: row("all")})
	diff(b, "records", b.records(saga)[1:], records)
	if got := b.head(saga).Status; got != "all" {
		b.Errorf("status = %q, want all", got)
	}
}

func conflict(b *bench) {
	saga, hash := b.started()
	other, otherHash := b.started()
	b.ok(journal.Append{Saga: saga, Records: chain(saga, hash, 2, 2)})
	odd := chain(saga, []byte("another chain"), 2, 1)
	got := b.append(
		journal.Append{Saga: other, Records: chain(other, otherHash, 2, 1), Row: row("moved")},
		journal.Append{Saga: saga, Records: odd, Row: row("wrong"), Release: true})
	b.wantErr(got[1].Err, journal.ErrConflict)
	b.must(got[0].Err)
	if h := b.head(other); h.Status != "moved" || len(b.records(other)) != 2 {
		b.Errorf("the rest of the batch was not written: %+v", h)
	}
	if h := b.head(saga); h.Status != "running" || h.Owner != b.node {
		b.Errorf("a conflicting append had an effect: %+v", h)
	}
}

func gap(b *bench) {
	saga, hash := b.started()
	got := b.append(journal.Append{Saga: saga, Records: chain(saga, hash, 3, 1)})
	b.wantErr(got[0].Err, journal.ErrConflict)
	fresh := newID()
	got = b.append(journal.Append{Saga: fresh, Start: start(), Records: chain(fresh, nil, 2, 1)})
	b.wantErr(got[0].Err, journal.ErrConflict)
	holes := append(chain(saga, hash, 2, 1), chain(saga, hash, 4, 1)...)
	got = b.append(journal.Append{Saga: saga, Records: holes})
	b.wantErr(got[0].Err, journal.ErrConflict)
	if n := len(b.records(saga)); n != 1 {
		b.Errorf("%d records, want 1", n)
	}
}

func absent(b *bench) {
	saga := newID()
	got := b.append(journal.Append{Saga: saga, Records: chain(saga, nil, 1, 1)}, journal.Append{Saga: newID(), Row: row("x")})
	b.wantErr(got[0].Err, journal.ErrConflict)
	b.wantErr(got[1].Err, journal.ErrConflict)
}

func notOwned(b *bench) {
	a := begin(newID())
	a.Release = true
	b.ok(a)
	got := b.append(journal.Append{Saga: a.Saga, Records: chain(a.Saga, a.Records[0].Hash, 2, 1)}, journal.Append{Saga: newID(), Start: start()})
	b.wantErr(got[0].Err, journal.ErrConflict)
	b.must(got[1].Err)
}

func startKey(b *bench) {
	first := begin(newID())
	first.Start.Key = "client/order-1"
	b.ok(first)
	second, third := begin(newID()), begin(newID())
	second.Start.Key = "client/order-1"
	got := b.append(second, third)
	b.wantErr(got[0].Err, journal.ErrStartKey)
	diff(b, "holder", got[0].Saga, first.Saga)
	b.must(got[1].Err)
	_, err := b.Saga(b.ctx, second.Saga)
	b.wantErr(err, journal.ErrNotFound)
	b.ok(first)
}

func startKeyTwice(b *bench) {
	one, two := begin(newID()), begin(newID())
	one.Start.Key, two.Start.Key = "same", "same"
	got := b.append(one, two)
	b.must(got[0].Err)
	b.wantErr(got[1].Err, journal.ErrStartKey)
	diff(b, "holder", got[1].Saga, one.Saga)
}

func newestVersion(b *bench) {
	publish := func(text string) {
		_, _, err := b.Publish(b.ctx, journal.Document{Kind: journal.Definition, Name: "trip", SHA256: text, Source: []byte(text)}, "")
		b.must(err)
	}
	of := func(version int) journal.Append {
		a := begin(newID())
		a.Start.Definition, a.Start.Version, a.Start.Newest = "trip", version, true
		return a
	}
	none := b.append(of(1))
	b.wantErr(none[0].Err, journal.ErrNotNewest)
	publish("one")
	first := of(1)
	first.Start.Key = "k"
	b.ok(first, of(1))
	publish("two")
	old, other := of(1), begin(newID())
	got := b.append(old, of(2), other)
	b.wantErr(got[0].Err, journal.ErrNotNewest)
	b.must(got[1].Err)
	b.must(got[2].Err)
	_, err := b.Saga(b.ctx, old.Saga)
	b.wantErr(err, journal.ErrNotFound)
	b.ok(first) // a repetition succeeds
	same := of(1)
	same.Start.Key = "k"
	b.wantErr(b.append(same)[0].Err, journal.ErrStartKey)
	pinned := of(1)
	pinned.Start.Newest = false
	b.ok(pinned)
	b.must(b.Archive(b.ctx, journal.Definition, "trip"))
	b.wantErr(b.append(of(2))[0].Err, journal.ErrNotNewest)
	publish("two")
	b.ok(of(2))
	if h := b.head(first.Saga); h.Newest {
		b.Error("a saga's row has Newest set")
	}
}

// childOf returns the append that starts a saga with a parent.
func childOf(parent uuid.UUID) journal.Append {
	a := begin(newID())
	a.Start.Parent = parent
	return a
}

// end returns the append that ends a saga of one record.
func end(saga uuid.UUID, hash []byte) journal.Append {
	return journal.Append{Saga: saga, Records: chain(saga, hash, 2, 1), Row: rowEnded(2), Release: true}
}

func rowEnded(seq int64) *journal.Row {
	r := rowOf("succeeded", seq)
	r.EndedAt = epoch
	return r
}

func parentEnded(b *bench) {
	parent, hash := b.started()
	first, keyed := childOf(parent), childOf(parent)
	keyed.Start.Key = "run:1"
	b.ok(first, keyed)
	b.ok(end(parent, hash))
	late, orphan, other := childOf(parent), childOf(newID()), begin(newID())
	got := b.append(late, other, orphan)
	b.wantErr(got[0].Err, journal.ErrParentEnded)
	b.must(got[1].Err)
	b.wantErr(got[2].Err, journal.ErrParentEnded)
	_, err := b.Saga(b.ctx, late.Saga)
	b.wantErr(err, journal.ErrNotFound)
	b.wantErr(b.append(late)[0].Err, journal.ErrParentEnded)
	b.ok(first) // a repetition succeeds
	taken := childOf(parent)
	taken.Start.Key = "run:1"
	b.wantErr(b.append(taken)[0].Err, journal.ErrStartKey)
}

func parentEndsInBatch(b *bench) {
	parent, hash := b.started()
	before, after := childOf(parent), childOf(parent)
	ends := end(parent, hash)
	word := journal.Message{ID: newID(), Saga: before.Saga, Kind: "order", Data: []byte(`{}`)}
	ends.Messages = []journal.Message{word}
	batch := []journal.Append{before, ends, after}
	for range 2 { // a repetition has the same result
		got := b.append(batch...)
		b.must(got[0].Err)
		b.must(got[1].Err)
		b.wantErr(got[2].Err, journal.ErrParentEnded)
	}
	diff(b, "messages", b.messages(b.node), []journal.Message{word})
	family := begin(newID())
	b.ok(family, childOf(family.Saga))
}

// undoing returns the append that gives a saga of one record a reason.
func undoing(saga uuid.UUID, hash []byte) journal.Append {
	r := rowOf("compensating", 2)
	r.Reason = "step_failed"
	return journal.Append{Saga: saga, Records: chain(saga, hash, 2, 1), Row: r}
}

func parentUndone(b *bench) {
	parent, hash := b.started()
	first := childOf(parent)
	b.ok(first)
	undo, before, after, final := undoing(parent, hash), childOf(parent), childOf(parent), childOf(parent)
	final.Start.Final = true
	for range 2 { // a repetition has the same result
		got := b.append(before, undo, after, final)
		b.must(got[0].Err)
		b.must(got[1].Err)
		b.wantErr(got[2].Err, journal.ErrParentEnded)
		b.must(got[3].Err)
	}
	late, last := childOf(parent), childOf(parent)
	last.Start.Final = true
	got := b.append(late, last)
	b.wantErr(got[0].Err, journal.ErrParentEnded)
	b.must(got[1].Err)
	_, err := b.Saga(b.ctx, late.Saga)
	b.wantErr(err, journal.ErrNotFound)
	if b.head(last.Saga).Final {
		b.Error("a saga's row has Final set")
	}
	b.ok(first) // a repetition succeeds
	ends := journal.Append{Saga: parent, Row: rowEnded(2), Release: true}
	ends.Row.Reason = "step_failed"
	b.ok(ends)
	final = childOf(parent)
	final.Start.Final = true
	b.wantErr(b.append(final)[0].Err, journal.ErrParentEnded)
}

// If a parent does not find its child after the record that begins the compensation was committed,
// the child never starts.
func parentUndoneConcurrently(b *bench) {
	for range 20 {
		parent, hash := b.started()
		child := childOf(parent)
		started := make(chan journal.Result)
		go func() {
			got, err := b.Store.Append(b.ctx, b.node, []journal.Append{child})
			if err != nil {
				got = []journal.Result{{Err: err}}
			}
			started <- got[0]
		}()
		b.ok(undoing(parent, hash))
		_, err := b.Saga(b.ctx, child.Saga)
		if res := <-started; res.Err == nil {
			b.must(err)
		} else {
			b.wantErr(res.Err, journal.ErrParentEnded)
			b.wantErr(err, journal.ErrNotFound)
		}
	}
}

// A message that a parent sends with its end reaches every child that exists then or later.
func parentEndsConcurrently(b *bench) {
	for range 20 {
		parent, hash := b.started()
		child, ends := childOf(parent), end(parent, hash)
		ends.Messages = []journal.Message{{ID: newID(), Saga: child.Saga, Kind: "order", Data: []byte(`{}`)}}
		started := make(chan journal.Result)
		go func() {
			got, err := b.Store.Append(b.ctx, b.node, []journal.Append{child})
			if err != nil {
				got = []journal.Result{{Err: err}}
			}
			started <- got[0]
		}()
		b.ok(ends)
		var recipients []uuid.UUID
		switch res := <-started; {
		case res.Err == nil:
			recipients = []uuid.UUID{child.Saga}
		default:
			b.wantErr(res.Err, journal.ErrParentEnded)
		}
		var got []uuid.UUID
		for _, m := range b.messages(b.node) {
			if m.Saga == child.Saga {
				got = append(got, m.Saga)
			}
		}
		diff(b, "children that got a message", got, recipients)
	}
}

func uniqueValue(b *bench) {
	with := func(definition string) journal.Append {
		a := begin(newID())
		a.Start.Definition, a.Start.Unique = definition, "seat 12A"
		return a
	}
	first, second, elsewhere := with("trip"), with("trip"), with("tour")
	b.ok(first)
	got := b.append(second, elsewhere)
	b.wantErr(got[0].Err, journal.ErrUnique)
	diff(b, "holder", got[0].Saga, first.Saga)
	b.must(got[1].Err)
	over := with("trip")
	over.Row = ended()
	b.ok(over)
	b.ok(journal.Append{Saga: first.Saga, Records: chain(first.Saga, first.Records[0].Hash, 2, 1), Row: ended(), Release: true})
	b.ok(second)
}

func uniqueHandedOver(b *bench) {
	first, second := begin(newID()), begin(newID())
	first.Start.Unique, second.Start.Unique = "u", "u"
	b.ok(first)
	end := journal.Append{Saga: first.Saga, Records: chain(first.Saga, first.Records[0].Hash, 2, 1), Row: ended(), Release: true}
	b.ok(end, second)
	third := begin(newID())
	third.Start.Unique = "u"
	end = journal.Append{Saga: second.Saga, Records: chain(second.Saga, second.Records[0].Hash, 2, 1), Row: ended(), Release: true}
	got := b.append(third, end)
	b.wantErr(got[0].Err, journal.ErrUnique)
	b.must(got[1].Err)
	b.ok(third)
	// A saga that ends in its first append never has its value, so it does not affect the next one.
	over, fourth := begin(newID()), begin(newID())
	over.Start.Unique, over.Row, fourth.Start.Unique = "u", ended(), "u"
	end = journal.Append{Saga: third.Saga, Records: chain(third.Saga, third.Records[0].Hash, 2, 1), Row: ended(), Release: true}
	got = b.append(over, fourth, end)
	b.must(got[0].Err)
	b.wantErr(got[1].Err, journal.ErrUnique)
	b.must(got[2].Err)
}

func mixed(b *bench) {
	live, liveHash := b.started()
	torn, tornHash := b.started()
	b.ok(journal.Append{Saga: torn, Records: chain(torn, tornHash, 2, 1)})
	keyed, uniq := begin(newID()), begin(newID())
	keyed.Start.Key, uniq.Start.Unique = "k", "u"
	b.ok(keyed, uniq)
	again := journal.Append{Saga: live, Records: chain(live, liveHash, 2, 1)}
	b.ok(again)
	sameKey, sameUnique, fresh := begin(newID()), begin(newID()), begin(newID())
	sameKey.Start.Key, sameUnique.Start.Unique = "k", "u"
	got := b.append(sameKey, again, fresh,
		journal.Append{Saga: torn, Records: chain(torn, []byte("?"), 2, 1)}, sameUnique,
		journal.Append{Saga: uniq.Saga, Records: chain(uniq.Saga, uniq.Records[0].Hash, 2, 3)})
	want := []journal.Result{{Err: journal.ErrStartKey, Saga: keyed.Saga}, {}, {}, {Err: journal.ErrConflict},
		{Err: journal.ErrUnique, Saga: uniq.Saga}, {}}
	for i := range want {
		b.wantErr(got[i].Err, want[i].Err)
		diff(b, "holder", got[i].Saga, want[i].Saga)
	}
	for saga, n := range map[uuid.UUID]int{live: 2, torn: 2, fresh.Saga: 1, uniq.Saga: 4} {
		if got := len(b.records(saga)); got != n {
			b.Errorf("saga %s has %d records, want %d", saga, got, n)
		}
	}
}

func replayIsOnce(b *bench) {
	saga, hash := b.started()
	m := b.send(saga)
	done := journal.Append{Saga: saga, Records: chain(saga, hash, 2, 1), Row: row("parked"), Release: true, Applied: []uuid.UUID{m.ID}}
	b.ok(done)
	b.send(saga) // wakes it
	diff(b, "claimed", b.claim(b.node, 10), []uuid.UUID{saga})
	b.ok(journal.Append{Saga: saga, Records: chain(saga, done.Records[0].Hash, 3, 1), Row: row("running")})
	b.ok(done)
	if h := b.head(saga); h.Owner != b.node || h.Status != "running" {
		b.Errorf("a repeated append was applied again: %+v", h)
	}
	if got := b.messages(b.node); len(got) != 1 {
		b.Errorf("%d messages, want the one that was not applied", len(got))
	}
}

func replayedRelease(b *bench) {
	saga, _ := b.started()
	give := journal.Append{Saga: saga, Row: row("parked"), Release: true}
	give.Row.WakeAt = epoch
	b.ok(give)
	b.ok(give)
	if !b.exclusive {
		other := b.register(ttl)
		diff(b, "claimed", b.claim(other, 10), []uuid.UUID{saga})
		b.ok(give)
		if h := b.head(saga); h.Owner != other {
			b.Errorf("owner = %q: the release took the saga from its new owner %q", h.Owner, other)
		}
	}
}

// An attempt that was abandoned may arrive after the one that succeeded, and after the saga has
// continued on the same node.
func overtakenRelease(b *bench) {
	saga, hash := b.started()
	give := journal.Append{Saga: saga, Row: row("parked"), Release: true}
	b.ok(give)
	b.send(saga)
	b.claimed(saga)
	b.ok(journal.Append{Saga: saga, Records: chain(saga, hash, 2, 1), Row: rowOf("running", 2)})
	b.ok(give)
	if h := b.head(saga); h.Owner != b.node || h.Seq != 2 || h.Status != "running" {
		b.Errorf("a release of %d records took effect after %d: %+v", give.Row.Seq, h.Seq, h)
	}
	unheld := journal.Append{Saga: saga, Release: true, Unheld: true, Seq: 1}
	b.ok(unheld)
	if h := b.head(saga); h.Owner != b.node {
		b.Errorf("an unheld saga of %d records was released after %d: %+v", unheld.Seq, h.Seq, h)
	}
	unheld.Seq = 2
	b.ok(unheld)
	if h := b.head(saga); h.Owner != "" {
		b.Errorf("an unheld saga was not released: %+v", h)
	}
}

func bigBatch(b *bench) {
	var batch []journal.Append
	for range 300 {
		a := begin(newID())
		a.Row.Labels = map[string]string{"pad": strings.Repeat("x", 100)}
		batch = append(batch, a)
	}
	b.ok(batch...)
	b.ok(batch...)
	if got := b.listed(journal.Filter{}); len(got) != len(batch) {
		b.Errorf("%d sagas, want %d", len(got), len(batch))
	}
}

// Journals that are larger than a store reads at once are read completely, also to find out which
// records of a repeated append are written.
func bigJournals(b *bench) {
	random := rand.NewChaCha8([sha256.Size]byte{})
	big := func(saga uuid.UUID, prev []byte, seq int64) []journal.Record {
		r := journal.Record{Seq: seq, At: epoch, Kind: journal.Outcome, Path: "step", Way: journal.Do, Attempt: 1, Node: "writer", Data: make([]byte, 700_000)}
		_, _ = random.Read(r.Data) // it never fails
		journal.Seal(saga, prev, &r)
		return []journal.Record{r}
	}
	saga := newID()
	var want []journal.Record
	var last journal.Append
	var prev []byte
	for seq := range int64(3) {
		last = journal.Append{Saga: saga, Records: big(saga, prev, seq+1)}
		if seq == 0 {
			last.Start = start()
		}
		b.ok(last)
		want, prev = append(want, last.Records...), last.Records[0].Hash
	}
	got, err := b.Records(b.ctx, saga, 0, 1000)
	b.must(err)
	diff(b, "records", got, want)
	b.ok(last)
	var batch []journal.Append
	for range 3 {
		a := begin(newID())
		a.Records = big(a.Saga, nil, 1)
		batch = append(batch, a)
	}
	b.ok(batch...)
	b.ok(batch...)
}
