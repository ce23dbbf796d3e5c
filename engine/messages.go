package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// MessageWindow bounds the memory of the messages that a node has read for its sagas and that are
// not durable in their journals yet. Like Lane it does no IO by itself, so the simulator can drive
// it too. Deliver is for one goroutine at a time; the other methods are for several.
type MessageWindow struct {
	limit int // bytes of messages that may be in flight

	mu          sync.Mutex
	used        int               // bytes that are in flight
	sagas       map[uuid.UUID]int // how many messages are in flight to each saga
	waiting     map[uuid.UUID]int // how many messages wait for each saga, as of the last Deliver
	last        uuid.UUID         // the saga that was served last
	morePending bool              // see MorePending
}

// Delivery is the Memory of the messages of one saga.
type Delivery struct {
	Saga            uuid.UUID
	Messages, Bytes int
}

// NewMessageWindow returns a window for so many bytes of messages, plus one message.
func NewMessageWindow(bytes int) *MessageWindow {
	return &MessageWindow{limit: bytes, sagas: make(map[uuid.UUID]int)}
}

// messagePage is how many messages are read at once, and for how many sagas.
const messagePage = 1000

// Deliver reads messages for the recipients, which are in the order of their sagas, as far as there
// is room, and sends them to their lanes. It passes over sagas that have messages in flight. read
// is journal.Log.Messages; Deliver returns its errors. Deliver sets all fields of a Received but
// At, and its Delivery must come back to Done.
func (m *MessageWindow) Deliver(recipients []journal.Recipient, read func(sagas []uuid.UUID, limit, bytes int) ([]journal.Message, error), send func(Received)) error {
	for _, sagas := range m.plan(recipients) {
		for len(sagas) > 0 {
			room := m.room()
			if room == 0 {
				return nil
			}
			asked := sagas[:min(len(sagas), messagePage)]
			messages, err := read(asked, messagePage, room)
			if err != nil {
				return err
			}
			served := len(asked)
			if len(messages) > 0 {
				served = slices.Index(asked, messages[len(messages)-1].Saga) + 1
			}
			sagas = sagas[served:]
			for _, ev := range m.deliveries(messages) {
				send(ev)
			}
		}
	}
	return nil
}

// plan begins a Deliver. It returns the sagas whose messages must be read, in two groups, each in
// order: those after the saga that was served last come first, so that no saga waits forever
// because others always have messages.
func (m *MessageWindow) plan(recipients []journal.Recipient) (groups [2][]uuid.UUID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.morePending, m.waiting = false, make(map[uuid.UUID]int, len(recipients))
	for _, r := range recipients {
		m.waiting[r.Saga] = r.Messages
		if n := m.sagas[r.Saga]; n > 0 {
			m.morePending = m.morePending || r.Messages > n
			continue
		}
		group := &groups[0]
		if journal.CompareID(r.Saga, m.last) <= 0 {
			group = &groups[1]
		}
		*group = append(*group, r.Saga)
	}
	return groups
}

// room returns how many bytes of messages may be read now. 0: none, until others are durable.
func (m *MessageWindow) room() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used >= m.limit {
		m.morePending = true
	}
	return max(m.limit-m.used, 0)
}

// deliveries takes messages that were read, grouped by saga, notes that they are in flight, and
// returns the events that deliver them.
func (m *MessageWindow) deliveries(messages []journal.Message) (out []Received) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(messages) > 0 {
		n := 1
		for n < len(messages) && messages[n].Saga == messages[0].Saga {
			n++
		}
		m.last = messages[0].Saga
		out = append(out, Received{ID: m.last, Messages: messages[:n:n], Memory: m.reserve(messages[:n], m.waiting[m.last])})
		messages = messages[n:]
	}
	return out
}

// Load notes that a claimed saga is being loaded with messages, and returns its Loaded.Memory.
func (m *MessageWindow) Load(c journal.Claimed, messages []journal.Message) any {
	if len(messages) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reserve(messages, c.Messages)
}

// reserve notes that messages of one saga are in flight. waiting is how many messages wait for the
// saga in the store.
func (m *MessageWindow) reserve(messages []journal.Message, waiting int) Delivery {
	d := Delivery{Saga: messages[0].Saga, Messages: len(messages), Bytes: messageBytes(messages)}
	m.used += d.Bytes
	m.sagas[d.Saga] += d.Messages
	m.morePending = m.morePending || waiting > d.Messages
	return d
}

// Done notes that the records which apply messages are durable, or that the messages were
// discarded. It reports whether the messages were in flight.
func (m *MessageWindow) Done(d Delivery) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sagas[d.Saga] < d.Messages || m.used < d.Bytes {
		return false
	}
	m.used -= d.Bytes
	if m.sagas[d.Saga] -= d.Messages; m.sagas[d.Saga] == 0 {
		delete(m.sagas, d.Saga)
	}
	return true
}

// MorePending reports whether the last Deliver left messages in the store because others were in
// flight: the next Deliver finds them when those are durable.
func (m *MessageWindow) MorePending() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.morePending
}

// Used returns how many bytes of messages are in flight.
func (m *MessageWindow) Used() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// deliver passes messages to this node's sagas, as many as there is room for.
func (e *Engine) deliver() {
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.Lease)
	defer cancel()
	e.messageReads.observe(e.readMessages(ctx))
}

func (e *Engine) readMessages(ctx context.Context) error {
	var recipients []journal.Recipient
	for after := uuid.Nil; ; after = recipients[len(recipients)-1].Saga {
		page, err := e.cfg.Store.Recipients(ctx, e.node(), after, messagePage)
		if err != nil {
			return err
		}
		if recipients = append(recipients, page...); len(page) < messagePage {
			break
		}
	}
	// Loading a saga brings its messages.
	recipients = slices.DeleteFunc(recipients, func(r journal.Recipient) bool { return e.loading.has(r.Saga) })
	return e.window.Deliver(recipients, func(sagas []uuid.UUID, limit, bytes int) ([]journal.Message, error) {
		return e.cfg.Store.Messages(ctx, sagas, limit, bytes)
	}, func(ev Received) {
		ev.At = e.lease.latest()
		e.laneOf(ev.ID).send(ev)
	})
}

// messageBytes returns the size of the messages' data.
func messageBytes(messages []journal.Message) (n int) {
	for i := range messages {
		n += len(messages[i].Data)
	}
	return n
}
