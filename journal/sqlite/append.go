package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/journal/packed"
)

// Append implements journal.Log.
func (s *Store) Append(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	results := make([]journal.Result, len(batch))
	var w wanted
	err := s.w.do(ctx, func(t *tx) error {
		w = wanted{}
		return t.appendAll(node, s.clock(), batch, results, &w)
	})
	if err != nil {
		return nil, fmt.Errorf("append: %w", err)
	}
	for d, text := range w.dictionaries {
		s.w.dictionaries.Stored(d, text)
	}
	for i := range batch {
		if batch[i].ClaimableNow() || batch[i].HasOthersWork() {
			s.hint()
			break
		}
	}
	return results, nil
}

// appendAll applies a batch. Its appends are for different sagas, so it first reads the state of
// all sagas. Then it writes the rows one after the other, because the end of one saga may free what
// another start takes, then all records, and finally the messages to other sagas.
func (t *tx) appendAll(node string, now int64, batch []journal.Append, results []journal.Result, w *wanted) error {
	if err := t.fence(node); err != nil {
		return err
	}
	stand, err := t.snapshot(node, batch)
	if err != nil {
		return err
	}
	for i := range batch {
		if results[i], err = t.append(node, now, &batch[i], stand[i], w); err != nil {
			return fmt.Errorf("saga %s: %w", batch[i].Saga, err)
		}
	}
	if err := t.insert(w); err != nil {
		return err
	}
	for i := range w.messages {
		if _, err := t.send(now, &w.messages[i]); err != nil {
			return err
		}
	}
	return nil
}

// fence returns ErrFenced if the node is not registered.
func (t *tx) fence(node string) error {
	var one int
	err := t.row(`SELECT 1 FROM nodes WHERE id = ?`, []any{node}, &one)
	if errors.Is(err, sql.ErrNoRows) {
		return journal.ErrFenced
	}
	return err
}

// append applies one append completely or, with an error in the result, not at all. It checks
// everything before it writes; no other transaction writes in between.
func (t *tx) append(node string, now int64, a *journal.Append, st snapshot, w *wanted) (journal.Result, error) {
	if !st.exists {
		return t.start(node, now, a, w)
	}
	fresh, err := t.missing(a, st.last)
	switch {
	case errors.Is(err, journal.ErrConflict):
		return journal.Result{Err: journal.ErrConflict}, nil
	case err != nil:
		return journal.Result{}, err
	case len(fresh) == 0 && (len(a.Records) > 0 || a.Start != nil):
		return journal.Result{}, nil // a repetition: everything in it is written already
	case a.Stale(st.last):
		return journal.Result{}, nil // a late repetition: the saga has continued since
	case !st.owned && len(a.Records) == 0 && a.Release:
		return journal.Result{}, nil // released already
	case !st.owned:
		return journal.Result{Err: journal.ErrConflict}, nil
	}
	if err := t.pack(node, a, fresh, w); err != nil {
		return journal.Result{}, err
	}
	if err := t.bring(now, a, w); err != nil {
		return journal.Result{}, err
	}
	return journal.Result{}, t.change(now, a, st, len(fresh) > 0)
}

// missing returns those of the append's records that come after seq last, the journal's last one.
// It returns ErrConflict if the journal has another record at one of the seqs, or if the records do
// not continue it.
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
	rows, err := packedRows(func(each func(func(...any) error) error) error {
		return t.query(recordsQuery, []any{a.Saga.Bytes(), a.Saga.Bytes(), from - 1, from + int64(len(a.Records)) - 1}, each)
	})
	if err != nil {
		return nil, err
	}
	written, err := packed.Records(a.Saga, rows, from-1, len(a.Records), t.find)
	if err != nil {
		return nil, err
	}
	for i := range written {
		if !bytes.Equal(written[i].Hash, a.Records[i].Hash) {
			return nil, journal.ErrConflict
		}
	}
	return a.Records[len(written):], nil
}

