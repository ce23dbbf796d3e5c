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

// The CTEs of a statement that stores the messages in a: sagas that exist receive them and are
// woken. Their rows are locked before. So a release of a saga either waits for the messages, or has
// committed and is seen here.
const (
	insertedMessages = `inserted_messages AS (INSERT INTO messages (saga_id, id, kind, data) SELECT s.id, a.id, a.kind, a.data FROM a JOIN sagas s ON s.id = a.saga_id
		ON CONFLICT DO NOTHING RETURNING saga_id)`
	countedMessages = `message_counts AS (SELECT saga_id, count(*)::int AS n FROM inserted_messages GROUP BY saga_id)`
)

var wakeRecipients = sql(`UPDATE sagas s SET pending_messages = s.pending_messages + f.n, wake_at = CASE WHEN s.owner IS NULL THEN LEAST({now}, s.wake_at) ELSE s.wake_at END
	FROM message_counts f WHERE s.id = f.saga_id`)

// lockSagas locks sagas. All transactions use the same order, so that they do not deadlock.
const lockSagas = `SELECT 1 FROM sagas WHERE id = ANY($1) ORDER BY id FOR UPDATE`

func insertMessages(messages []journal.Message) stmt {
	var saga, message []pgtype.UUID
	var kind []string
	var data [][]byte
	for _, m := range messages {
		saga, message = append(saga, id(m.Saga)), append(message, id(m.ID))
		kind, data = append(kind, m.Kind), append(data, m.Data)
	}
	return stmt{with: []string{`a AS (SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[]) AS a (saga_id, id, kind, data))`, insertedMessages, countedMessages},
		query: wakeRecipients, args: []any{saga, message, kind, data}}
}

// sentMessages stores the messages of a batch, after everything else of it.
func sentMessages(_ string, batch []part) (stmt, error) {
	var messages []journal.Message
	for i := range batch {
		messages = append(messages, batch[i].Messages...)
	}
	if len(messages) == 0 {
		return stmt{}, nil
	}
	return insertMessages(messages), nil
}

// lockedBy locks the sagas of a batch that sends messages to others or withdraws tasks, the
// receivers, and the parents of its starts. Otherwise ownershipGuard would lock the parents later,
// out of order.
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

// handOver moves messages for sagas that are not created yet to the appends that create them. If
// the process ends between the two transactions, these messages are lost. That is acceptable,
// because a start rarely waits for an end in its own batch, and rarely has messages in it.
func handOver(ready, later []part) {
	creators := make(map[uuid.UUID]*part, len(later))
	for i := range later {
		creators[later[i].Saga] = &later[i]
	}
	for i := range ready {
		waits := func(m journal.Message) bool { return creators[m.Saga] != nil }
		if !slices.ContainsFunc(ready[i].Messages, waits) {
			continue
		}
		for _, m := range ready[i].Messages {
			if p := creators[m.Saga]; p != nil {
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
		return nil, fmt.Errorf("recipients: %w", err)
	}
	out, err := collect(rows, func(row pgx.CollectableRow) (b journal.Recipient, err error) {
		var u pgtype.UUID
		err = row.Scan(&u, &b.Messages)
		b.Saga = u.Bytes
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("recipients: %w", err)
	}
	return out, nil
}

// messagesQuery first sums up the sizes of the messages, which does not read large data, and then
// reads those that fit.
const messagesQuery = `SELECT id, saga_id, kind, data FROM (
		SELECT id, saga_id, kind, data, row_number() OVER w AS n, sum(coalesce(octet_length(data), 0)) OVER w AS bytes FROM (
			SELECT id, saga_id, kind, data FROM messages WHERE saga_id = ANY($1::uuid[]) AND NOT applied ORDER BY saga_id, id LIMIT $2
		) m WINDOW w AS (ORDER BY saga_id, id ROWS UNBOUNDED PRECEDING)
	) m WHERE n = 1 OR bytes <= $3::bigint ORDER BY saga_id, id`

// Messages implements journal.Log.
func (s *Store) Messages(ctx context.Context, sagas []uuid.UUID, limit, bytes int) ([]journal.Message, error) {
	rows, err := s.w.Query(ctx, messagesQuery, ids(sagas), max(limit, 0), bytes)
	if err != nil {
		return nil, fmt.Errorf("messages: %w", err)
	}
	out, err := collect(rows, func(row pgx.CollectableRow) (journal.Message, error) {
		var m journal.Message
		var u, saga pgtype.UUID
		err := row.Scan(&u, &saga, &m.Kind, (*[]byte)(&m.Data))
		m.ID, m.Saga = u.Bytes, saga.Bytes
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("messages: %w", err)
	}
	return out, nil
}
