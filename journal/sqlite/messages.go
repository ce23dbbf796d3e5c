package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

const recipients = `SELECT id, pending_messages FROM sagas WHERE owner = ? AND pending_messages > 0 AND id > ? ORDER BY id LIMIT +?`

// Recipients implements journal.Log.
func (s *Store) Recipients(ctx context.Context, node string, after uuid.UUID, limit int) ([]journal.Recipient, error) {
	rows, err := s.read(ctx, recipients, node, after.Bytes(), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("recipients: %w", err)
	}
	var out []journal.Recipient
	err = walk(rows, func(scan func(...any) error) error {
		var b journal.Recipient
		err := scan(idInto{&b.Saga}, &b.Messages)
		out = append(out, b)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("recipients: %w", err)
	}
	return out, nil
}

// messageSagas is how many sagas one statement reads: see snapshotRows.
const messageSagas = 32

var messagesQuery = `SELECT id, saga_id, kind, data FROM messages WHERE saga_id IN (?` + strings.Repeat(`, ?`, messageSagas-1) + `) AND applied = 0 ORDER BY saga_id, id LIMIT +?`

// Messages implements journal.Log. It reads at most one row more than it returns, because rows may
// be large.
func (s *Store) Messages(ctx context.Context, sagas []uuid.UUID, limit, bytes int) ([]journal.Message, error) {
	var out []journal.Message
	for some := range slices.Chunk(slices.SortedFunc(slices.Values(sagas), journal.CompareID), messageSagas) {
		err := s.messages(ctx, some, limit, &bytes, &out)
		if err != nil && !errors.Is(err, errEnough) {
			return nil, fmt.Errorf("messages: %w", err)
		}
		if err != nil || len(out) >= limit {
			break
		}
	}
	return out, nil
}

func (s *Store) messages(ctx context.Context, sagas []uuid.UUID, limit int, bytes *int, out *[]journal.Message) error {
	args := make([]any, messageSagas+1) // unused arguments stay NULL, which equals no id
	for i, id := range sagas {
		args[i] = id.Bytes()
	}
	args[messageSagas] = max(limit-len(*out), 0)
	rows, err := s.read(ctx, messagesQuery, args...)
	if err != nil {
		return err
	}
	return walk(rows, func(scan func(...any) error) error {
		var m journal.Message
		if err := scan(idInto{&m.ID}, idInto{&m.Saga}, &m.Kind, (*[]byte)(&m.Data)); err != nil {
			return err
		}
		if *bytes -= len(m.Data); *bytes < 0 && len(*out) > 0 {
			return errEnough
		}
		*out = append(*out, m)
		return nil
	})
}