// start creates a saga, unless its key or its unique value is taken, its version is not the newest,
// or its parent has ended or is being undone.
func (t *tx) start(node string, now int64, a *journal.Append, w *wanted) (journal.Result, error) {
	if a.Start == nil {
		return journal.Result{Err: journal.ErrConflict}, nil
	}
	if _, err := t.missing(a, 0); errors.Is(err, journal.ErrConflict) {
		return journal.Result{Err: err}, nil
	} else if err != nil {
		return journal.Result{}, err
	}
	st := a.Start
	switch err := t.startable(st); {
	case errors.Is(err, journal.ErrNotNewest), errors.Is(err, journal.ErrParentEnded):
		res, failed := t.taken(a)
		if res.Err == nil {
			res.Err = err
		}
		return res, failed
	case err != nil:
		return journal.Result{}, err
	}
	var r journal.Row
	owner := any(node)
	if a.Row != nil {
		r = *a.Row
		if a.Release {
			owner = nil
		}
	}
	l, err := labels(r.Labels)
	if err != nil {
		return journal.Result{}, err
	}
	sum, err := hex.DecodeString(st.SHA256)
	if err != nil {
		return journal.Result{}, fmt.Errorf("the SHA-256 of %s: %w", st.Definition, err)
	}
	// OR FAIL: see insertQuery. SQLite assumes that the table's trigger may fail halfway.
	n, err := t.exec(`INSERT OR FAIL INTO sagas (id, definition, version, sha256, start_key, start_hash, unique_value, opener, local,
		parent, retry_of, forked_from, created_at, status, reason, labels, wake_at, summary, seq, updated_at, ended_at, delete_at, owner, search_text)
		VALUES (?, ?, ?, coalesce(?, x''), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		a.Saga.Bytes(), st.Definition, st.Version, sum, text(st.Key), st.Hash, text(st.Unique), text(st.Opener), flag(st.Local),
		id(st.Parent), id(st.RetryOf), id(st.ForkedFrom), millis(st.CreatedAt), r.Status, r.Reason, l, millis(r.WakeAt), blob(r.Summary),
		r.Seq, millis(r.UpdatedAt), millis(r.EndedAt), millis(r.DeleteAt), owner, r.Text)
	if err != nil {
		return journal.Result{}, err
	}
	if n == 0 {
		res, err := t.taken(a)
		if err == nil && res.Err == nil {
			err = errors.New("a start was refused, but no saga has its key or unique value")
		}
		return res, err
	}
	if err := t.pack(node, a, a.Records, w); err != nil {
		return journal.Result{}, err
	}
	if err := t.bring(now, a, w); err != nil {
		return journal.Result{}, err
	}
	if err := t.addInbox(a); err != nil {
		return journal.Result{}, err
	}
	if a.Release && a.Row == nil {
		return journal.Result{}, t.free(now, a.ReleaseDelay(), `id = ?`, a.Saga.Bytes())
	}
	return journal.Result{}, nil
}

// startable returns ErrNotNewest or ErrParentEnded if the start's version or parent does not allow
// it.
func (t *tx) startable(st *journal.Start) error {
	if st.Newest {
		if err := t.newest(st); err != nil {
			return err
		}
	}
	if st.Parent.IsNil() {
		return nil
	}
	var one int
	err := t.row(`SELECT 1 FROM sagas WHERE id = ? AND ended_at IS NULL AND (? OR reason = '')`, []any{st.Parent.Bytes(), st.Final}, &one)
	if errors.Is(err, sql.ErrNoRows) {
		return journal.ErrParentEnded
	}
	return err
}

// taken returns the saga that has the start's key or its unique value, if there is one.
func (t *tx) taken(a *journal.Append) (res journal.Result, err error) {
	st := a.Start
	err = sql.ErrNoRows
	if st.Key != "" {
		res.Err = journal.ErrStartKey
		err = t.row(`SELECT id FROM sagas WHERE start_key = ?`, []any{st.Key}, idInto{&res.Saga})
	}
	if errors.Is(err, sql.ErrNoRows) && a.TakesUnique() {
		res.Err = journal.ErrUnique
		err = t.row(`SELECT id FROM sagas WHERE definition = ? AND unique_value = ? AND ended_at IS NULL`,
			[]any{st.Definition, st.Unique}, idInto{&res.Saga})
	}
	if errors.Is(err, sql.ErrNoRows) {
		return journal.Result{}, nil
	}
	return res, err
}

// change updates the row of an existing saga. It is one UPDATE of the columns that change, because
// each column costs its indexes.
func (t *tx) change(now int64, a *journal.Append, st snapshot, progress bool) error {
	saga := a.Saga.Bytes()
	var set []string
	var args []any
	if st.claims > 0 && (progress || a.Row != nil) {
		set = append(set, `claims = 0`)
	}
	applied, err := t.applyMessages(saga, a.Applied)
	if err != nil {
		return err
	}
	if applied > 0 {
		set, args = append(set, `pending_messages = pending_messages - ?`), append(args, applied)
	}
	if r := a.Row; r != nil {
		l, err := labels(r.Labels)
		if err != nil {
			return err
		}
		wake := millis(r.WakeAt)
		if a.Release {
			set = append(set, `owner = NULL`)
			// A message that arrived during the release makes the saga claimable at once.
			if st.messages > applied && (r.WakeAt.IsZero() || r.WakeAt.UnixMilli() > now) {
				wake = now
			}
		}
		if !r.EndedAt.IsZero() {
			set, args = append(set, `ended_at = coalesce(ended_at, ?)`), append(args, r.EndedAt.UnixMilli())
		}
		if st.expires || !r.DeleteAt.IsZero() {
			set, args = append(set, `delete_at = ?`), append(args, millis(r.DeleteAt))
		}
		if l != st.labels { // otherwise their trigger would run for nothing
			set, args = append(set, `labels = ?`), append(args, l)
		}
		set = append(set, `status = ?, reason = ?, wake_at = ?, summary = ?, seq = ?, updated_at = ?, search_text = ?`)
		args = append(args, r.Status, r.Reason, wake, blob(r.Summary), r.Seq, millis(r.UpdatedAt), r.Text)
		if st.inbox {
			if _, err := t.exec(`DELETE FROM inbox WHERE saga_id = ?`, saga); err != nil {
				return err
			}
		}
		if err := t.addInbox(a); err != nil {
			return err
		}
	}
	if len(set) > 0 {
		if _, err := t.exec(`UPDATE sagas SET `+strings.Join(set, ", ")+` WHERE id = ?`, append(args, saga)...); err != nil {
			return err
		}
	}
	if a.Release && a.Row == nil {
		return t.free(now, a.ReleaseDelay(), `id = ?`, saga)
	}
	return nil
}

// bring writes the blobs, tasks and events of an append. Its messages are sent after all records.
func (t *tx) bring(now int64, a *journal.Append, w *wanted) error {
	w.messages = append(w.messages, a.Messages...)
	if err := t.addBlobs(a.Saga, a.Blobs); err != nil {
		return err
	}
	if err := t.addTasks(now, a); err != nil {
		return err
	}
	if err := t.withdraw(now, a); err != nil {
		return err
	}
	return t.addEvents(now, a)
}

// applyMessages marks messages as applied, and returns how many were not applied before.
func (t *tx) applyMessages(saga []byte, messages []uuid.UUID) (int64, error) {
	var applied int64
	for _, m := range messages {
		n, err := t.exec(`UPDATE messages SET applied = 1, data = NULL WHERE saga_id = ? AND id = ? AND applied = 0`, saga, m.Bytes())
		if err != nil {
			return 0, err
		}
		applied += n
	}
	return applied, nil
}

func (t *tx) addInbox(a *journal.Append) error {
	if a.Row == nil {
		return nil
	}
	for _, e := range a.Row.Inbox {
		_, err := t.exec(`INSERT INTO inbox (saga_id, id, kind, path, since, data) VALUES (?, ?, ?, ?, ?, ?)`,
			a.Saga.Bytes(), e.ID.Bytes(), e.Kind, e.Path, e.Since.UnixMilli(), blob(e.Data))
		if err != nil {
			return err
		}
	}
	return nil
}
