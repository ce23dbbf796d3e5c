package journaltest

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

var mailTests = []test{
	{"in the order of ids, until consumed", mailOrder},
	{"bounded by count and by bytes", mailBounds},
	{"mailboxes", mailboxes},
	{"the same message twice", postTwice},
	{"the same message consumed twice", foldTwice},
	{"to no saga", postNowhere},
	{"hints", hints},
	{"mail in waiting keeps a saga from being parked", parkWithMail},
	{"park and post race", parkAndPostRace},
	{"set aside, whatever mail there is", setAside},
	{"an append that conflicts consumes nothing", conflictKeepsMail},
	{"an append posts", appendPosts},
	{"an append posts to no saga", appendPostsNowhere},
	{"an append posts to sagas of its batch", appendPostsInBatch},
	{"park and an append's post race", parkAndAppendRace},
}

func mailOrder(b *bench) {
	one, _ := b.started()
	two, _ := b.started()
	parked := b.parked(time.Time{})
	ids := []uuid.UUID{newID(), newID(), newID(), newID()}
	for _, i := range []int{2, 0, 3, 1} {
		saga := one
		if i%2 == 1 {
			saga = two
		}
		b.must(b.Send(b.ctx, journal.Message{ID: ids[i], Saga: saga, Kind: "signal", Data: []byte(`"a\u0000"`)}))
	}
	b.post(parked)
	idsOf := func(mail []journal.Message) (out []uuid.UUID) {
		for _, m := range mail {
			out = append(out, m.ID)
		}
		return out
	}
	diff(b, "mail", idsOf(b.mail(b.node)), ids)
	diff(b, "data", string(b.mail(b.node)[0].Data), `"a\u0000"`)
	b.ok(journal.Append{Saga: one, Applied: []uuid.UUID{ids[0], newID()}})
	diff(b, "mail", idsOf(b.mail(b.node)), ids[1:])
	b.ok(journal.Append{Saga: two, Applied: []uuid.UUID{ids[1], ids[3], ids[2]}}) // the last is another saga's
	diff(b, "mail", idsOf(b.mail(b.node)), ids[2:3])
}

// mailBounds: however much waits, a caller gets as much as it has asked for, and the rest later.
func mailBounds(b *bench) {
	var sagas []uuid.UUID
	for range 40 { // more than a statement asks for
		saga, _ := b.started()
		sagas = append(sagas, saga)
	}
	slices.SortFunc(sagas, journal.CompareID)
	const large = 100_000
	var want []journal.Message
	for i, saga := range sagas {
		for size := range 2 + i%2 {
			m := journal.Message{ID: newID(), Saga: saga, Kind: "signal", Data: []byte(`"` + strings.Repeat("x", large*size) + `"`)}
			b.must(b.Send(b.ctx, m))
			want = append(want, m)
		}
	}
	asked := slices.Clone(sagas)
	slices.Reverse(asked)
	got := func(limit, bytes int) []journal.Message {
		b.Helper()
		out, err := b.Messages(b.ctx, asked, limit, bytes)
		b.must(err)
		return out
	}
	diff(b, "all", got(1000, 1<<30), want)
	diff(b, "up to a limit", got(90, 1<<30), want[:90])
	diff(b, "none", got(0, 1<<30), nil)
	const two = 2*large + 3*2 + 2 // the small ones of two sagas, and their large ones
	diff(b, "just as many bytes", got(1000, two), want[:4])
	diff(b, "a byte less", got(1000, two-1), want[:3])
	diff(b, "the first is small", got(1000, 0), want[:1])
	for rest := want; len(rest) > 0; { // page by page, as messages are consumed
		page := got(7, 3*large)
		diff(b, "the next page", page, rest[:len(page)])
		sum := 0
		for _, m := range page {
			sum += len(m.Data)
			b.ok(journal.Append{Saga: m.Saga, Applied: []uuid.UUID{m.ID}})
		}
		if len(page) == 0 || len(page) > 7 || sum > 3*large && len(page) > 1 {
			b.Fatalf("a page has %d messages of %d bytes", len(page), sum)
		}
		rest = rest[len(page):]
	}
	saga := sagas[20]
	m := journal.Message{ID: newID(), Saga: saga, Kind: "signal", Data: want[len(want)-1].Data}
	b.must(b.Send(b.ctx, m))
	diff(b, "one that is larger than all may be", got(1000, 1), []journal.Message{m})
	diff(b, "none of no saga", b.mailOf(newID()), nil)
}

