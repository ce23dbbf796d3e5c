package journaltest

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

var messageTests = []test{
	{"in the order of ids, until applied", messageOrder},
	{"bounded by count and by bytes", messageBounds},
	{"recipients", recipients},
	{"the same message sent twice", sendTwice},
	{"the same message applied twice", applyTwice},
	{"to no saga", sendNowhere},
	{"hints", hints},
	{"a released saga with messages is claimable", releaseWithMessages},
	{"a release and a message race", releaseAndSendRace},
	{"a release without a row, with messages", releaseDelay},
	{"an append that conflicts applies no messages", conflictKeepsMessages},
	{"an append sends messages", appendSends},
	{"an append sends messages to no saga", appendSendsNowhere},
	{"an append sends messages to sagas of its batch", appendSendsInBatch},
	{"a release and an append's message race", releaseAndAppendRace},
}

func messageOrder(b *bench) {
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
	b.send(parked)
	idsOf := func(messages []journal.Message) (out []uuid.UUID) {
		for _, m := range messages {
			out = append(out, m.ID)
		}
		return out
	}
	diff(b, "messages", idsOf(b.messages(b.node)), ids)
	diff(b, "data", string(b.messages(b.node)[0].Data), `"a\u0000"`)
	b.ok(journal.Append{Saga: one, Applied: []uuid.UUID{ids[0], newID()}})
	diff(b, "messages", idsOf(b.messages(b.node)), ids[1:])
	b.ok(journal.Append{Saga: two, Applied: []uuid.UUID{ids[1], ids[3], ids[2]}}) // the last is another saga's
	diff(b, "messages", idsOf(b.messages(b.node)), ids[2:3])
}

