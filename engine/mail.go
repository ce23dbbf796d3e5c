package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Mailroom keeps account of the messages that a node has read for its sagas and that are not
// durable in their journals yet, so that they never take more memory than they may. Like Lane it
// does nothing by itself, so that a simulator can drive the very same code. Deliver is for one
// goroutine at a time; the rest of it is for several.
type Mailroom struct {
	limit int // bytes that may be on their way

	mu    sync.Mutex
	used  int               // bytes that are
	sagas map[uuid.UUID]int // how many messages are on their way to each saga
	boxes map[uuid.UUID]int // how many wait for it, as of the last look
	last  uuid.UUID         // the saga that was served last
	rest  bool              // see Rest
}

// Delivery is the Memory of messages for one saga.
type Delivery struct {
	Saga            uuid.UUID
	Messages, Bytes int
}

// NewMailroom returns a mailroom that has so many bytes on their way at most, and one message more.
func NewMailroom(bytes int) *Mailroom {
	return &Mailroom{limit: bytes, sagas: make(map[uuid.UUID]int)}
}

// mailPage is how many messages are read at once, and for how many sagas.
const mailPage = 1000

// Deliver reads messages of the mailboxes, which are in the order of their sagas, as far as there
// is room for them, and sends them to their lanes. It passes over sagas that have messages on their
// way. read is journal.Log.Mail, and its errors are returned; Deliver fills in all of a Mailed but
// At, and its Delivery comes back to Done.
func (m *Mailroom) Deliver(boxes []journal.Mailbox, read func(sagas []uuid.UUID, limit, bytes int) ([]journal.Mail, error), send func(Mailed)) error {
	for _, sagas := range m.look(boxes) {
		for len(sagas) > 0 {
			room := m.room()
			if room == 0 {
				return nil
			}
			asked := sagas[:min(len(sagas), mailPage)]
			mail, err := read(asked, mailPage, room)
			if err != nil {
				return err
			}
			served := len(asked)
			if len(mail) > 0 {
				served = slices.Index(asked, mail[len(mail)-1].Saga) + 1
			}
			sagas = sagas[served:]
			for _, ev := range m.post(mail) {
				send(ev)
			}
		}
	}
	return nil
}

// look begins a look at the mailboxes. It returns the sagas whose messages are to be read, in two
// groups, each in the same order: those after the saga that was served last come first, so that
// none waits for ever because others always have messages.
func (m *Mailroom) look(boxes []journal.Mailbox) (groups [2][]uuid.UUID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rest, m.boxes = false, make(map[uuid.UUID]int, len(boxes))
	for _, b := range boxes {
		m.boxes[b.Saga] = b.Messages
		if n := m.sagas[b.Saga]; n > 0 {
			m.rest = m.rest || b.Messages > n
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
func (m *Mailroom) room() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used >= m.limit {
		m.rest = true
	}
	return max(m.limit-m.used, 0)
}

// post notes that messages of the last look are on their way, which follow each other by saga, and
// returns the events that bring them there.
func (m *Mailroom) post(mail []journal.Mail) (out []Mailed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(mail) > 0 {
		n := 1
		for n < len(mail) && mail[n].Saga == mail[0].Saga {
			n++
		}
		m.last = mail[0].Saga
		out = append(out, Mailed{ID: m.last, Mail: mail[:n:n], Memory: m.take(mail[:n], m.boxes[m.last])})
		mail = mail[n:]
	}
	return out
}

// Load notes that a saga that was claimed is on its way with messages of its own, and returns their
// Loaded.Memory.
func (m *Mailroom) Load(c journal.Claimed, mail []journal.Mail) any {
	if len(mail) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.take(mail, c.Messages)
}

// take notes that messages of one saga are on their way, of so many that wait for it.
func (m *Mailroom) take(mail []journal.Mail, waiting int) Delivery {
	d := Delivery{Saga: mail[0].Saga, Messages: len(mail), Bytes: mailSize(mail)}
	m.used += d.Bytes
	m.sagas[d.Saga] += d.Messages
	m.rest = m.rest || waiting > d.Messages
	return d
}

// Done notes that what came of messages is durable, or that nothing came of them. It reports
// whether they were on their way.
func (m *Mailroom) Done(d Delivery) bool {
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

// Rest reports whether the last look left messages behind because others were on their way: the
// next look finds them when those are durable.
func (m *Mailroom) Rest() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rest
}

// Used returns how many bytes are on their way.
func (m *Mailroom) Used() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// deliver hands the lanes the messages of this node's sagas, as many as there is room for.
func (e *Engine) deliver() {
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.Lease)
	defer cancel()
	e.mails.saw(e.readMail(ctx))
}

func (e *Engine) readMail(ctx context.Context) error {
	var boxes []journal.Mailbox
	for after := uuid.Nil; ; after = boxes[len(boxes)-1].Saga {
		page, err := e.cfg.Store.Mailboxes(ctx, e.node(), after, mailPage)
		if err != nil {
			return err
		}
		if boxes = append(boxes, page...); len(page) < mailPage {
			break
		}
	}
	// Loading a saga brings its messages.
	boxes = slices.DeleteFunc(boxes, func(b journal.Mailbox) bool { return e.loading.has(b.Saga) })
	return e.mail.Deliver(boxes, func(sagas []uuid.UUID, limit, bytes int) ([]journal.Mail, error) {
		return e.cfg.Store.Mail(ctx, sagas, limit, bytes)
	}, func(ev Mailed) {
		ev.At = e.lease.latest()
		e.laneOf(ev.ID).events <- ev
	})
}

// mailSize is how many bytes the data of messages has.
func mailSize(mail []journal.Mail) (n int) {
	for i := range mail {
		n += len(mail[i].Data)
	}
	return n
}