func mailboxes(b *bench) {
	var want []journal.Recipient
	for n := range 4 {
		saga, _ := b.started()
		for range n {
			b.post(saga)
		}
		if n > 0 {
			want = append(want, journal.Recipient{Saga: saga, Messages: n})
		}
	}
	b.post(b.parked(time.Time{})) // nobody's
	slices.SortFunc(want, func(x, y journal.Recipient) int { return journal.CompareID(x.Saga, y.Saga) })
	for at := range want {
		after := uuid.Nil
		if at > 0 {
			after = want[at-1].Saga
		}
		got, err := b.Recipients(b.ctx, b.node, after, 2)
		b.must(err)
		diff(b, "a page", got, want[at:min(at+2, len(want))])
	}
	b.ok(journal.Append{Saga: want[0].Saga, Applied: []uuid.UUID{b.mailOf(want[0].Saga)[0].ID}})
	if want[0].Messages--; want[0].Messages == 0 {
		want = want[1:]
	}
	for node, want := range map[string][]journal.Recipient{b.node: want, "ghost": nil, "": nil} {
		got, err := b.Recipients(b.ctx, node, uuid.Nil, 10)
		b.must(err)
		diff(b, "of node "+node, got, want)
	}
}

func postTwice(b *bench) {
	saga, hash := b.started()
	m := b.post(saga)
	b.must(b.Send(b.ctx, m))
	diff(b, "mail", b.mail(b.node), []journal.Message{m})
	b.ok(journal.Append{Saga: saga, Records: chain(saga, hash, 2, 1), Applied: []uuid.UUID{m.ID}})
	b.must(b.Send(b.ctx, m)) // a poster that did not hear of its success
	diff(b, "mail once it was folded in", b.mail(b.node), nil)
	b.ok(journal.Append{Saga: saga, Release: true})
	diff(b, "claimable", b.claim(b.node, 10), nil)
}

func foldTwice(b *bench) {
	saga, _ := b.started()
	first := b.post(saga)
	b.ok(journal.Append{Saga: saga, Applied: []uuid.UUID{first.ID, first.ID}})
	b.ok(journal.Append{Saga: saga, Applied: []uuid.UUID{first.ID}})
	second := b.post(saga)
	diff(b, "mail", b.mail(b.node), []journal.Message{second})
	b.ok(journal.Append{Saga: saga, Row: row("parked"), Release: true})
	diff(b, "claimed", b.claim(b.node, 10), []uuid.UUID{saga})
}

func setAside(b *bench) {
	saga, _ := b.started()
	b.post(saga)
	from := b.now()
	b.ok(journal.Append{Saga: saga, Release: true})
	h := b.head(saga)
	if h.Owner != "" || h.WakeAt.Before(from.Add(journal.FirstRetryDelay)) || h.WakeAt.After(b.now().Add(journal.FirstRetryDelay)) {
		b.Errorf("owner %q, wakes at %v; want nobody's, and to wake %v after %v", h.Owner, h.WakeAt, journal.FirstRetryDelay, from)
	}
	diff(b, "claimable", b.claim(b.node, 10), nil)
	b.post(saga) // somebody may have mended it
	diff(b, "claimable after new mail", b.claim(b.node, 10), []uuid.UUID{saga})
}

func postNowhere(b *bench) {
	b.wantErr(b.Send(b.ctx, journal.Message{ID: newID(), Saga: newID(), Kind: "signal"}), journal.ErrNotFound)
}

func hints(b *bench) {
	saga, _ := b.started()
	b.drain()
	b.post(saga)
	b.hinted("the mail")
	other, _ := b.started()
	b.drain()
	b.ok(journal.Append{Saga: other, Messages: []journal.Message{result(saga)}})
	b.hinted("the mail that came with an append")
}

// posting is an append of a fresh saga that posts.
func posting(mail ...journal.Message) journal.Append {
	a := begin(newID())
	a.Messages = mail
	return a
}