// messageBounds: a call returns as many messages as it asks for, and later calls return the rest.
func messageBounds(b *bench) {
	var sagas []uuid.UUID
	for range 40 { // more than one statement reads
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
	for rest := want; len(rest) > 0; { // page by page, as messages are applied
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
	diff(b, "none of no saga", b.messagesOf(newID()), nil)
}

func recipients(b *bench) {
	var want []journal.Recipient
	for n := range 4 {
		saga, _ := b.started()
		for range n {
			b.send(saga)
		}
		if n > 0 {
			want = append(want, journal.Recipient{Saga: saga, Messages: n})
		}
	}
	b.send(b.parked(time.Time{})) // it has no owner
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
	b.ok(journal.Append{Saga: want[0].Saga, Applied: []uuid.UUID{b.messagesOf(want[0].Saga)[0].ID}})
	if want[0].Messages--; want[0].Messages == 0 {
		want = want[1:]
	}
	for node, want := range map[string][]journal.Recipient{b.node: want, "ghost": nil, "": nil} {
		got, err := b.Recipients(b.ctx, node, uuid.Nil, 10)
		b.must(err)
		diff(b, "of node "+node, got, want)
	}
}

func sendTwice(b *bench) {
	saga, hash := b.started()
	m := b.send(saga)
	b.must(b.Send(b.ctx, m))
	diff(b, "messages", b.messages(b.node), []journal.Message{m})
	b.ok(journal.Append{Saga: saga, Records: chain(saga, hash, 2, 1), Applied: []uuid.UUID{m.ID}})
	b.must(b.Send(b.ctx, m)) // the sender did not receive the response
	diff(b, "messages once it was applied", b.messages(b.node), nil)
	b.ok(journal.Append{Saga: saga, Release: true})
	diff(b, "claimable", b.claim(b.node, 10), nil)
}

func applyTwice(b *bench) {
	saga, _ := b.started()
	first := b.send(saga)
	b.ok(journal.Append{Saga: saga, Applied: []uuid.UUID{first.ID, first.ID}})
	b.ok(journal.Append{Saga: saga, Applied: []uuid.UUID{first.ID}})
	second := b.send(saga)
	diff(b, "messages", b.messages(b.node), []journal.Message{second})
	b.ok(journal.Append{Saga: saga, Row: row("parked"), Release: true})
	diff(b, "claimed", b.claim(b.node, 10), []uuid.UUID{saga})
}

func releaseDelay(b *bench) {
	saga, _ := b.started()
	b.send(saga)
	from := b.now()
	b.ok(journal.Append{Saga: saga, Release: true})
	h := b.head(saga)
	if h.Owner != "" || h.WakeAt.Before(from.Add(journal.FirstRetryDelay)) || h.WakeAt.After(b.now().Add(journal.FirstRetryDelay)) {
		b.Errorf("owner %q, wakes at %v; want no owner, and to wake %v after %v", h.Owner, h.WakeAt, journal.FirstRetryDelay, from)
	}
	diff(b, "claimable", b.claim(b.node, 10), nil)
	b.send(saga) // a person may have fixed the cause
	diff(b, "claimable after a new message", b.claim(b.node, 10), []uuid.UUID{saga})
}

func sendNowhere(b *bench) {
	b.wantErr(b.Send(b.ctx, journal.Message{ID: newID(), Saga: newID(), Kind: "signal"}), journal.ErrNotFound)
}

func hints(b *bench) {
	saga, _ := b.started()
	b.drain()
	b.send(saga)
	b.hinted("the message")
	other, _ := b.started()
	b.drain()
	b.ok(journal.Append{Saga: other, Messages: []journal.Message{result(saga)}})
	b.hinted("the message of an append")
}

// sending returns an append that starts a saga and sends messages.
func sending(messages ...journal.Message) journal.Append {
	a := begin(newID())
	a.Messages = messages
	return a
}

func appendSends(b *bench) {
	one, hash := b.started()
	two, _ := b.started()
	parked := b.parked(b.now().Add(time.Hour))
	toOne, toTwo, toParked := result(one), result(two), result(parked)
	a := sending(toOne, toTwo, toOne, toParked)
	b.ok(a)
	b.ok(a)
	diff(b, "messages", b.messages(b.node), []journal.Message{toOne, toTwo})
	claimed, err := b.Claim(b.ctx, b.node, 10)
	b.must(err)
	diff(b, "claimed", claimed, []journal.Claimed{{Saga: parked, Definition: "trip", Version: 3, Claims: 1, Messages: 1}}, whenever)
	diff(b, "messages", b.messages(b.node), []journal.Message{toOne, toTwo, toParked})
	b.ok(journal.Append{Saga: one, Records: chain(one, hash, 2, 1), Applied: []uuid.UUID{toOne.ID}})
	b.ok(journal.Append{Saga: a.Saga, Messages: []journal.Message{toOne, toTwo}}) // each was sent before
	b.must(b.Send(b.ctx, toTwo))
	diff(b, "messages", b.messages(b.node), []journal.Message{toTwo, toParked})
	self := result(a.Saga)
	b.ok(journal.Append{Saga: a.Saga, Messages: []journal.Message{self}, Row: row("parked"), Release: true})
	diff(b, "claimed by its own message", b.claim(b.node, 10), []uuid.UUID{a.Saga})
}

func appendSendsNowhere(b *bench) {
	saga, _ := b.started()
	m := result(saga)
	a := sending(result(newID()), m, result(newID()))
	a.Tasks, a.Events = []journal.Task{newTask("a")}, []journal.Event{event("s")}
	b.ok(a)
	diff(b, "records", len(b.records(a.Saga)), 1)
	diff(b, "messages", b.messages(b.node), []journal.Message{m})
	b.claimTasks("a", 10, 1)
	diff(b, "events", len(b.claimEvents(10, time.Hour)), 1)
}

// appendSendsInBatch: messages are sent after everything else of their batch.
func appendSendsInBatch(b *bench) {
	holder, hash := b.started()
	child, second := begin(newID()), begin(newID())
	child.Row.WakeAt, child.Release = b.now().Add(time.Hour), true
	toChild, toSecond, toHolder := result(child.Saga), result(second.Saga), result(holder)
	a := sending(toChild, toSecond, toHolder)
	park := journal.Append{Saga: holder, Records: chain(holder, hash, 2, 1), Row: row("parked"), Release: true, Applied: []uuid.UUID{toHolder.ID}}
	b.ok(a, child, park, second)
	diff(b, "messages", b.messages(b.node), []journal.Message{toSecond})
	claimed, err := b.Claim(b.ctx, b.node, 10)
	b.must(err)
	diff(b, "messages of the claimed sagas", b.messages(b.node), []journal.Message{toChild, toSecond, toHolder})
	byID := func(x, y journal.Claimed) int { return slices.Compare(x.Saga[:], y.Saga[:]) }
	want := []journal.Claimed{{Saga: child.Saga, Definition: "trip", Version: 3, Claims: 1, Messages: 1},
		{Saga: holder, Definition: "trip", Version: 3, Claims: 1, Messages: 1}}
	slices.SortFunc(claimed, byID)
	slices.SortFunc(want, byID)
	diff(b, "claimed", claimed, want, whenever)

	// The start of waits has to wait for an end in the batch.
	ends, waits, refused := begin(newID()), begin(newID()), begin(newID())
	ends.Start.Unique, waits.Start.Unique, refused.Start.Unique = "u", "u", "u"
	b.ok(ends)
	end := journal.Append{Saga: ends.Saga, Records: chain(ends.Saga, ends.Records[0].Hash, 2, 1), Row: ended(), Release: true}
	m := result(waits.Saga)
	end.Messages = []journal.Message{m, result(refused.Saga)}
	got := b.append(end, waits, refused)
	b.must(got[0].Err)
	b.must(got[1].Err)
	b.wantErr(got[2].Err, journal.ErrUnique)
	if !slices.ContainsFunc(b.messages(b.node), func(have journal.Message) bool { return have.ID == m.ID }) {
		b.Error("the message to a saga that had to wait for its unique value is lost")
	}
}

func releaseWithMessages(b *bench) {
	saga, hash := b.started()
	first, second := b.send(saga), b.send(saga)
	far := row("parked")
	far.WakeAt = b.now().Add(time.Hour)
	b.ok(journal.Append{Saga: saga, Records: chain(saga, hash, 2, 1), Row: far, Release: true, Applied: []uuid.UUID{first.ID}})
	got, err := b.Claim(b.ctx, b.node, 10)
	b.must(err)
	diff(b, "claimed", got, []journal.Claimed{{Saga: saga, Definition: "trip", Version: 3, Claims: 1, Messages: 1}}, whenever)
	diff(b, "messages", b.messages(b.node), []journal.Message{second})
	b.ok(journal.Append{Saga: saga, Row: far, Release: true, Applied: []uuid.UUID{second.ID}})
	diff(b, "claimed without messages", b.claim(b.node, 10), nil)
}

// releaseAndSendRace: a message that is sent at any moment of a release is found, by the owner's
// Messages or by a claim. An owner releases sagas as fast as it can while others send to them.
func releaseAndSendRace(b *bench) {
	sender := b.Store
	if b.subject.Again != nil {
		sender = b.again()
	}
	b.raceRelease(func(m journal.Message) error { return sender.Send(b.ctx, m) })
}

func releaseAndAppendRace(b *bench) {
	b.raceRelease(func(m journal.Message) error {
		_, err := b.Store.Append(b.ctx, b.node, []journal.Append{sending(m)})
		return err
	})
}

func (b *bench) raceRelease(send func(journal.Message) error) {
	b.Helper()
	const sagas, senders, each = 4, 4, 40
	var ids []uuid.UUID
	for range sagas {
		ids = append(ids, b.parked(time.Time{}))
	}
	far := b.now().Add(time.Hour)
	sent := make(chan uuid.UUID, sagas*senders*each)
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for i := range each {
				m := journal.Message{ID: newID(), Saga: ids[i%sagas], Kind: "signal"}
				if err := send(m); err != nil {
					b.Errorf("send: %v", err)
				}
				sent <- m.ID
			}
		})
	}
	go func() {
		wg.Wait()
		close(sent)
	}()
	var got []uuid.UUID
	deadline := time.Now().Add(patience)
	for len(got) < senders*each && !b.Failed() {
		claimed, err := b.Claim(b.ctx, b.node, sagas)
		b.must(err)
		var batch []journal.Append
		for _, c := range claimed {
			messages := b.messagesOf(c.Saga)
			if c.Messages == 0 || len(messages) < c.Messages {
				b.Fatalf("saga %s is claimable with %d messages, of which there are %d", c.Saga, c.Messages, len(messages))
			}
			a := journal.Append{Saga: c.Saga, Row: row("parked"), Release: true}
			a.Row.WakeAt = far
			for _, m := range messages {
				a.Applied = append(a.Applied, m.ID)
			}
			got = append(got, a.Applied...)
			batch = append(batch, a)
		}
		if len(batch) > 0 {
			b.ok(batch...)
		}
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d messages found: the sagas of the others are not claimable", len(got), senders*each)
		}
	}
	var want []uuid.UUID
	for id := range sent {
		want = append(want, id)
	}
	byID := func(x, y uuid.UUID) int { return slices.Compare(x[:], y[:]) }
	slices.SortFunc(got, byID)
	slices.SortFunc(want, byID)
	diff(b, "messages", got, want)
	diff(b, "claimable at the end", b.claim(b.node, 10), nil)
}

func conflictKeepsMessages(b *bench) {
	saga, _ := b.started()
	m := b.send(saga)
	got := b.append(journal.Append{Saga: saga, Records: chain(saga, []byte("?"), 1, 1), Applied: []uuid.UUID{m.ID}, Release: true})
	b.wantErr(got[0].Err, journal.ErrConflict)
	diff(b, "messages", b.messages(b.node), []journal.Message{m})
}
