package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"recourse/internal/failpoint"
	"recourse/journal"
)

// errContested: an append of the batch cannot be written as it is.
var errContested = errors.New("contested")

// part is an append of a batch that is yet to be answered.
type part struct {
	at int // in the batch
	journal.Append
}

// Append implements journal.Log. The first try takes the whole batch to be new. If the
// database refuses it, what stands there already is read, the appends that this settles are
// answered, and the others are tried again without them.
func (s *Store) Append(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	out := make([]journal.Result, len(batch))
	todo := make([]part, len(batch))
	for i := range batch {
		todo[i] = part{at: i, Append: batch[i]}
	}
	err := s.lineage.fence(node)
	if err == nil {
		err = s.write(ctx, node, todo, out)
	}
	if err != nil {
		return nil, fmt.Errorf("append: %w", err)
	}
	due, wakes := false, false
	for i := range batch {
		due, wakes = due || batch[i].ClaimableNow(), wakes || batch[i].HasOthersWork()
	}
	switch {
	case wakes:
		s.notify(ctx)
	case due:
		s.hint()
	}
	return out, nil
}

func (s *Store) write(ctx context.Context, node string, todo []part, out []journal.Result) error {
	wrote := false
	sorted := !regular(todo)
	for try := 1; ; try++ {
		ready, later := todo, []part(nil)
		var err error
		if sorted {
			ready, later, err = s.reconcile(ctx, node, todo, out)
			failpoint.Hit("append.sorted")
		}
		if err == nil && (len(ready) > 0 || !sorted) {
			err = s.commit(ctx, node, ready)
		}
		switch {
		case errors.Is(err, errContested) && try < maxTries:
			sorted = true
			continue
		case errors.Is(err, errContested) && !wrote:
			return fmt.Errorf("other writers were ahead %d times: append again", maxTries)
		case err != nil && wrote && !errors.Is(err, journal.ErrFenced):
			return fmt.Errorf("%w: a part of the batch was written: %w", journal.ErrUnknown, err)
		case err != nil:
			return err
		case len(later) == 0 && len(ready) == 0 && !wrote && sorted:
			return s.confirm(ctx, node)
		case len(later) == 0:
			return nil
		}
		wrote = wrote || len(ready) > 0
		todo, sorted = later, true
	}
}

// confirm writes, where a batch was found to be there already: its commit may be here and not on
// the standby that it should have waited for. A commit that waits for the standby comes behind it,
// so the batch is safe when it has gone through.
func (s *Store) confirm(ctx context.Context, node string) error {
	_, err := s.exec(ctx, `UPDATE nodes SET expires_at = expires_at WHERE id = $1`, node)
	return err
}

// regular tells a batch whose shape the database's checks suffice for. They see no part of the
// batch itself, so a start whose parent starts, ends or gets a reason in it is not regular.
func regular(batch []part) bool {
	born, _ := parents(batch)
	for i := range batch {
		a := &batch[i]
		if len(born) > 0 && a.bounds() && slices.Contains(born, id(a.Saga)) {
			return false
		}
		for k, r := range a.Records {
			if r.Seq < 1 || k > 0 && r.Seq != a.Records[k-1].Seq+1 || k == 0 && a.Start != nil && r.Seq != 1 {
				return false
			}
		}
	}
	return true
}

// commit writes the batch in one transaction, or nothing of it: errContested if an append does not
// follow what is there. Most batches are one statement, which costs the database half of what a
// handful does.
func (s *Store) commit(ctx context.Context, node string, batch []part) error {
	halted, err := s.haltedIn(ctx, node, batch)
	if err != nil {
		return err
	}
	var stmts []stmt
	if lock, needed := lockedBy(batch); needed {
		stmts = append(stmts, fence(node), lock)
	}
	stmts = append(stmts, ownershipGuard(node, batch))
	for _, build := range []func(string, []part) (stmt, error){newSagas, newRecords, appliedMessages, changedSagas, newInbox, newTasks, newEvents, withdrawn, sentMessages} {
		st, err := build(node, batch)
		if err != nil {
			return err
		}
		if st.query != "" {
			stmts = append(stmts, st)
		}
	}
	if len(halted) > 0 {
		stmts = append(stmts, quarantine(halted))
	}
	if s.preset && simple(batch) {
		err = s.once(ctx, merged(stmts))
	} else {
		err = s.transact(ctx, stmts)
	}
	if code(err) == codeUniqueViolation && !errors.Is(err, journal.ErrUnknown) {
		return errContested
	}
	return err
}