func appendPosts(b *bench) {
	one, hash := b.started()
	two, _ := b.started()
	parked := b.parked(b.now().Add(time.Hour))
	toOne, toTwo, toParked := result(one), result(two), result(parked)
	a := posting(toOne, toTwo, toOne, toParked)
	b.ok(a)
	b.ok(a)
	diff(b, "mail", b.mail(b.node), []journal.Message{toOne, toTwo})
	claimed, err := b.Claim(b.ctx, b.node, 10)
	b.must(err)
	diff(b, "claimed", claimed, []journal.Claimed{{Saga: parked, Definition: "trip", Version: 3, Claims: 1, Messages: 1}}, whenever)
	diff(b, "mail", b.mail(b.node), []journal.Message{toOne, toTwo, toParked})
	b.ok(journal.Append{Saga: one, Records: chain(one, hash, 2, 1), Applied: []uuid.UUID{toOne.ID}})
	b.ok(journal.Append{Saga: a.Saga, Messages: []journal.Message{toOne, toTwo}}) // each was posted before
	b.must(b.Send(b.ctx, toTwo))
	diff(b, "mail", b.mail(b.node), []journal.Message{toTwo, toParked})
	self := result(a.Saga)
	b.ok(journal.Append{Saga: a.Saga, Messages: []journal.Message{self}, Row: row("parked"), Release: true})
	diff(b, "claimed by its own message", b.claim(b.node, 10), []uuid.UUID{a.Saga})
}

func appendPostsNowhere(b *bench) {
	saga, _ := b.started()
	m := result(saga)
	a := posting(result(newID()), m, result(newID()))
	a.Tasks, a.Events = []journal.Task{newTask("a")}, []journal.Event{event("s")}
	b.ok(a)
	diff(b, "records", len(b.records(a.Saga)), 1)
	diff(b, "mail", b.mail(b.node), []journal.Message{m})
	b.claimTasks("a", 10, 1)
	diff(b, "events", len(b.claimEvents(10, time.Hour)), 1)
}

// appendPostsInBatch: a message is posted behind all else of its batch.
func appendPostsInBatch(b *bench) {
	holder, hash := b.started()
	child, second := begin(newID()), begin(newID())
	child.Row.WakeAt, child.Release = b.now().Add(time.Hour), true
	toChild, toSecond, toHolder := result(child.Saga), result(second.Saga), result(holder)
	a := posting(toChild, toSecond, toHolder)
	park := journal.Append{Saga: holder, Records: chain(holder, hash, 2, 1), Row: row("parked"), Release: true, Applied: []uuid.UUID{toHolder.ID}}
	b.ok(a, child, park, second)
	diff(b, "mail", b.mail(b.node), []journal.Message{toSecond})
	claimed, err := b.Claim(b.ctx, b.node, 10)
	b.must(err)
	diff(b, "mail of those claimed", b.mail(b.node), []journal.Message{toChild, toSecond, toHolder})
	byID := func(x, y journal.Claimed) int { return slices.Compare(x.Saga[:], y.Saga[:]) }
	want := []journal.Claimed{{Saga: child.Saga, Definition: "trip", Version: 3, Claims: 1, Messages: 1},
		{Saga: holder, Definition: "trip", Version: 3, Claims: 1, Messages: 1}}
	slices.SortFunc(claimed, byID)
	slices.SortFunc(want, byID)
	diff(b, "claimed", claimed, want, whenever)

	ends, waits, refused := begin(newID()), begin(newID()), begin(newID()) // a start that has to wait for an end of the batch
	ends.Start.Unique, waits.Start.Unique, refused.Start.Unique = "u", "u", "u"
	b.ok(ends)
	end := journal.Append{Saga: ends.Saga, Records: chain(ends.Saga, ends.Records[0].Hash, 2, 1), Row: ended(), Release: true}
	m := result(waits.Saga)
	end.Messages = []journal.Message{m, result(refused.Saga)}
	got := b.append(end, waits, refused)
	b.must(got[0].Err)
	b.must(got[1].Err)
	b.wantErr(got[2].Err, journal.ErrUnique)
	if !slices.ContainsFunc(b.mail(b.node), func(have journal.Message) bool { return have.ID == m.ID }) {
		b.Error("the message to a saga that had to wait for its unique value is lost")
	}
}

