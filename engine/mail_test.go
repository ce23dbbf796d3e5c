package engine_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
)

// Messages take no more memory than they may until they are durable, every saga has its turn, and
// what had to be left behind is looked for again.
func TestMailroom(t *testing.T) {
	sagas := []uuid.UUID{{1}, {2}, {3}}
	message := func(saga uuid.UUID, bytes int) journal.Mail {
		return journal.Mail{ID: uuid.Must(uuid.NewV7()), Saga: saga, Data: json.RawMessage(strings.Repeat("x", bytes))}
	}
	look := func(m *engine.Mailroom, boxes ...journal.Mailbox) []uuid.UUID {
		groups := m.Look(boxes)
		return slices.Concat(groups[0], groups[1])
	}
	want := func(what string, got, want []uuid.UUID) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v are to be read, want %v", what, got, want)
		}
	}
	boxes := []journal.Mailbox{{Saga: sagas[0], Messages: 2}, {Saga: sagas[1], Messages: 3}, {Saga: sagas[2], Messages: 1}}
	m := engine.NewMailroom(100)
	want("first", look(m, boxes...), sagas)
	if m.Rest() || m.Room() != 100 {
		t.Errorf("rest %v, room %d; want none left behind, and room for 100", m.Rest(), m.Room())
	}
	sent := m.Send([]journal.Mail{message(sagas[0], 10), message(sagas[0], 20), message(sagas[1], 90)}, time.Time{})
	if len(sent) != 2 || len(sent[0].Mail) != 2 || sent[1].ID != sagas[1] || m.Used() != 120 || m.Room() != 0 {
		t.Errorf("sent %+v, %d bytes on their way and room for %d", sent, m.Used(), m.Room())
	}
	if !m.Rest() {
		t.Error("two of a saga's messages, and all of another's, are left behind, and it does not say so")
	}
	want("those without any on their way", look(m, boxes...), sagas[2:])
	first, second := sent[0].Memory.(engine.Delivery), sent[1].Memory.(engine.Delivery)
	if !m.Done(first) || m.Done(first) || m.Room() != 10 {
		t.Errorf("room for %d once the first are durable, want 10; and no memory is given back twice", m.Room())
	}
	m.Done(second)
	want("after the saga that was served last", look(m, boxes...), []uuid.UUID{sagas[2], sagas[0], sagas[1]})

	loaded := m.Load(journal.Claimed{Saga: sagas[2], Messages: 2}, []journal.Mail{message(sagas[2], 1)})
	if !m.Rest() || m.Used() != 1 {
		t.Errorf("rest %v, %d bytes; want the second message of the saga that is loaded left behind, and one byte", m.Rest(), m.Used())
	}
	look(m, journal.Mailbox{Saga: sagas[2], Messages: 1})
	if m.Rest() {
		t.Error("it says that there is more than what is on its way")
	}
	if !m.Done(loaded.(engine.Delivery)) || m.Used() != 0 || m.Load(journal.Claimed{}, nil) != nil {
		t.Error("the memory of what was loaded is not given back")
	}
}

// The memory of messages is given back once: when they are durable, or when the lane does not take
// them.
func TestMemoryOfMessagesIsFreed(t *testing.T) {
	b := newBench(t, twoRequests)
	b.lease("n1")
	id, _ := b.sent()
	m := journal.Mail{ID: uuid.Must(uuid.NewV7()), Saga: id, Kind: "command", Data: json.RawMessage(`{"do":"signal","name":"nobody waits for it"}`)}
	want := func(what string, want ...string) {
		t.Helper()
		if got := b.freed(); !slices.Equal(got, want) {
			t.Errorf("%s: freed %v, want %v", what, got, want)
		}
	}
	b.handle(engine.Mailed{ID: id, Mail: []journal.Mail{m}, Memory: "first"})
	want("not durable")
	b.handle(engine.Mailed{ID: id, Mail: []journal.Mail{m}, Memory: "again"})
	want("taken before", "again")
	b.handle(b.append())
	want("durable", "first")
	b.handle(engine.Mailed{ID: uuid.Must(uuid.NewV4()), Mail: []journal.Mail{m}, Memory: "stranger's"})
	want("of a saga that is not held", "stranger's")
	m.ID = uuid.Must(uuid.NewV7())
	b.handle(engine.Mailed{ID: id, Mail: []journal.Mail{m}, Memory: "lost"})
	b.handle(engine.LeaseLost{})
	want("lease lost", "lost")
	b.handle(engine.Loaded{Claimed: journal.Claimed{Saga: id}, Node: "n0", Memory: "of an earlier lease"})
	want("of an earlier lease", "of an earlier lease")
}
