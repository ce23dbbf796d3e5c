package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"recourse/journal"
)

// Append implements journal.Log.
func (s *Store) Append(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	results := make([]journal.Result, len(batch))
	err := s.w.do(ctx, func(t *tx) error {
		if err := t.fence(node); err != nil {
			return err
		}
		now := s.clock()
		for i := range batch {
			var err error
			if results[i], err = t.append(node, now, &batch[i]); err != nil {
				return fmt.Errorf("saga %s: %w", batch[i].Saga, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("append: %w", err)
	}
	for i := range batch {
		if batch[i].Due() {
			s.hint()
			break
		}
	}
	return results, nil
}

// fence returns ErrFenced if the node's row is gone.
func (t *tx) fence(node string) error {
	var one int
	err := t.row(`SELECT 1 FROM nodes WHERE id = ?`, []any{node}, &one)
	if errors.Is(err, sql.ErrNoRows) {
		return journal.ErrFenced
	}
	return err
}

// append does one append wholly or, with an error in the result, not at all. All that can turn
// it down is looked at before anything is written: nobody else writes meanwhile.
func (t *tx) append(node string, now int64, a *journal.Append) (journal.Result, error) {
	var owner sql.NullString
	var last, claims int64
	err := t.row(`SELECT owner, claims, coalesce((SELECT max(seq) FROM journal WHERE saga_id = sagas.id), 0) FROM sagas WHERE id = ?`,
		[]any{a.Saga.Bytes()}, &owner, &claims, &last)
	if errors.Is(err, sql.ErrNoRows) {
		return t.start(node, now, a)
	}
	if err != nil {
		return journal.Result{}, err
	}
	fresh, err := t.missing(a, last)
	switch {
	case errors.Is(err, journal.ErrConflict):
		return journal.Result{Err: journal.ErrConflict}, nil
	case err != nil:
		return journal.Result{}, err
	case len(fresh) == 0 && (len(a.Records) > 0 || a.Start != nil):
		return journal.Result{}, nil // done before, with all that came with it
	case owner.String != node && len(a.Records) == 0 && a.Release:
		return journal.Result{}, nil // given up before
	case owner.String != node:
		return journal.Result{Err: journal.ErrConflict}, nil
	}
	if claims > 0 && (len(fresh) > 0 || a.Row != nil) {
		if _, err := t.exec(`UPDATE sagas SET claims = 0 WHERE id = ?`, a.Saga.Bytes()); err != nil {
			return journal.Result{}, err
		}
	}
	return journal.Result{}, t.apply(now, a, fresh)
}

// missing returns the records that do not stand yet, last being the seq of the
// last that does. ErrConflict if another stands in the place of one, or one does not follow.
func (t *tx) missing(a *journal.Append, last int64) ([]journal.Record, error) {
	for i, r := range a.Records {
		if r.Seq < 1 || i == 0 && r.Seq > last+1 || i > 0 && r.Seq != a.Records[i-1].Seq+1 {
			return nil, journal.ErrConflict
		}
	}
	if len(a.Records) == 0 || a.Records[0].Seq == last+1 {
		return a.Records, nil
	}
	from := a.Records[0].Seq
	standing := int64(0)
	err := t.query(`SELECT hash FROM journal WHERE saga_id = ? AND seq >= ? ORDER BY seq LIMIT ?`,
		[]any{a.Saga.Bytes(), from, len(a.Records)}, func(scan func(...any) error) error {
			var hash []byte
			if err := scan(&hash); err != nil {
				return err
			}
			if !bytes.Equal(hash, a.Records[standing].Hash) {
				return journal.ErrConflict
			}
			standing++
			return nil
		})
	return a.Records[standing:], err
}

// start makes a saga, unless its key or its unique value is taken.
func (t *tx) start(node string, now int64, a *journal.Append) (journal.Result, error) {
	if _, err := t.missing(a, 0); err != nil || a.Start == nil {
		return journal.Result{Err: journal.ErrConflict}, nil
	}
	st := a.Start
	var res journal.Result
	if st.Key != "" {
		err := t.row(`SELECT id FROM sagas WHERE start_key = ?`, []any{st.Key}, idInto{&res.Saga})
		if err == nil {
			res.Err = journal.ErrStartKey
			return res, nil
		} else if !errors.Is(err, sql.ErrNoRows) {
			return res, err
		}
	}
	if st.Unique != "" && (a.Row == nil || a.Row.EndedAt.IsZero()) {
		err := t.row(`SELECT id FROM sagas WHERE definition = ? AND unique_value = ? AND ended_at IS NULL`,
			[]any{st.Definition, st.Unique}, idInto{&res.Saga})
		if err == nil {
			res.Err = journal.ErrUnique
			return res, nil
		} else if !errors.Is(err, sql.ErrNoRows) {
			return res, err
		}
	}
	if st.Newest {
		if err := t.newest(st); errors.Is(err, journal.ErrNotNewest) {
			res.Err = journal.ErrNotNewest
			return res, nil
		} else if err != nil {
			return res, err
		}
	}
	// ended_at goes in with the row: a saga that ends as it starts never takes its unique value.
	var ended any
	if a.Row != nil {
		ended = millis(a.Row.EndedAt)
	}
	_, err := t.exec(`INSERT INTO sagas (id, definition, version, sha256, start_key, start_hash, unique_value,
		parent, retry_of, forked_from, created_at, ended_at, owner) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		a.Saga.Bytes(), st.Definition, st.Version, st.SHA256, text(st.Key), st.Hash, text(st.Unique),
		id(st.Parent), id(st.RetryOf), id(st.ForkedFrom), millis(st.CreatedAt), ended, node)
	if err != nil {
		return res, err
	}
	return res, t.apply(now, a, a.Records)
}

// apply writes the records that are missing and what came with them.
func (t *tx) apply(now int64, a *journal.Append, fresh []journal.Record) error {
	saga := a.Saga.Bytes()
	for i := range fresh {
		r := &fresh[i]
		_, err := t.exec(`INSERT INTO journal (saga_id, seq, at, kind, path, way, attempt, generation, key, class, node, data, hash)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, saga, r.Seq, r.At.UnixMilli(), string(r.Kind), r.Path, string(r.Way),
			r.Attempt, r.Generation, r.Key, string(r.Class), r.Node, blob(r.Data), r.Hash)
		if err != nil {
			return err
		}
	}
	for _, m := range a.Mail {
		n, err := t.exec(`UPDATE mail SET folded = 1, data = NULL WHERE saga_id = ? AND id = ? AND folded = 0`, saga, m.Bytes())
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		if _, err := t.exec(`UPDATE sagas SET mail = mail - 1 WHERE id = ?`, saga); err != nil {
			return err
		}
	}
	if a.Row != nil {
		if err := t.replaceRow(a); err != nil {
			return err
		}
	}
	if !a.Release {
		return nil
	}
	if a.Row == nil {
		return t.free(now, journal.Rest, `id = ?`, saga)
	}
	// A message that came in while the saga was being parked keeps it awake.
	_, err := t.exec(`UPDATE sagas SET owner = NULL,
		wake_at = CASE WHEN mail > 0 THEN min(?, coalesce(wake_at, ?)) ELSE wake_at END WHERE id = ?`, now, now, saga)
	return err
}

func (t *tx) replaceRow(a *journal.Append) error {
	saga, r := a.Saga.Bytes(), a.Row
	l, err := labels(r.Labels)
	if err != nil {
		return err
	}
	_, err = t.exec(`UPDATE sagas SET status = ?, reason = ?, labels = ?, wake_at = ?, summary = ?, seq = ?, updated_at = ?, ended_at = coalesce(ended_at, ?)
		WHERE id = ?`, r.Status, r.Reason, l, millis(r.WakeAt), blob(r.Summary), r.Seq, millis(r.UpdatedAt), millis(r.EndedAt), saga)
	if err != nil {
		return err
	}
	if _, err := t.exec(`DELETE FROM inbox WHERE saga_id = ?`, saga); err != nil {
		return err
	}
	for _, e := range r.Inbox {
		_, err := t.exec(`INSERT INTO inbox (saga_id, id, kind, path, since, data) VALUES (?, ?, ?, ?, ?, ?)`,
			saga, e.ID.Bytes(), e.Kind, e.Path, e.Since.UnixMilli(), blob(e.Data))
		if err != nil {
			return err
		}
	}
	return nil
}
