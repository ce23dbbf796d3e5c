package engine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
)

// Messages take at most the window's bytes until they are durable, every saga gets its turn, and
// messages that did not fit are read later.
func TestMessageWindow(t *testing.T) {
	sagas := []uuid.UUID{{1}, {2}, {3}}
	var stored []journal.Message
	for i, sizes := range [][]int{{10, 20}, {90, 1, 1}, {1}} {
		for _, n := range sizes {
			stored = append(stored, journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: sagas[i], Data: json.RawMessage(strings.Repeat("x", n))})
		}
	}
	recipients := []journal.Recipient{{Saga: sagas[0], Messages: 2}, {Saga: sagas[1], Messages: 3}, {Saga: sagas[2], Messages: 1}}
	m := engine.NewMessageWindow(100)
	// deliver checks what is read, and with how much room, and returns the events.
	deliver := func(what string, recipients []journal.Recipient, want ...string) (sent []engine.Received) {
		t.Helper()
		var got []string
		read := func(sagas []uuid.UUID, limit, bytes int) (out []journal.Message, err error) {
			numbers, size := "", 0
			for _, saga := range sagas {
				numbers += fmt.Sprint(saga[0], " ")
			}
			got = append(got, fmt.Sprint(numbers, "of ", bytes))
			for _, message := range stored {
				if !slices.Contains(sagas, message.Saga) {
					continue
				}
				if size += len(message.Data); len(out) > 0 && (len(out) == limit || size > bytes) {
					break
				}
				out = append(out, message)
			}
			return out, nil
		}
		if err := m.Deliver(recipients, read, func(ev engine.Received) { sent = append(sent, ev) }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: read %q, want %q", what, got, want)
		}
		return sent
	}

	sent := deliver("as much as there is room for", recipients, "1 2 3 of 100", "2 3 of 70")
	if len(sent) != 2 || sent[0].ID != sagas[0] || len(sent[0].Messages) != 2 || sent[1].ID != sagas[1] || len(sent[1].Messages) != 1 || m.Used() != 120 {
		t.Errorf("sent %+v, %d bytes on their way", sent, m.Used())
	}
	if !m.MorePending() {
		t.Error("MorePending is false, but two messages of one saga and all of another were not read")
	}
	deliver("without room", recipients)
	if !m.MorePending() {
		t.Error("MorePending is false, but there was no room for a saga's messages")
	}
	first, second := sent[0].Memory.(engine.Delivery), sent[1].Memory.(engine.Delivery)
	if !m.Done(first) || m.Done(first) || m.Used() != 90 {
		t.Errorf("%d bytes in flight when the first are durable, want 90, and no memory returned twice", m.Used())
	}
	m.Done(second)
	sent = deliver("after the saga that was served last", recipients, "3 of 100", "1 2 of 99", "2 of 69")
	if len(sent) != 3 || m.Used() != 121 {
		t.Errorf("sent %+v, %d bytes in flight; want some for each saga", sent, m.Used())
	}
	for _, s := range sent {
		m.Done(s.Memory.(engine.Delivery))
	}

	loaded := m.Load(journal.Claimed{Saga: sagas[2], Messages: 2}, stored[5:])
	if !m.MorePending() || m.Used() != 1 {
		t.Errorf("rest %v, %d bytes; want the second message of the loaded saga pending, and one byte", m.MorePending(), m.Used())
	}
	deliver("what is on its way", []journal.Recipient{{Saga: sagas[2], Messages: 1}})
	if m.MorePending() {
		t.Error("MorePending is true, but all messages are in flight")
	}
	if !m.Done(loaded.(engine.Delivery)) || m.Used() != 0 || m.Load(journal.Claimed{}, nil) != nil {
		t.Error("the memory of the loaded messages is not returned")
	}
}

// The memory of messages is returned once: when they are durable, or when the lane discards them.
func TestMemoryOfMessagesIsFreed(t *testing.T) {
	b := newBench(t, twoRequests)
	b.lease("n1")
	id, _ := b.sent()
	m := journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: id, Kind: "command", Data: json.RawMessage(`{"command":"signal","name":"nobody waits for it"}`)}
	want := func(what string, want ...string) {
		t.Helper()
		if got := b.freed(); !slices.Equal(got, want) {
			t.Errorf("%s: freed %v, want %v", what, got, want)
		}
	}
	b.handle(engine.Received{ID: id, Messages: []journal.Message{m}, Memory: "first"})
	want("not durable")
	b.handle(engine.Received{ID: id, Messages: []journal.Message{m}, Memory: "again"})
	want("taken before", "again")
	b.handle(b.append())
	want("durable", "first")
	b.handle(engine.Received{ID: uuid.Must(uuid.NewV4()), Messages: []journal.Message{m}, Memory: "other"})
	want("of a saga that is not held", "other")
	m.ID = uuid.Must(uuid.NewV7())
	b.handle(engine.Received{ID: id, Messages: []journal.Message{m}, Memory: "lost"})
	b.handle(engine.LeaseLost{})
	want("lease lost", "lost")
	b.handle(engine.Loaded{Claimed: journal.Claimed{Saga: id}, Node: "n0", Memory: "of an earlier lease"})
	want("of an earlier lease", "of an earlier lease")
}