// simple tells a batch whose parts do not build upon each other: each row is written once, and no
// unique value may be set free for another saga.
func simple(batch []part) bool {
	takes, frees := false, false
	for i := range batch {
		a := &batch[i]
		if len(a.Applied) > 0 || a.Release && a.Row == nil || a.Row != nil && len(a.Row.Inbox) > 0 || len(a.Withdraw) > 0 || len(a.Messages) > 0 {
			return false
		}
		takes = takes || a.Start != nil && a.Start.Unique != ""
		frees = frees || a.Start == nil && a.Row != nil && !a.Row.EndedAt.IsZero()
	}
	return !takes || !frees
}

// bounds reports whether the append starts or ends its saga, or may give it a reason: which sagas
// can be its children hangs on it.
func (a *part) bounds() bool {
	return a.Start != nil || a.Row != nil && (!a.Row.EndedAt.IsZero() || a.Row.Reason != "")
}

// parents lists the parents of a batch's starts by their ids, each once, and those of them that may
// have no reason, as some start of theirs is not final; never nil.
func parents(batch []part) (all, whole []pgtype.UUID) {
	all, whole = []pgtype.UUID{}, []pgtype.UUID{}
	for i := range batch {
		st := batch[i].Start
		if st == nil || st.Parent.IsNil() {
			continue
		}
		all = append(all, id(st.Parent))
		if !st.Final {
			whole = append(whole, id(st.Parent))
		}
	}
	slices.SortFunc(all, byID)
	return slices.Compact(all), whole
}

// ownershipGuard fails unless the node has its lease, the starts are of what they say is newest and
// their parents may have them, and every saga that is not new belongs to the node and has the
// record that the append follows, and none after the one that an append without records comes
// after. It begins to count the claims anew of those that records are written to without a row:
// changedSagas, which does so for rows, goes by what this leaves.
//
// That the lease is looked at in the same statement as the sagas does no harm: who takes it over
// frees its sagas in the transaction that deletes it, which must have ended before this statement
// began, or waits for this one. An earlier try of the node's own may end meanwhile: records of both
// meet in the primary key, and changedSagas looks at the owner once more.
//
// The parents' rows are locked FOR SHARE, in the order of their ids. A transaction that ends a
// parent, or gives it a reason, updates its row, so it comes before this one, and is seen, or it
// waits for this one to be committed, and finds the child. (FOR KEY SHARE would not conflict with
// it.)
func ownershipGuard(node string, batch []part) stmt {
	sagas, fresh, before, rows := []pgtype.UUID{}, []pgtype.UUID{}, []int64{}, []int64{} // none of them NULL, of which nothing would be true or false
	names, versions := newest(batch)
	born, whole := parents(batch)
	for i := range batch {
		a := &batch[i]
		if a.Start != nil {
			continue
		}
		sagas = append(sagas, id(a.Saga))
		if len(a.Records) == 0 {
			before, rows = append(before, 0), append(rows, a.AfterSeq())
			continue
		}
		rows = append(rows, 0)
		before = append(before, a.Records[0].Seq-1)
		if a.Row == nil {
			fresh = append(fresh, id(a.Saga))
		}
	}
	if len(sagas) == 0 && len(names) == 0 && len(born) == 0 {
		return fence(node)
	}
	// Sub-selects for a value are never made into joins: one look into an index each, whatever the
	// planner believes.
	return stmt{with: []string{`progressed AS (UPDATE sagas SET claims = 0 WHERE id = ANY($4) AND claims > 0)`,
		`parents AS (SELECT id FROM sagas WHERE id = ANY($8) AND ended_at IS NULL AND (reason = '' OR NOT id = ANY($9)) ORDER BY id FOR SHARE)`}, query: `SELECT sqrt((` + leases + `) - 1::float8),
			1 / (count(*) = cardinality($2::uuid[]) AND cardinality($5::text[]) = (SELECT count(*) FROM unnest($5::text[], $6::int[]) AS d (name, version)
				WHERE (SELECT n.newest FROM document_names n WHERE n.kind = '` + journal.Definition + `' AND n.name = d.name AND NOT n.archived) = d.version)
				AND cardinality($8::uuid[]) = (SELECT count(*) FROM parents))::int
		FROM unnest($2::uuid[], $3::bigint[], $7::bigint[]) AS a (id, before, of)
		WHERE (SELECT s.owner FROM sagas s WHERE s.id = a.id) = $1
		AND (a.before = 0 OR (SELECT j.seq FROM journal j WHERE j.saga_id = a.id AND j.seq = a.before) IS NOT NULL)
		AND (a.of = 0 OR (SELECT j.seq FROM journal j WHERE j.saga_id = a.id AND j.seq = a.of + 1) IS NULL)`,
		args: []any{node, sagas, before, fresh, names, versions, rows, born, whole}, fails: map[string]error{codeBadSquareRoot: journal.ErrFenced, codeDivisionByZero: errContested}}
}