func parkWithMail(b *bench) {
	saga, hash := b.started()
	first, second := b.post(saga), b.post(saga)
	far := row("parked")
	far.WakeAt = b.now().Add(time.Hour)
	b.ok(journal.Append{Saga: saga, Records: chain(saga, hash, 2, 1), Row: far, Release: true, Applied: []uuid.UUID{first.ID}})
	got, err := b.Claim(b.ctx, b.node, 10)
	b.must(err)
	diff(b, "claimed", got, []journal.Claimed{{Saga: saga, Definition: "trip", Version: 3, Claims: 1, Messages: 1}}, whenever)
	diff(b, "mail", b.mail(b.node), []journal.Message{second})
	b.ok(journal.Append{Saga: saga, Row: far, Release: true, Applied: []uuid.UUID{second.ID}})
	diff(b, "claimed without mail", b.claim(b.node, 10), nil)
}

// parkAndPostRace: a message posted at any moment of parking is found, by the
// owner's Mail or by a claim. An owner parks as fast as it can what others post to.
func parkAndPostRace(b *bench) {
	poster := b.Store
	if b.subject.Again != nil {
		poster = b.again()
	}
	b.raceParking(func(m journal.Message) error { return poster.Send(b.ctx, m) })
}

func parkAndAppendRace(b *bench) {
	b.raceParking(func(m journal.Message) error {
		_, err := b.Store.Append(b.ctx, b.node, []journal.Append{posting(m)})
		return err
	})
}

func (b *bench) raceParking(post func(journal.Message) error) {
	b.Helper()
	const sagas, posters, each = 4, 4, 40
	var ids []uuid.UUID
	for range sagas {
		ids = append(ids, b.parked(time.Time{}))
	}
	far := b.now().Add(time.Hour)
	posted := make(chan uuid.UUID, sagas*posters*each)
	var wg sync.WaitGroup
	for range posters {
		wg.Go(func() {
			for i := range each {
				m := journal.Message{ID: newID(), Saga: ids[i%sagas], Kind: "signal"}
				if err := post(m); err != nil {
					b.Errorf("post: %v", err)
				}
				posted <- m.ID
			}
		})
	}
	go func() {
		wg.Wait()
		close(posted)
	}()
	var got []uuid.UUID
	deadline := time.Now().Add(patience)
	for len(got) < posters*each && !b.Failed() {
		claimed, err := b.Claim(b.ctx, b.node, sagas)
		b.must(err)
		var batch []journal.Append
		for _, c := range claimed {
			mail := b.mailOf(c.Saga)
			if c.Messages == 0 || len(mail) < c.Messages {
				b.Fatalf("saga %s is claimable with %d messages, of which there are %d", c.Saga, c.Messages, len(mail))
			}
			a := journal.Append{Saga: c.Saga, Row: row("parked"), Release: true}
			a.Row.WakeAt = far
			for _, m := range mail {
				a.Applied = append(a.Applied, m.ID)
			}
			got = append(got, a.Applied...)
			batch = append(batch, a)
		}
		if len(batch) > 0 {
			b.ok(batch...)
		}
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d messages found: the others lie with sagas that are not claimable", len(got), posters*each)
		}
	}
	var want []uuid.UUID
	for id := range posted {
		want = append(want, id)
	}
	byID := func(x, y uuid.UUID) int { return slices.Compare(x[:], y[:]) }
	slices.SortFunc(got, byID)
	slices.SortFunc(want, byID)
	diff(b, "messages", got, want)
	diff(b, "claimable at the end", b.claim(b.node, 10), nil)
}

func conflictKeepsMail(b *bench) {
	saga, _ := b.started()
	m := b.post(saga)
	got := b.append(journal.Append{Saga: saga, Records: chain(saga, []byte("?"), 1, 1), Applied: []uuid.UUID{m.ID}, Release: true})
	b.wantErr(got[0].Err, journal.ErrConflict)
	diff(b, "mail", b.mail(b.node), []journal.Message{m})
}
