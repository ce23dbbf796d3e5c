package postgres

import (
	"bytes"
	"context"
	"math"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"recourse/journal"
	"recourse/journal/packed"
)

// snapshot is the state of the database, at one moment, that a batch depends on.
type snapshot struct {
	fenced  bool
	sagas   map[uuid.UUID]snapshotSaga
	written *packed.Collection // the rows that may have records of the batch
	hashes  map[uuid.UUID]map[int64][]byte
	keys    map[string]uuid.UUID
	uniques map[[2]string]uuid.UUID // definition, value → the live saga
	newest  map[string]int          // definition that is not archived → version
	parents map[uuid.UUID]string    // live parent of a start → its reason
}

type snapshotSaga struct {
	owner string
	last  int64
}

// reconcile sets the results of the appends that the database's state decides, and returns the
// others: ready are those to write next, without the records that are written already; later are
// those that depend on an earlier append of the batch.
func (s *Store) reconcile(ctx context.Context, node string, batch []part, out []journal.Result) (ready, later []part, err error) {
	have, err := s.snapshot(ctx, node, batch)
	if err != nil {
		return nil, nil, err
	}
	if have.fenced {
		return nil, nil, journal.ErrFenced
	}
	if err := s.clearDeferred(ctx, have, batch); err != nil {
		return nil, nil, err
	}
	claimed := map[[2]string]bool{} // keys and unique values of the starts so far
	ending := map[uuid.UUID]bool{}  // sagas that appends in ready end
	bounded := map[uuid.UUID]bool{} // sagas that earlier appends of the batch start or end
	for _, p := range batch {
		out[p.at] = journal.Result{} // an earlier attempt may have refused what is possible now
		saga, exists := have.sagas[p.Saga]
		if exists {
			res, missing, settled := have.follow(node, saga, &p)
			if settled {
				out[p.at] = res
				continue
			}
			p.Start, p.Prev, p.Records = nil, p.PrevOf(missing), missing
		} else {
			res, wait, settled := have.start(&p, claimed, ending, bounded)
			if settled {
				out[p.at] = res
				continue
			}
			claimed[[2]string{"key", clean(p.Start.Key)}] = p.Start.Key != ""
			if p.TakesUnique() {
				claimed[unique(p.Start)] = true
			}
			if wait {
				bounded[p.Saga] = true
				later = append(later, p)
				continue
			}
		}
		bounded[p.Saga] = p.bounds()
		ending[p.Saga] = p.Row != nil && !p.Row.EndedAt.IsZero()
		ready = append(ready, p)
	}
	handOver(ready, later)
	return ready, later, nil
}

func unique(st *journal.Start) [2]string { return [2]string{"=" + st.Definition, clean(st.Unique)} }

// follow decides an append to a saga that exists, or returns the records that are missing.
func (h *snapshot) follow(node string, saga snapshotSaga, p *part) (res journal.Result, missing []journal.Record, settled bool) {
	conflict := journal.Result{Err: journal.ErrConflict}
	next := saga.last + 1
	for i, r := range p.Records {
		switch {
		case r.Seq < 1, i > 0 && r.Seq != p.Records[i-1].Seq+1, r.Seq > next:
			return conflict, nil, true
		case r.Seq <= saga.last:
			if !bytes.Equal(h.hashes[p.Saga][r.Seq], r.Hash) {
				return conflict, nil, true
			}
		default:
			missing = append(missing, r)
			next++
		}
	}
	switch {
	case len(missing) == 0 && (len(p.Records) > 0 || p.Start != nil):
		return journal.Result{}, nil, true // a repetition: everything in it is written already
	case p.Stale(saga.last):
		return journal.Result{}, nil, true // a late repetition: the saga has continued since
	case saga.owner != node && len(p.Records) == 0 && p.Release:
		return journal.Result{}, nil, true // released already
	case saga.owner != node:
		return conflict, nil, true
	}
	return res, missing, false
}

// start decides an append to a saga that does not exist. It has to wait if an earlier append of the
// batch, which is not written yet, would take or free a key or value that it needs, or starts or
// ends its parent.
func (h *snapshot) start(p *part, claimed map[[2]string]bool, ending, bounded map[uuid.UUID]bool) (res journal.Result, wait, settled bool) {
	for i, r := range p.Records {
		if r.Seq != int64(i)+1 {
			return journal.Result{Err: journal.ErrConflict}, false, true
		}
	}
	st := p.Start
	if st == nil {
		return journal.Result{Err: journal.ErrConflict}, false, true
	}
	if st.Key != "" {
		if holder, taken := h.keys[clean(st.Key)]; taken {
			return journal.Result{Err: journal.ErrStartKey, Saga: holder}, false, true
		}
		if claimed[[2]string{"key", clean(st.Key)}] {
			return res, true, false
		}
	}
	if p.TakesUnique() {
		if claimed[unique(st)] {
			return res, true, false
		}
		if holder, taken := h.uniques[unique(st)]; taken {
			if ending[holder] {
				return res, true, false
			}
			return journal.Result{Err: journal.ErrUnique, Saga: holder}, false, true
		}
	}
	if st.Newest && h.newest[st.Definition] != st.Version {
		return journal.Result{Err: journal.ErrNotNewest}, false, true
	}
	if !st.Parent.IsNil() && bounded[st.Parent] {
		return res, true, false
	}
	if reason, live := h.parents[st.Parent]; !st.Parent.IsNil() && (!live || reason != "" && !st.Final) {
		return journal.Result{Err: journal.ErrParentEnded}, false, true
	}
	return res, false, false
}

