package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"

	"recourse/journal"
	"recourse/journal/packed"
)

// pack adds the row of those records of an append that are not written yet, and writes its
// dictionaries if the file does not have them.
func (t *tx) pack(node string, a *journal.Append, fresh []journal.Record, w *wanted) error {
	if len(fresh) == 0 {
		return nil
	}
	like, stored := t.dictionaries.For(a.Alike)
	like, err := t.kept(like, stored, w)
	if err != nil {
		return err
	}
	name, stored := t.dictionaries.ForNode(node)
	if name, err = t.kept(name, stored, w); err != nil {
		return err
	}
	row := packed.Encode(a.Saga, a.PrevOf(fresh), fresh, like, name)
	w.args = append(w.args, a.Saga.Bytes(), row.First, row.Last, row.At.UnixMilli(), row.Value)
	return nil
}

// kept writes a dictionary unless it is stored, and returns it. It returns nil if the file has
// another text under its id.
func (t *tx) kept(d *packed.Dictionary, stored bool, w *wanted) (*packed.Dictionary, error) {
	text, wrote := w.dictionaries[d]
	if !stored && !wrote {
		_, err := t.exec(`INSERT INTO dictionaries (id, data) VALUES (?, ?) ON CONFLICT DO NOTHING`, int64(d.ID()), d.Text())
		if err == nil {
			err = t.row(dictionaryQuery, []any{int64(d.ID())}, &text)
		}
		if err != nil {
			return nil, err
		}
		if w.dictionaries == nil {
			w.dictionaries = make(map[*packed.Dictionary][]byte)
		}
		w.dictionaries[d], wrote = text, true
	}
	if wrote && !bytes.Equal(text, d.Text()) {
		return nil, nil
	}
	return d, nil
}

const dictionaryQuery = `SELECT data FROM dictionaries WHERE id = ?`

// find finds the dictionary of a row in a transaction.
func (t *tx) find(id uint32) (*packed.Dictionary, error) {
	return t.dictionaries.Find(id, func(id uint32) (text []byte, err error) {
		return text, missingDictionary(t.row(dictionaryQuery, []any{int64(id)}, &text))
	})
}

// find returns the function that finds dictionaries of rows.
func (s *Store) find(ctx context.Context) packed.Finder {
	return func(id uint32) (*packed.Dictionary, error) {
		return s.w.dictionaries.Find(id, func(id uint32) (text []byte, err error) {
			return text, missingDictionary(s.row(ctx, dictionaryQuery, int64(id))(&text))
		})
	}
}

func missingDictionary(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return packed.ErrNoDictionary
	}
	return err
}

const rowColumns = `seq, last, at, data`

// recordsQuery selects the rows that packed.Records needs for the records from one seq to another.
// The first argument is the saga twice.
const recordsQuery = `SELECT ` + rowColumns + ` FROM journal WHERE saga_id = ? AND seq >= coalesce((SELECT min(seq) FROM (SELECT seq FROM journal
	WHERE saga_id = ? AND seq <= ? ORDER BY seq DESC LIMIT 2)), 0) AND seq <= ? ORDER BY seq`

// scanRow scans these columns, after the given ones.
func scanRow(scan func(...any) error, before ...any) (r packed.Row, err error) {
	var at int64
	err = scan(append(before, &r.First, &r.Last, &at, &r.Value)...)
	r.At = toTime(at)
	return r, err
}

// packedRows returns the rows of one saga.
func packedRows(query func(each func(scan func(...any) error) error) error) (out []packed.Row, err error) {
	err = query(func(scan func(...any) error) error {
		r, err := scanRow(scan)
		out = append(out, r)
		return err
	})
	return out, err
}