// newest lists the versions that starts say are the newest of their definitions, each once.
func newest(batch []part) (names []string, versions []int32) {
	names, versions = []string{}, []int32{}
	for i := range batch {
		st := batch[i].Start
		if st == nil || !st.Newest || slices.Contains(names, st.Definition) && versions[slices.Index(names, st.Definition)] == int32(st.Version) {
			continue
		}
		names, versions = append(names, st.Definition), append(versions, int32(st.Version))
	}
	return names, versions
}

// newRecords inserts the records.
func newRecords(_ string, batch []part) (stmt, error) {
	var (
		saga                               []pgtype.UUID
		seq, at                            []int64
		kind, path, way, key, class, wrote []string
		attempt, generation                []int32
		data, hash                         [][]byte
	)
	n := 0
	for i := range batch {
		n += len(batch[i].Records)
	}
	if n == 0 {
		return stmt{}, nil
	}
	saga, seq, at = make([]pgtype.UUID, 0, n), make([]int64, 0, n), make([]int64, 0, n)
	attempt, generation = make([]int32, 0, n), make([]int32, 0, n)
	for _, text := range []*[]string{&kind, &path, &way, &key, &class, &wrote} {
		*text = make([]string, 0, n)
	}
	data, hash = make([][]byte, 0, n), make([][]byte, 0, n)
	for i := range batch {
		for k := range batch[i].Records {
			r := &batch[i].Records[k]
			saga = append(saga, id(batch[i].Saga))
			seq, at = append(seq, r.Seq), append(at, r.At.UnixMilli())
			kind, path, way = append(kind, string(r.Kind)), append(path, r.Path), append(way, string(r.Way))
			attempt, generation = append(attempt, int32(r.Attempt)), append(generation, int32(r.Generation))
			key, class, wrote = append(key, r.Key), append(class, string(r.Class)), append(wrote, r.Node)
			data, hash = append(data, r.Data), append(hash, r.Hash)
		}
	}
	return stmt{query: `INSERT INTO journal (saga_id, seq, at, kind, path, way, attempt, generation, key, class, node, data, hash)
		SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::int[], $8::int[],
			$9::text[], $10::text[], $11::text[], $12::bytea[], $13::bytea[])`,
		args: []any{saga, seq, at, kind, path, way, attempt, generation, key, class, wrote, data, hash}}, nil
}

// appliedMessages takes the messages out. It comes ahead of changedSagas, which goes by the
// counter that this leaves on the locked row.
func appliedMessages(_ string, batch []part) (stmt, error) {
	var saga, mail []pgtype.UUID
	for i := range batch {
		for _, m := range batch[i].Applied {
			saga, mail = append(saga, id(batch[i].Saga)), append(mail, id(m))
		}
	}
	if len(saga) == 0 {
		return stmt{}, nil
	}
	return stmt{with: []string{`gone AS (
			UPDATE messages m SET applied = true, data = NULL FROM unnest($1::uuid[], $2::uuid[]) AS a (saga_id, id)
			WHERE m.saga_id = a.saga_id AND m.id = a.id AND NOT m.applied RETURNING m.saga_id
		)`, `counted AS (SELECT saga_id, count(*)::int AS n FROM gone GROUP BY saga_id)`},
		query: `UPDATE sagas s SET pending_messages = s.pending_messages - c.n FROM counted c WHERE s.id = c.saga_id`, args: []any{saga, mail}}, nil
}

// newInbox inserts the entries; changedSagas has cleared those that they replace.
func newInbox(_ string, batch []part) (stmt, error) {
	var (
		saga, entry []pgtype.UUID
		kind, path  []string
		since       []int64
		data        [][]byte
	)
	for i := range batch {
		if batch[i].Row == nil {
			continue
		}
		for _, e := range batch[i].Row.Inbox {
			saga, entry = append(saga, id(batch[i].Saga)), append(entry, id(e.ID))
			kind, path = append(kind, e.Kind), append(path, e.Path)
			since, data = append(since, e.Since.UnixMilli()), append(data, e.Data)
		}
	}
	if len(saga) == 0 {
		return stmt{}, nil
	}
	return stmt{query: `INSERT INTO inbox (saga_id, id, kind, path, since, data)
		SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::bytea[])`,
		args: []any{saga, entry, kind, path, since, data}}, nil
}
