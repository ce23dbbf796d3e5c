package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/failpoint"
	"recourse/journal"
)

// Claim implements journal.Log. After a COMMIT whose end is not known, the next Claim takes the same sagas,
// whether they are the node's by then or still nobody's: they would stay the node's without its knowing.
func (s *Store) Claim(ctx context.Context, node string, limit int) ([]journal.Claimed, error) {
	s.claims.Lock()
	defer s.claims.Unlock()
	var out []journal.Claimed
	err := s.w.do(ctx, func(t *tx) (err error) {
		if len(s.lost) > 0 {
			out, err = t.again(node, s.lost)
			return err
		}
		out, err = s.claim(t, node, limit)
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

// again claims what an earlier Claim may have taken.
func (t *tx) again(node string, lost []journal.Claimed) (out []journal.Claimed, err error) {
	if err := t.fence(node); err != nil {
		return nil, err
	}
	for _, c := range lost {
		err := t.row(`SELECT claims FROM sagas WHERE id = ? AND (owner IS NULL OR owner = ?)`, []any{c.Saga.Bytes(), node}, &c.Claims)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		c.Mail = nil
		if err == nil {
			err = t.claim(node, &c)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// claim claims what is due.
func (s *Store) claim(t *tx, node string, limit int) (out []journal.Claimed, err error) {
	if err := t.fence(node); err != nil {
		return nil, err
	}
	now := s.clock()
	suspects, err := t.due(now, suspect, min(limit, 1))
	if err != nil {
		return nil, err
	}
	if out, err = t.due(now, unsuspected, limit-len(suspects)); err != nil {
		return nil, err
	}
	out = append(out, suspects...)
	for i := range out {
		if err := t.claim(node, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Each has an index of its own.
var (
	suspect     = fmt.Sprintf(`claims >= %d`, journal.SuspectAfter)
	unsuspected = fmt.Sprintf(`claims < %d`, journal.SuspectAfter)
)

func claimable(which string) string {
	return `SELECT id, definition, version, claims FROM sagas WHERE owner IS NULL AND wake_at <= ? AND ` + which + ` ORDER BY wake_at, id LIMIT ?`
}

// due lists what can be claimed, the longest due first.
func (t *tx) due(now int64, which string, limit int) (out []journal.Claimed, err error) {
	err = t.query(claimable(which),
		[]any{now, max(limit, 0)}, func(scan func(...any) error) error {
			var c journal.Claimed
			err := scan(idInto{&c.Saga}, &c.Definition, &c.Version, &c.Claims)
			out = append(out, c)
			return err
		})
	return out, err
}

func (t *tx) claim(node string, c *journal.Claimed) error {
	c.Claims++
	var mail int
	err := t.row(`UPDATE sagas SET owner = ?, claims = ? WHERE id = ? RETURNING mail`, []any{node, c.Claims, c.Saga.Bytes()}, &mail)
	if err != nil || mail == 0 {
		return err
	}
	return t.query(`SELECT id, saga_id, kind, data FROM mail WHERE saga_id = ? AND folded = 0 ORDER BY id`,
		[]any{c.Saga.Bytes()}, func(scan func(...any) error) error { return scanMail(scan, &c.Mail) })
}

func scanMail(scan func(...any) error, into *[]journal.Mail) error {
	var m journal.Mail
	var data []byte
	err := scan(idInto{&m.ID}, idInto{&m.Saga}, &m.Kind, &data)
	m.Data = data
	*into = append(*into, m)
	return err
}

// Records implements journal.Log.
func (s *Store) Records(ctx context.Context, saga uuid.UUID, after int64, limit int) ([]journal.Record, error) {
	rows, err := s.read(ctx, `SELECT seq, at, kind, path, way, attempt, generation, key, class, node, data, hash
		FROM journal WHERE saga_id = ? AND seq > ? ORDER BY seq LIMIT ?`, saga.Bytes(), after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	var out []journal.Record
	err = walk(rows, func(scan func(...any) error) error {
		var r journal.Record
		var at int64
		var data []byte
		err := scan(&r.Seq, &at, &r.Kind, &r.Path, &r.Way, &r.Attempt, &r.Generation, &r.Key, &r.Class, &r.Node, &data, &r.Hash)
		r.At, r.Data = toTime(at), data
		out = append(out, r)
		return err
	})
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

// Post implements journal.Log.
func (s *Store) Post(ctx context.Context, m journal.Mail) error {
	err := s.w.do(ctx, func(t *tx) error {
		saga := m.Saga.Bytes()
		n, err := t.exec(`INSERT INTO mail (saga_id, id, kind, data) SELECT id, ?, ?, ? FROM sagas WHERE id = ? ON CONFLICT DO NOTHING`,
			m.ID.Bytes(), m.Kind, blob(m.Data), saga)
		if err != nil {
			return err
		}
		if n == 0 {
			var one int
			err := t.row(`SELECT 1 FROM sagas WHERE id = ?`, []any{saga}, &one)
			if errors.Is(err, sql.ErrNoRows) {
				return journal.ErrNotFound
			}
			return err
		}
		now := s.clock()
		_, err = t.exec(`UPDATE sagas SET mail = mail + 1,
			wake_at = CASE WHEN owner IS NULL THEN min(?, coalesce(wake_at, ?)) ELSE wake_at END WHERE id = ?`, now, now, saga)
		return err
	})
	if err != nil {
		return fmt.Errorf("post to %s: %w", m.Saga, err)
	}
	s.hint()
	return nil
}

// Mail implements journal.Log.
func (s *Store) Mail(ctx context.Context, node string, limit int) ([]journal.Mail, error) {
	rows, err := s.read(ctx, `SELECT m.id, m.saga_id, m.kind, m.data FROM sagas s JOIN mail m ON m.saga_id = s.id
		WHERE s.owner = ? AND s.mail > 0 AND m.folded = 0 ORDER BY m.id, m.saga_id LIMIT ?`, node, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("mail: %w", err)
	}
	var out []journal.Mail
	if err := walk(rows, func(scan func(...any) error) error { return scanMail(scan, &out) }); err != nil {
		return nil, fmt.Errorf("mail: %w", err)
	}
	return out, nil
}