// snapshot reads the state in one snapshot and one round trip.
func (s *Store) snapshot(ctx context.Context, node string, batch []part) (have *snapshot, err error) {
	err = retry(ctx, func() error {
		have, err = s.readSnapshot(ctx, node, batch)
		return err
	})
	if err == nil {
		err = have.readHashes(s.find(ctx))
	}
	return have, err
}

func (s *Store) readSnapshot(ctx context.Context, node string, batch []part) (*snapshot, error) {
	var sagas []pgtype.UUID
	var lo, hi []int64
	var keys, definitions, uniques []string
	for i := range batch {
		p := &batch[i]
		sagas = append(sagas, id(p.Saga))
		if n := len(p.Records); n > 0 {
			lo, hi = append(lo, p.Records[0].Seq), append(hi, p.Records[n-1].Seq)
		} else {
			lo, hi = append(lo, 1), append(hi, 0)
		}
		if p.Start != nil {
			keys, definitions, uniques = append(keys, clean(p.Start.Key)), append(definitions, p.Start.Definition), append(uniques, clean(p.Start.Unique))
		}
	}
	h := &snapshot{fenced: true, sagas: map[uuid.UUID]snapshotSaga{}, hashes: map[uuid.UUID]map[int64][]byte{},
		keys: map[string]uuid.UUID{}, uniques: map[[2]string]uuid.UUID{}, newest: map[string]int{}, parents: map[uuid.UUID]string{}}
	b := &pgx.Batch{}
	b.Queue(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`)
	b.Queue(planEach)
	b.Queue(`SELECT NOT EXISTS (SELECT 1 FROM nodes WHERE id = $1)`, node).QueryRow(func(r pgx.Row) error { return r.Scan(&h.fenced) })
	b.Queue(`SELECT id, coalesce(owner, ''), coalesce((SELECT e.last FROM journal_end(sagas.id) e), 0) FROM sagas WHERE id = ANY($1)`,
		sagas).Query(func(rows pgx.Rows) error {
		var u pgtype.UUID
		var saga snapshotSaga
		_, err := pgx.ForEachRow(rows, []any{&u, &saga.owner, &saga.last}, func() error {
			h.sagas[u.Bytes] = saga
			return nil
		})
		return err
	})
	b.Queue(writtenQuery, sagas, lo, hi).Query(func(rows pgx.Rows) (err error) {
		h.written, err = collectRows(rows, math.MaxInt)
		return err
	})
	b.Queue(`SELECT start_key, id FROM sagas WHERE start_key = ANY($1)`, keys).Query(func(rows pgx.Rows) error {
		var key string
		var u pgtype.UUID
		_, err := pgx.ForEachRow(rows, []any{&key, &u}, func() error {
			h.keys[key] = u.Bytes
			return nil
		})
		return err
	})
	b.Queue(`SELECT s.definition, s.unique_value, s.id FROM unnest($1::text[], $2::text[]) AS a (definition, value)
		JOIN sagas s ON s.definition = a.definition AND s.unique_value = a.value AND s.ended_at IS NULL`, definitions, uniques).Query(func(rows pgx.Rows) error {
		var definition, value string
		var u pgtype.UUID
		_, err := pgx.ForEachRow(rows, []any{&definition, &value, &u}, func() error {
			h.uniques[[2]string{"=" + definition, value}] = u.Bytes
			return nil
		})
		return err
	})
	b.Queue(`SELECT name, newest FROM document_names WHERE kind = $1 AND name = ANY($2) AND NOT archived`, journal.Definition, definitions).Query(func(rows pgx.Rows) error {
		var name string
		var version int
		_, err := pgx.ForEachRow(rows, []any{&name, &version}, func() error {
			h.newest[name] = version
			return nil
		})
		return err
	})
	born, _ := parents(batch)
	b.Queue(`SELECT id, reason FROM sagas WHERE id = ANY($1) AND ended_at IS NULL`, born).Query(func(rows pgx.Rows) error {
		var u pgtype.UUID
		var reason string
		_, err := pgx.ForEachRow(rows, []any{&u, &reason}, func() error {
			h.parents[u.Bytes] = reason
			return nil
		})
		return err
	})
	b.Queue(`COMMIT`)
	conn, err := s.w.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.release()
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		rollback(ctx, conn)
		return nil, err
	}
	return h, nil
}

// writtenQuery selects the rows that have the records from lo to hi of sagas, and the rows that
// packed.Records needs before them.
var writtenQuery = `SELECT ` + rowColumns + ` FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS a (id, lo, hi)
	JOIN journal j ON ` + rowsFrom(`a.id`, `a.lo`, ` AND b.saga_id = ANY($1)`) + ` AND j.seq <= a.hi AND j.saga_id = ANY($1) ORDER BY j.saga_id, j.seq`

// readHashes sets the hashes of the records in the rows.
func (h *snapshot) readHashes(find packed.Finder) error {
	for saga := range h.sagas {
		rows := h.written.Of(saga)
		if len(rows) == 0 {
			continue
		}
		after := int64(0)
		if rows[0].First > 1 {
			after = rows[0].Last
		}
		records, err := packed.Records(saga, rows, after, math.MaxInt, find)
		if err != nil {
			return err
		}
		h.hashes[saga] = make(map[int64][]byte, len(records))
		for i := range records {
			h.hashes[saga][records[i].Seq] = records[i].Hash
		}
	}
	return nil
}
