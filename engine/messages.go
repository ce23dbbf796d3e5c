package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// MessageWindow keeps account of the messages that a node has read for its sagas and that are not
// durable in their journals yet, so that they never take more memory than they may. Like Lane it
// does nothing by itself, so that a simulator can drive the very same code. Deliver is for one
// goroutine at a time; the rest of it is for several.
type MessageWindow struct {
	limit int // bytes that may be on their way

	mu          sync.Mutex
	used        int               // bytes that are
	sagas       map[uuid.UUID]int // how many messages are on their way to each saga
	waiting     map[uuid.UUID]int // how many wait for it, as of the last look
	last        uuid.UUID         // the saga that was served last
	morePending bool              // see Rest
}

// Delivery is the Memory of messages for one saga.
type Delivery struct {
	Saga            uuid.UUID
	Messages, Bytes int
}

// NewMessageWindow returns a mailroom that has so many bytes on their way at most, and one message
// more.
func NewMessageWindow(bytes int) *MessageWindow {
	return &MessageWindow{limit: bytes, sagas: make(map[uuid.UUID]int)}
}

// messagePage is how many messages are read at once, and for how many sagas.
const messagePage = 1000

// Deliver reads messages of the mailboxes, which are in the order of their sagas, as far as there
// is room for them, and sends them to their lanes. It passes over sagas that have messages on their
// way. read is journal.Log.Mail, and its errors are returned; Deliver fills in all of a Mailed but
// At, and its Delivery comes back to Done.
func (m *MessageWindow) Deliver(boxes []journal.Recipient, read func(sagas []uuid.UUID, limit, bytes int) ([]journal.Message, error), send func(Received)) error {
	for _, sagas := range m.plan(boxes) {
		for len(sagas) > 0 {
			room := m.room()
			if room == 0 {
				return nil
			}
			asked := sagas[:min(len(sagas), messagePage)]
			mail, err := read(asked, messagePage, room)
			if err != nil {
				return err
			}
			served := len(asked)
			if len(mail) > 0 {
				served = slices.Index(asked, mail[len(mail)-1].Saga) + 1
			}
			sagas = sagas[served:]
			for _, ev := range m.deliveries(mail) {
				send(ev)
			}
		}
	}
	return nil
}

// plan begins a look at the mailboxes. It returns the sagas whose messages are to be read, in two
// groups, each in the same order: those after the saga that was served last come first, so that
// none waits for ever because others always have messages.
func (m *MessageWindow) plan(boxes []journal.Recipient) (groups [2][]uuid.UUID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.morePending, m.waiting = false, make(map[uuid.UUID]int, len(boxes))
	for _, b := range boxes {
		m.waiting[b.Saga] = b.Messages
		if n := m.sagas[b.Saga]; n > 0 {
			m.morePending = m.morePending || b.Messages > n
			continue
		}
		group := &groups[0]
		if journal.CompareID(b.Saga, m.last) <= 0 {
			group = &groups[1]
		}
		*group = append(*group, b.Saga)
	}
	return groups
}

// room is how many bytes of messages may be read now. 0: none, until some are durable.
func (m *MessageWindow) room() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used >= m.limit {
		m.morePending = true
	}
	return max(m.limit-m.used, 0)
}

// deliveries notes that messages of the last look are on their way, which follow each other by
// saga, and returns the events that bring them there.
func (m *MessageWindow) deliveries(mail []journal.Message) (out []Received) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(mail) > 0 {
		n := 1
		for n < len(mail) && mail[n].Saga == mail[0].Saga {
			n++
		}
		m.last = mail[0].Saga
		out = append(out, Received{ID: m.last, Messages: mail[:n:n], Memory: m.reserve(mail[:n], m.waiting[m.last])})
		mail = mail[n:]
	}
	return out
}

// Load notes that a saga that was claimed is on its way with messages of its own, and returns their
// Loaded.Memory.
func (m *MessageWindow) Load(c journal.Claimed, mail []journal.Message) any {
	if len(mail) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reserve(mail, c.Messages)
}

// reserve notes that messages of one saga are on their way, of so many that wait for it.
func (m *MessageWindow) reserve(mail []journal.Message, waiting int) Delivery {
	d := Delivery{Saga: mail[0].Saga, Messages: len(mail), Bytes: messageBytes(mail)}
	m.used += d.Bytes
	m.sagas[d.Saga] += d.Messages
	m.morePending = m.morePending || waiting > d.Messages
	return d
}

// Done notes that what came of messages is durable, or that nothing came of them. It reports
// whether they were on their way.
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

// MorePending reports whether the last look left messages behind because others were on their way:
// the next look finds them when those are durable.
func (m *MessageWindow) MorePending() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.morePending
}

// Used returns how many bytes are on their way.
func (m *MessageWindow) Used() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// deliver hands the lanes the messages of this node's sagas, as many as there is room for.
func (e *Engine) deliver() {
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.Lease)
	defer cancel()
	e.messageReads.observe(e.readMessages(ctx))
}

func (e *Engine) readMessages(ctx context.Context) error {
	var boxes []journal.Recipient
	for after := uuid.Nil; ; after = boxes[len(boxes)-1].Saga {
		page, err := e.cfg.Store.Recipients(ctx, e.node(), after, messagePage)
		if err != nil {
			return err
		}
		if boxes = append(boxes, page...); len(page) < messagePage {
			break
		}
	}
	// Loading a saga brings its messages.
	boxes = slices.DeleteFunc(boxes, func(b journal.Recipient) bool { return e.loading.has(b.Saga) })
	return e.window.Deliver(boxes, func(sagas []uuid.UUID, limit, bytes int) ([]journal.Message, error) {
		return e.cfg.Store.Messages(ctx, sagas, limit, bytes)
	}, func(ev Received) {
		ev.At = e.lease.latest()
		e.laneOf(ev.ID).events <- ev
	})
}

// messageBytes is how many bytes the data of messages has.
func messageBytes(mail []journal.Message) (n int) {
	for i := range mail {
		n += len(mail[i].Data)
	}
	return n
}
