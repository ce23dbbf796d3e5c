package postgres

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"

	"recourse/journal"
)

// rows are the rows of sagas as columns.
type rows struct {
	saga                         []pgtype.UUID
	has, release                 []bool // whether there is a journal.Row; whether the saga is released
	status, reason, labels, text []string
	wake, seq, updatedAt, endsAt []*int64
	deleteAt                     []*int64
	summary                      [][]byte
}

func (c *rows) add(a *part) error {
	c.saga = append(c.saga, id(a.Saga))
	c.has, c.release = append(c.has, a.Row != nil), append(c.release, a.Release)
	r := a.Row
	if r == nil {
		r = &journal.Row{}
	}
	l, err := labels(r.Labels)
	if err != nil {
		return err
	}
	c.status, c.reason, c.labels = append(c.status, r.Status), append(c.reason, clean(r.Reason)), append(c.labels, l)
	c.wake, c.seq = append(c.wake, millis(r.WakeAt)), append(c.seq, &r.Seq)
	c.updatedAt, c.endsAt = append(c.updatedAt, millis(r.UpdatedAt)), append(c.endsAt, millis(r.EndedAt))
	c.deleteAt, c.summary = append(c.deleteAt, millis(r.DeleteAt)), append(c.summary, r.Summary)
	c.text = append(c.text, r.Text)
	return nil
}

func (c *rows) args() []any {
	return []any{c.saga, c.has, c.release, c.status, c.reason, c.labels, c.wake, c.seq, c.updatedAt, c.endsAt, c.deleteAt, c.summary, c.text}
}

const unnestRows = `unnest($1::uuid[], $2::bool[], $3::bool[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[],
	$9::bigint[], $10::bigint[], $11::bigint[], $12::bytea[], $13::text[]`

const rowNames = `id, has, release, status, reason, labels, wake_at, seq, updated_at, ended_at, delete_at, summary, search_text`

// changedSagas updates the rows of existing sagas, and deletes the inbox entries of those that get
// a new row.
//
// It reads the number of messages and the owner from the newest version of the locked row. A
// message that was sent during a release makes the saga claimable at once. An earlier attempt with
// this batch, whose response was lost, may just have released the saga, and another node may own
// it. (A condition with = would use the index of owners.) The rows, and so their locks, are in the
// order of their ids, because a start of another batch locks parents in that order.
func changedSagas(node string, batch []part) (stmt, error) {
	var changed []*part
	for i := range batch {
		if a := &batch[i]; a.Start == nil && (a.Row != nil || a.Release) {
			changed = append(changed, a)
		}
	}
	slices.SortFunc(changed, func(a, b *part) int { return journal.CompareID(a.Saga, b.Saga) })
	var c rows
	var unheld []bool
	for _, a := range changed {
		if err := c.add(a); err != nil {
			return stmt{}, err
		}
		unheld = append(unheld, a.Unheld)
	}
	if len(c.saga) == 0 {
		return stmt{}, nil
	}
	return stmt{with: []string{changeRows}, query: `DELETE FROM inbox WHERE saga_id = ANY(ARRAY(SELECT id FROM changed WHERE has))`, args: append(c.args(), node, unheld)}, nil
}

