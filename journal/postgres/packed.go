package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"recourse/journal/packed"
)

// dictionariesFor sets the dictionaries of each part, writes those that the database does not have,
// and returns the ids of all of them: ownershipGuard checks that the database still has them.
func (s *Store) dictionariesFor(ctx context.Context, node string, batch []part) ([]int64, error) {
	ids := []int64{} // not NULL
	if !slices.ContainsFunc(batch, func(p part) bool { return len(p.Records) > 0 }) {
		return ids, nil
	}
	kept := func(get func() (*packed.Dictionary, bool)) (*packed.Dictionary, error) {
		d, stored := get()
		if !stored {
			if err := s.putDictionary(ctx, d); err != nil {
				return nil, err
			}
			d, _ = get()
		}
		if d != nil && !slices.Contains(ids, int64(d.ID())) {
			ids = append(ids, int64(d.ID()))
		}
		return d, nil
	}
	name, err := kept(func() (*packed.Dictionary, bool) { return s.dictionaries.ForNode(node) })
	if err != nil {
		return nil, err
	}
	for i := range batch {
		p := &batch[i]
		if len(p.Records) == 0 {
			continue
		}
		p.node = name
		if p.dictionary, err = kept(func() (*packed.Dictionary, bool) { return s.dictionaries.For(p.Alike) }); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// putDictionary writes a dictionary, or reads the one with its id. It writes nothing if there is
// one, because all nodes do this again after each contested batch.
func (s *Store) putDictionary(ctx context.Context, d *packed.Dictionary) error {
	return retry(ctx, func() error {
		return s.w.writing(ctx, func(conn connection) error {
			var text []byte
			b := &pgx.Batch{}
			b.Queue(`INSERT INTO dictionaries (id, data) VALUES ($1, $2) ON CONFLICT DO NOTHING`, int64(d.ID()), d.Text())
			b.Queue(`SELECT data FROM dictionaries WHERE id = $1`, int64(d.ID())).QueryRow(func(r pgx.Row) error { return r.Scan(&text) })
			if err := conn.SendBatch(ctx, b).Close(); err != nil {
				return err
			}
			s.dictionaries.Stored(d, text)
			return nil
		})
	})
}

// find returns the function that finds dictionaries of rows. It must not be called while a
// connection is in use, because it may need one.
func (s *Store) find(ctx context.Context) packed.Finder {
	load := func(id uint32) (text []byte, err error) {
		err = s.pool.QueryRow(ctx, `SELECT data FROM dictionaries WHERE id = $1`, int64(id)).Scan(&text)
		if errors.Is(err, pgx.ErrNoRows) {
			err = packed.ErrNoDictionary
		}
		return text, err
	}
	return func(id uint32) (*packed.Dictionary, error) { return s.dictionaries.Find(id, load) }
}

const rowColumns = `saga_id, seq, last, at, data`

// scanRow scans these columns.
func scanRow(rows pgx.Rows) (saga uuid.UUID, r packed.Row, err error) {
	var u pgtype.UUID
	var at int64
	err = rows.Scan(&u, &r.First, &r.Last, &at, &r.Value)
	r.At = toTime(at)
	return u.Bytes, r, err
}

// rowsFrom is the condition for the rows of a journal j that packed.Records needs for the records
// after a seq. Both are SQL expressions. The last argument is a further condition, or empty, for
// the rows b of the saga; it shows the planner in which partitions they are.
func rowsFrom(saga, after, within string) string {
	return `j.saga_id = ` + saga + ` AND j.seq >= coalesce((SELECT min(seq) FROM (SELECT b.seq FROM journal b
		WHERE b.saga_id = ` + saga + ` AND b.seq <= ` + after + within + ` ORDER BY b.seq DESC LIMIT 2) b), 0)`
}

// collectRows collects the rows of a query, which is in the order of sagas and seqs, until they
// surely have more bytes of data than allowed.
func collectRows(rows pgx.Rows, bytes int) (*packed.Collection, error) {
	defer rows.Close()
	out := packed.NewCollection(bytes)
	for rows.Next() {
		saga, r, err := scanRow(rows)
		if err != nil {
			return nil, err
		}
		if !out.Add(saga, r) {
			return out, nil
		}
	}
	return out, rows.Err()
}
