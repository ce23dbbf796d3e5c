package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"recourse/internal/failpoint"
	"recourse/journal"
	"recourse/journal/packed"
)

// errContested means that an append of the batch cannot be written as it is, so the batch must be
// reconciled.
var errContested = errors.New("contested")

// part is an append of a batch that has no result yet.
type part struct {
	at         int // index in the batch
	dictionary *packed.Dictionary
	node       *packed.Dictionary // with the name of the node
	journal.Append
}

// Append implements journal.Log. The first attempt assumes that nothing of the batch is written. If
// the database refuses it, Append reads what is written already, sets the results that follow from
// that, and tries the other appends again.
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
		return nil, fmt.Errorf("append: %w", slow(ctx, err))
	}
	due, wakes := false, false
	for i := range batch {
		due, wakes = due || batch[i].ClaimableNow(), wakes || batch[i].HasOthersWork()
	}
	switch {
	case wakes:
		s.notify(ctx, s.w.lender)
	case due:
		s.hint()
	}
	return out, nil
}

// slow adds context.DeadlineExceeded to an error by which the server has ended a statement or a
// transaction, usually because of a time limit of its own: a smaller batch may be written in time.
func slow(ctx context.Context, err error) error {
	if c := code(err); ctx.Err() == nil && (c == codeQueryCanceled || c == codeTransactionTimeout) {
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return err
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
			return fmt.Errorf("other transactions wrote to the same rows in %d attempts: append again", maxTries)
		case err != nil && wrote && !errors.Is(err, journal.ErrFenced):
			return fmt.Errorf("%w: part of the batch was written: %w", journal.ErrUnknown, err)
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

// Confirm implements journal.Log.
func (s *Store) Confirm(ctx context.Context, node string) error {
	err := s.lineage.fence(node)
	if err == nil {
		err = s.confirm(ctx, node)
	}
	if err != nil {
		return fmt.Errorf("confirm: %w", err)
	}
	return nil
}

// confirm commits again after something was found to be written: its commit may be on this server
// and not on the standby that it should have waited for. This commit waits for the standby, which
// receives commits in order, so if it succeeds the standby has what was found.
func (s *Store) confirm(ctx context.Context, node string) error {
	n, err := s.w.exec(ctx, `UPDATE nodes SET expires_at = expires_at WHERE id = $1`, node)
	if err == nil && n == 0 { // nothing was written, so nothing was waited for
		return journal.ErrFenced
	}
	return err
}

// regular reports whether the checks in the database suffice for the batch. They do not see the
// batch itself, so it is not regular if it has a start whose parent it starts, ends or gives a
// reason.
func regular(batch []part) bool {
	parentIDs, _ := parents(batch)
	for i := range batch {
		a := &batch[i]
		if len(parentIDs) > 0 && a.bounds() && slices.Contains(parentIDs, id(a.Saga)) {
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

// commit writes the batch in one transaction, or nothing of it and returns errContested if an
// append does not continue the journal as it is. Most batches are one statement, which costs the
// database half as much as several.
func (s *Store) commit(ctx context.Context, node string, batch []part) error {
	dictionaries, err := s.dictionariesFor(ctx, node, batch)
	if err != nil {
		return err
	}
	halted, err := s.haltedIn(ctx, node, batch)
	if err != nil {
		return err
	}
	var stmts []stmt
	if lock, needed := lockedBy(batch); needed {
		stmts = append(stmts, fence(node), lock)
	}
	near := s.nearest(batch)
	stmts = append(stmts, ownershipGuard(node, batch, dictionaries, near))
	for _, build := range []func(string, []part) (stmt, error){newSagas, newRecords, appliedMessages, changedSagas, newInbox, newBlobs, newTasks, newEvents, withdrawn, sentMessages} {
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
		err = s.w.once(ctx, merged(stmts).of(near))
	} else {
		for i := range stmts {
			stmts[i] = stmts[i].of(near)
		}
		err = s.w.transact(ctx, stmts)
	}
	if code(err) == codeUniqueViolation && !errors.Is(err, journal.ErrUnknown) {
		err = errContested
	}
	switch code(err) {
	case codeUndefinedTable, codeCheckViolation: // a partition has been dropped, or attached, meanwhile
		s.forget()
		err = errContested
	}
	if errors.Is(err, errContested) {
		s.dictionaries.Clear() // a failover may have lost a dictionary
	}
	return err
}

// simple reports whether the parts of the batch are independent: each row is written once, and no
// append frees a unique value that another saga takes.
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

// bounds reports whether the append starts or ends its saga, or may give it a reason. That decides
// which sagas can be its children.
func (a *part) bounds() bool {
	return a.Start != nil || a.Row != nil && (!a.Row.EndedAt.IsZero() || a.Row.Reason != "")
}

// parents returns the parents of a batch's starts in the order of their ids, without duplicates,
// and those of them that must not have a reason because one of their starts is not final. It never
// returns nil.
func parents(batch []part) (all, withoutReason []pgtype.UUID) {
	all, withoutReason = []pgtype.UUID{}, []pgtype.UUID{}
	for i := range batch {
		st := batch[i].Start
		if st == nil || st.Parent.IsNil() {
			continue
		}
		all = append(all, id(st.Parent))
		if !st.Final {
			withoutReason = append(withoutReason, id(st.Parent))
		}
	}
	slices.SortFunc(all, byID)
	return slices.Compact(all), withoutReason
}

// ownershipGuard fails unless the node has its lease, the versions of starts are the newest of
// their definitions, their parents may have children, and the node owns every existing saga. The
// journal of such a saga must have the record before the first new one or, for an append without
// records, no record after the one that it was made for. ownershipGuard also resets the claims of
// sagas that get records and no row; changedSagas does so for sagas that get a row, and relies on
// what ownershipGuard leaves.
//
// The lease may be checked in the same statement as the sagas. A takeover frees the sagas in the
// transaction that deletes the lease; that transaction has either ended before this statement
// began, or it waits for this one. An earlier attempt of the same node may end meanwhile: the
// primary key refuses the records of one of them, and changedSagas checks the owner again.
//
// The rows of the parents are locked FOR SHARE, in the order of their ids. A transaction that ends
// a parent, or gives it a reason, updates its row. Either that transaction commits first, and this
// one sees it, or it waits for this one, and sees the child. (FOR KEY SHARE would not conflict with
// it.)
func ownershipGuard(node string, batch []part, dictionaries []int64, near *span) stmt {
	// None of these is NULL, because a comparison with NULL is neither true nor false.
	sagas, fresh, before, rows := []pgtype.UUID{}, []pgtype.UUID{}, []int64{}, []int64{}
	inNear := []bool{}
	names, versions := newest(batch)
	parentIDs, withoutReason := parents(batch)
	for i := range batch {
		a := &batch[i]
		if a.Start != nil {
			continue
		}
		sagas, inNear = append(sagas, id(a.Saga)), append(inNear, near.has(a.Saga))
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
	if len(sagas) == 0 && len(names) == 0 && len(parentIDs) == 0 && len(dictionaries) == 0 {
		return fence(node)
	}
	lastSeq := lastInAny
	switch {
	case !slices.Contains(inNear, true): // the statement names no partition
	case slices.Contains(inNear, false):
		lastSeq = `CASE WHEN a.near THEN ` + lastInSpan + ` ELSE ` + lastInAny + ` END`
	default:
		lastSeq = lastInSpan
	}
	// The planner never turns scalar subqueries into joins, so each is one index lookup, whatever
	// its statistics say.
	return stmt{with: []string{`progressed AS (UPDATE sagas SET claims = 0 WHERE id = ANY($4) AND claims > 0)`,
		`parents AS (SELECT id FROM sagas WHERE id = ANY($8) AND ended_at IS NULL AND (reason = '' OR NOT id = ANY($9)) ORDER BY id FOR SHARE)`}, query: `SELECT ` + fenced + `,
			1 / (count(*) = cardinality($2::uuid[]) AND cardinality($5::text[]) = (SELECT count(*) FROM unnest($5::text[], $6::int[]) AS d (name, version)
				WHERE (SELECT n.newest FROM document_names n WHERE n.kind = '` + journal.Definition + `' AND n.name = d.name AND NOT n.archived) = d.version)
				AND cardinality($8::uuid[]) = (SELECT count(*) FROM parents)
				AND cardinality($10::bigint[]) = (SELECT count(*) FROM dictionaries WHERE id = ANY($10)))::int
		FROM unnest($2::uuid[], $3::bigint[], $7::bigint[], $11::bool[]) AS a (id, before, last, near)
		WHERE (SELECT s.owner FROM sagas s WHERE s.id = a.id) = $1
		AND CASE WHEN a.before > 0 THEN ` + lastSeq + ` = a.before WHEN a.last > 0 THEN ` + lastSeq + ` <= a.last ELSE true END`,
		args: []any{node, sagas, before, fresh, names, versions, rows, parentIDs, withoutReason, dictionaries, inNear}, fails: map[string]error{codeBadSquareRoot: journal.ErrFenced, codeDivisionByZero: errContested}}
}

// lastInSpan and lastInAny are the seq of the last record of the journal of a, 0 if there is none.
// The second one is for a saga in any partition. It takes ten times as long.
const (
	lastInSpan = `coalesce((SELECT j.last FROM ` + spanName + ` j WHERE j.saga_id = a.id ORDER BY j.seq DESC LIMIT 1), 0)`
	lastInAny  = `coalesce((SELECT e.last FROM journal_end(a.id) e), 0)`
)

// newest returns the versions that must be the newest of their definitions, without duplicates.
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

// newRecords inserts the records, one row for each append.
func newRecords(_ string, batch []part) (stmt, error) {
	n := len(batch)
	saga, at, seq, last, data := make([]pgtype.UUID, 0, n), make([]int64, 0, n), make([]int32, 0, n), make([]int32, 0, n), make([][]byte, 0, n)
	for i := range batch {
		p := &batch[i]
		if len(p.Records) == 0 {
			continue
		}
		row := packed.Encode(p.Saga, p.Prev, p.Records, p.dictionary, p.node)
		saga, at = append(saga, id(p.Saga)), append(at, row.At.UnixMilli())
		seq, last, data = append(seq, int32(row.First)), append(last, int32(row.Last)), append(data, row.Value)
	}
	if len(saga) == 0 {
		return stmt{}, nil
	}
	return stmt{query: `INSERT INTO journal (saga_id, at, seq, last, data)
		SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::int[], $4::int[], $5::bytea[])`, args: []any{saga, at, seq, last, data}}, nil
}

// appliedMessages marks messages as applied. It runs before changedSagas, which reads the counter
// that it leaves on the locked row.
func appliedMessages(_ string, batch []part) (stmt, error) {
	var saga, message []pgtype.UUID
	for i := range batch {
		for _, m := range batch[i].Applied {
			saga, message = append(saga, id(batch[i].Saga)), append(message, id(m))
		}
	}
	if len(saga) == 0 {
		return stmt{}, nil
	}
	return stmt{with: []string{`newly_applied AS (
			UPDATE messages m SET applied = true, data = NULL FROM unnest($1::uuid[], $2::uuid[]) AS a (saga_id, id)
			WHERE m.saga_id = a.saga_id AND m.id = a.id AND NOT m.applied RETURNING m.saga_id
		)`, `applied_counts AS (SELECT saga_id, count(*)::int AS n FROM newly_applied GROUP BY saga_id)`},
		query: `UPDATE sagas s SET pending_messages = s.pending_messages - c.n FROM applied_counts c WHERE s.id = c.saga_id`, args: []any{saga, message}}, nil
}

// newInbox inserts the inbox entries; changedSagas has deleted those that they replace.
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