var changeRows = sql(`changed AS (UPDATE sagas s SET
		status = CASE WHEN a.has THEN a.status WHEN a.release AND ` + halting + ` THEN '` + journal.StatusStuck + `' ELSE s.status END,
		reason = CASE WHEN a.has THEN a.reason ELSE s.reason END,
		labels = CASE WHEN a.has THEN a.labels::jsonb ELSE s.labels END,
		summary = CASE WHEN a.has THEN a.summary ELSE s.summary END,
		search_text = CASE WHEN a.has THEN a.search_text ELSE s.search_text END,
		seq = CASE WHEN a.has THEN a.seq ELSE s.seq END,
		updated_at = CASE WHEN a.has THEN a.updated_at WHEN a.release AND ` + halting + ` AND s.status <> '` + journal.StatusStuck + `' THEN {now} ELSE s.updated_at END,
		ended_at = coalesce(s.ended_at, a.ended_at),
		delete_at = CASE WHEN a.has THEN a.delete_at ELSE s.delete_at END,
		owner = CASE WHEN a.release THEN NULL ELSE s.owner END,
		claims = CASE WHEN a.has THEN 0 ELSE s.claims END,
		wake_at = CASE WHEN a.unheld AND NOT a.has THEN {now} + ` + cases(journal.TakeoverDelay) + `
			WHEN a.release AND NOT a.has THEN {now} + ` + cases(journal.RetryDelay) + `
			WHEN a.release AND s.pending_messages > 0 THEN LEAST({now}, a.wake_at)
			WHEN a.has THEN a.wake_at ELSE s.wake_at END
		FROM ` + unnestRows + `, $15::bool[]) AS a (` + rowNames + `, unheld) WHERE s.id = a.id AND s.owner IS NOT DISTINCT FROM $14 RETURNING s.id, a.has)`)

// newSagas inserts the rows of new sagas in their state after the append.
func newSagas(node string, batch []part) (stmt, error) {
	var (
		c                                     rows
		definition, key, hash, unique, opener []string
		sha                                   [][]byte
		version                               []int32
		parent, retryOf, forkedFrom           []pgtype.UUID
		created                               []*int64
		local                                 []bool
	)
	for i := range batch {
		a := &batch[i]
		st := a.Start
		if st == nil {
			continue
		}
		if err := c.add(a); err != nil {
			return stmt{}, err
		}
		sum, err := hex.DecodeString(st.SHA256)
		if err != nil {
			return stmt{}, fmt.Errorf("the SHA-256 of %s: %w", st.Definition, err)
		}
		definition, version, sha = append(definition, st.Definition), append(version, int32(st.Version)), append(sha, sum)
		key, hash, unique = append(key, clean(st.Key)), append(hash, st.Hash), append(unique, clean(st.Unique))
		opener = append(opener, clean(st.Opener))
		parent, retryOf, forkedFrom = append(parent, optionalID(st.Parent)), append(retryOf, optionalID(st.RetryOf)), append(forkedFrom, optionalID(st.ForkedFrom))
		created, local = append(created, millis(st.CreatedAt)), append(local, st.Local)
	}
	if len(c.saga) == 0 {
		return stmt{}, nil
	}
	return stmt{query: insertRows, args: append(c.args(), node, definition, version, sha, key, hash, unique, parent, retryOf, forkedFrom, created, opener, local)}, nil
}

var insertRows = sql(`INSERT INTO sagas (id, status, reason, labels, wake_at, seq, updated_at, ended_at, delete_at, summary, search_text, owner,
			definition, version, sha256, start_key, start_hash, unique_value, parent, retry_of, forked_from, created_at, opener, local)
		SELECT id, status, reason, labels::jsonb, CASE WHEN release AND NOT has THEN {now} + ` + strconv.FormatInt(journal.FirstRetryDelay.Milliseconds(), 10) + ` ELSE wake_at END, seq, updated_at, ended_at, delete_at, summary, search_text, CASE WHEN release THEN NULL ELSE $14 END,
			definition, version, sha256, NULLIF(start_key, ''), start_hash, NULLIF(unique_value, ''), parent, retry_of, forked_from, created_at, NULLIF(opener, ''), NULLIF(local, false)
		FROM ` + unnestRows + `, $15::text[], $16::int[], $17::bytea[], $18::text[], $19::text[], $20::text[],
			$21::uuid[], $22::uuid[], $23::uuid[], $24::bigint[], $25::text[], $26::bool[])
			AS a (` + rowNames + `, definition, version, sha256, start_key, start_hash, unique_value, parent, retry_of, forked_from, created_at, opener, local)`)
