package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"recourse/journal"
)

// The parts of a statement that leaves messages, which are the rows of a: the sagas that are there
// get them, and are woken. Their rows are locked before: parking a saga waits, or has been done and
// is seen.
const (
	insertedMessages = `posted AS (INSERT INTO messages (saga_id, id, kind, data) SELECT s.id, a.id, a.kind, a.data FROM a JOIN sagas s ON s.id = a.saga_id
		ON CONFLICT DO NOTHING RETURNING saga_id)`
	countedMessages = `fresh AS (SELECT saga_id, count(*)::int AS n FROM posted GROUP BY saga_id)`
)

var wakeRecipients = sql(`UPDATE sagas s SET pending_messages = s.pending_messages + f.n, wake_at = CASE WHEN s.owner IS NULL THEN LEAST({now}, s.wake_at) ELSE s.wake_at END
	FROM fresh f WHERE s.id = f.saga_id`)

// lockSagas locks sagas in one order, whoever does it, so that nobody waits in a circle.
const lockSagas = `SELECT 1 FROM sagas WHERE id = ANY($1) ORDER BY id FOR UPDATE`

func insertMessages(mail []journal.Message) stmt {
	var saga, message []pgtype.UUID
	var kind []string
	var data [][]byte
	for _, m := range mail {
		saga, message = append(saga, id(m.Saga)), append(message, id(m.ID))
		kind, data = append(kind, m.Kind), append(data, m.Data)
	}
	return stmt{with: []string{`a AS (SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[]) AS a (saga_id, id, kind, data))`, insertedMessages, countedMessages},
		query: wakeRecipients, args: []any{saga, message, kind, data}}
}

// sentMessages leaves the messages of a batch, behind all else of it.
func sentMessages(_ string, batch []part) (stmt, error) {
	var mail []journal.Message
	for i := range batch {
		mail = append(mail, batch[i].Messages...)
	}
	if len(mail) == 0 {
		return stmt{}, nil
	}
	return insertMessages(mail), nil
}

// lockedBy locks the sagas of a batch that posts to others or withdraws tasks, those others, and
// the parents of its starts, which held would else lock after them, out of order.
func lockedBy(batch []part) (stmt, bool) {
	if !slices.ContainsFunc(batch, func(p part) bool { return len(p.Messages) > 0 || len(p.Withdraw) > 0 }) {
		return stmt{}, false
	}
	sagas, _ := parents(batch)
	for i := range batch {
		sagas = append(sagas, id(batch[i].Saga))
		for _, m := range batch[i].Messages {
			sagas = append(sagas, id(m.Saga))
		}
	}
	return stmt{query: lockSagas, args: []any{sagas}}, true
}

// handOver leaves messages for sagas that are yet to be made to the appends that make them. If the
// transaction of ready is the last that this process does, they are lost: a start that waits for an
// end of its own batch is rare enough, and its mail rarer.
func handOver(ready, later []part) {
	makes := make(map[uuid.UUID]*part, len(later))
	for i := range later {
		makes[later[i].Saga] = &later[i]
	}
	for i := range ready {
		waits := func(m journal.Message) bool { return makes[m.Saga] != nil }
		if !slices.ContainsFunc(ready[i].Messages, waits) {
			continue
		}
		for _, m := range ready[i].Messages {
			if p := makes[m.Saga]; p != nil {
				p.Messages = append(slices.Clip(p.Messages), m)
			}
		}
		ready[i].Messages = slices.DeleteFunc(slices.Clone(ready[i].Messages), waits)
	}
}

const recipients = `SELECT id, pending_messages FROM sagas WHERE owner = $1 AND pending_messages > 0 AND id > $2 ORDER BY id LIMIT $3`

// Recipients implements journal.Log.
func (s *Store) Recipients(ctx context.Context, node string, after uuid.UUID, limit int) ([]journal.Recipient, error) {
	rows, err := s.w.Query(ctx, recipients, node, id(after), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("mailboxes: %w", err)
	}
	out, err := collect(rows, func(row pgx.CollectableRow) (b journal.Recipient, err error) {
		var u pgtype.UUID
		err = row.Scan(&u, &b.Messages)
		b.Saga = u.Bytes
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("mailboxes: %w", err)
	}
	return out, nil
}

// messagesQuery sums the messages up, which reads no data that is large, and then reads what fits.
const messagesQuery = `SELECT id, saga_id, kind, data FROM (
		SELECT id, saga_id, kind, data, row_number() OVER w AS n, sum(coalesce(octet_length(data), 0)) OVER w AS bytes FROM (
			SELECT id, saga_id, kind, data FROM messages WHERE saga_id = ANY($1::uuid[]) AND NOT applied ORDER BY saga_id, id LIMIT $2
		) m WINDOW w AS (ORDER BY saga_id, id ROWS UNBOUNDED PRECEDING)
	) m WHERE n = 1 OR bytes <= $3::bigint ORDER BY saga_id, id`

// Messages implements journal.Log.
func (s *Store) Messages(ctx context.Context, sagas []uuid.UUID, limit, bytes int) ([]journal.Message, error) {
	rows, err := s.w.Query(ctx, messagesQuery, ids(sagas), max(limit, 0), bytes)
	if err != nil {
		return nil, fmt.Errorf("mail: %w", err)
	}
	out, err := collect(rows, func(row pgx.CollectableRow) (journal.Message, error) {
		var m journal.Message
		var u, saga pgtype.UUID
		err := row.Scan(&u, &saga, &m.Kind, (*[]byte)(&m.Data))
		m.ID, m.Saga = u.Bytes, saga.Bytes
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("mail: %w", err)
	}
	return out, nil
}
