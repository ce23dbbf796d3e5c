package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/failpoint"
	"recourse/journal"
	"recourse/journal/packed"
)

// Claim implements journal.Log. After a COMMIT with an unknown result, the next Claim returns those
// of the same sagas that the node owns by then, because otherwise it could own sagas without
// knowing it, and those that nobody owns and that are due.
func (s *Store) Claim(ctx context.Context, node string, limit int) ([]journal.Claimed, error) {
	return s.claimBy(ctx, node, takeSuspects, takeOthers, limit)
}

// ClaimLocal implements journal.Local.
func (s *Store) ClaimLocal(ctx context.Context, node string, limit int) ([]journal.Claimed, error) {
	return s.claimBy(ctx, node, takeLocalSuspects, takeLocalOthers, limit)
}

// claimBy claims sagas by two statements, for suspects and for others, or those that an earlier
// claim may have taken.
func (s *Store) claimBy(ctx context.Context, node, suspects, others string, limit int) ([]journal.Claimed, error) {
	s.claims.Lock()
	defer s.claims.Unlock()
	var out []journal.Claimed
	err := s.w.do(ctx, func(t *tx) (err error) {
		if len(s.lost) > 0 {
			out, err = t.again(node, s.clock(), s.lost)
			return err
		}
		out, err = s.claim(t, node, suspects, others, limit)
		return err
	})
	if err == nil && len(out) > 0 {
		err = failpoint.Err("claim.committed", journal.ErrUnknown)
	}
	switch {
	case errors.Is(err, journal.ErrUnknown):
		s.lost = out
	case err == nil, errors.Is(err, journal.ErrFenced):
		s.lost = nil
	}
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	return out, nil
}

// again claims the sagas that an earlier Claim may have taken. Those that it did take are not
// counted twice.
func (t *tx) again(node string, now int64, lost []journal.Claimed) (out []journal.Claimed, err error) {
	if err := t.fence(node); err != nil {
		return nil, err
	}
	for _, c := range lost {
		found, err := t.take(retake, node, c.Saga.Bytes(), node, now)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// claim claims sagas that are due.
func (s *Store) claim(t *tx, node, suspects, others string, limit int) ([]journal.Claimed, error) {
	if err := t.fence(node); err != nil {
		return nil, err
	}
	limit = max(limit, 0)
	now := s.clock()
	last, err := t.take(suspects, node, now, min(limit, 1))
	if err != nil {
		return nil, err
	}
	out, err := t.take(others, node, now, limit-len(last))
	return append(out, last...), err
}

// Each condition has an index of its own.
var (
	suspect     = fmt.Sprintf(`claims >= %d`, journal.SuspectAfter)
	unsuspected = fmt.Sprintf(`claims < %d`, journal.SuspectAfter)
)

var (
	takeSuspects      = taking(due(`sagas`, suspect))
	takeOthers        = taking(due(`sagas`, unsuspected))
	takeLocalSuspects = taking(due(local, suspect))
	takeLocalOthers   = taking(due(local, unsuspected))
	retake            = taking(`id = ? AND (owner = ? OR owner IS NULL AND wake_at <= ?)`)
)

// taking returns the statement that makes a node the owner of sagas. For OR FAIL, see insertQuery.
func taking(which string) string {
	return `UPDATE OR FAIL sagas SET owner = ?, claims = claims + (owner IS NULL) WHERE ` + which +
		` RETURNING id, definition, version, claims, coalesce(wake_at, 0), pending_messages`
}

// local has sagas with Start.Local only: its index has no others.
const local = `sagas INDEXED BY sagas_local`

func due(where, which string) string {
	if where == local {
		which += ` AND local IS NOT NULL`
	}
	return `rowid IN (SELECT rowid FROM ` + where + ` WHERE owner IS NULL AND wake_at <= ? AND ` + which + ` ORDER BY wake_at, id LIMIT +?)`
}

// take claims sagas by one of these statements and returns them, the one that has been due for
// longest first.
func (t *tx) take(query string, args ...any) (out []journal.Claimed, err error) {
	err = t.query(query, args, func(scan func(...any) error) error {
		var c journal.Claimed
		var due int64
		err := scan(idInto{&c.Saga}, &c.Definition, &c.Version, &c.Claims, &due, &c.Messages)
		c.Due = toTime(due)
		out = append(out, c)
		return err
	})
	slices.SortFunc(out, func(a, b journal.Claimed) int {
		return cmp.Or(a.Due.Compare(b.Due), journal.CompareID(a.Saga, b.Saga))
	})
	return out, err
}

// Records implements journal.Log.
func (s *Store) Records(ctx context.Context, saga uuid.UUID, after int64, limit int) ([]journal.Record, error) {
	after, limit = min(max(after, 0), math.MaxInt32), min(max(limit, 0), math.MaxInt32)
	found, err := packedRows(func(each func(func(...any) error) error) error {
		rows, err := s.read(ctx, recordsQuery, saga.Bytes(), saga.Bytes(), after, after+int64(limit))
		if err != nil {
			return err
		}
		return walk(rows, each)
	})
	var out []journal.Record
	if err == nil {
		out, err = packed.Records(saga, found, after, limit, s.find(ctx))
	}
	if err == nil && len(out) == 0 {
		err = s.exists(ctx, saga)
	}
	if err != nil {
		return nil, fmt.Errorf("records of %s: %w", saga, err)
	}
	return out, nil
}

func (s *Store) exists(ctx context.Context, saga uuid.UUID) error {
	var one int
	err := s.row(ctx, `SELECT 1 FROM sagas WHERE id = ?`, saga.Bytes())(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return journal.ErrNotFound
	}
	return err
}

// Send implements journal.Log.
func (s *Store) Send(ctx context.Context, m journal.Message) error {
	err := s.w.do(ctx, func(t *tx) error {
		fresh, err := t.send(s.clock(), &m)
		if err != nil || fresh {
			return err
		}
		var one int
		err = t.row(`SELECT 1 FROM sagas WHERE id = ?`, []any{m.Saga.Bytes()}, &one)
		if errors.Is(err, sql.ErrNoRows) {
			return journal.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("send to %s: %w", m.Saga, err)
	}
	s.hint()
	return nil
}

// send stores a message for its saga. fresh is false if the message exists already, or its saga
// does not.
func (t *tx) send(now int64, m *journal.Message) (fresh bool, err error) {
	saga := m.Saga.Bytes()
	n, err := t.exec(`INSERT INTO messages (saga_id, id, kind, data) SELECT id, ?, ?, ? FROM sagas WHERE id = ? ON CONFLICT DO NOTHING`,
		m.ID.Bytes(), m.Kind, blob(m.Data), saga)
	if fresh = n > 0; fresh {
		_, err = t.exec(`UPDATE sagas SET pending_messages = pending_messages + 1,
			wake_at = CASE WHEN owner IS NULL THEN min(?, coalesce(wake_at, ?)) ELSE wake_at END WHERE id = ?`, now, now, saga)
	}
	return fresh, err
}

// Owned implements journal.Log.
func (s *Store) Owned(ctx context.Context, node string, after uuid.UUID, limit int) ([]uuid.UUID, error) {
	rows, err := s.read(ctx, `SELECT id FROM sagas WHERE owner = ? AND id > ? ORDER BY id LIMIT +?`, node, after.Bytes(), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("owned: %w", err)
	}
	var out []uuid.UUID
	err = walk(rows, func(scan func(...any) error) error {
		var saga uuid.UUID
		err := scan(idInto{&saga})
		out = append(out, saga)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("owned: %w", err)
	}
	return out, nil
}
