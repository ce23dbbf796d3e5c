package sqlite

import (
	"fmt"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// A statement for many rows costs less than many statements, but the driver's time for one grows
// with the square of its arguments.
const (
	snapshotRows = 32
	insertRows   = 4
	insertArgs   = 13 // of a record
)

// snapshot is what an append finds of its saga.
type snapshot struct {
	exists   bool
	owned    bool // by the node that appends
	inbox    bool // it has entries
	expires  bool // it has a time to be deleted at
	claims   int64
	messages int64 // messages not yet folded in
	last     int64 // the last record's seq
	labels   string
}

var snapshotOne, snapshotMany = snapshotQuery(1), snapshotQuery(snapshotRows)

func snapshotQuery(n int) string {
	var b strings.Builder
	b.WriteString(`WITH wanted (i, id) AS (VALUES `)
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "(%d, ?)", i)
	}
	b.WriteString(`) SELECT i, owner IS ?, EXISTS (SELECT 1 FROM inbox WHERE saga_id = s.id), delete_at IS NOT NULL, claims, pending_messages,
		coalesce((SELECT max(seq) FROM journal WHERE saga_id = s.id), 0), labels FROM wanted CROSS JOIN sagas s ON s.id = wanted.id`)
	return b.String()
}

// snapshot looks at the saga of each append.
func (t *tx) snapshot(node string, batch []journal.Append) ([]snapshot, error) {
	out := make([]snapshot, len(batch))
	for from := 0; from < len(batch); from += snapshotRows {
		part := batch[from:min(from+snapshotRows, len(batch))]
		query, n := snapshotOne, 1
		if len(part) > 1 {
			query, n = snapshotMany, snapshotRows
		}
		args := make([]any, n+1) // a place that is not taken stays NULL, which no id is
		for i := range part {
			args[i] = part[i].Saga.Bytes()
		}
		args[n] = node
		err := t.query(query, args, func(scan func(...any) error) error {
			var i int
			st := snapshot{exists: true}
			err := scan(&i, &st.owned, &st.inbox, &st.expires, &st.claims, &st.messages, &st.last, &st.labels)
			if err == nil {
				out[from+i] = st
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// wanted are records that are to be inserted, as arguments, and messages to be posted behind them.
type wanted struct {
	args []any
	post []journal.Message
}

func (w *wanted) add(saga uuid.UUID, records []journal.Record) {
	id := any(saga.Bytes())
	for i := range records {
		r := &records[i]
		w.args = append(w.args, id, r.Seq, r.At.UnixMilli(), string(r.Kind), r.Path, string(r.Way),
			r.Attempt, r.Generation, r.Key, string(r.Class), r.Node, blob(r.Data), r.Hash)
	}
}

var insertOne, insertMany = insertQuery(1), insertQuery(insertRows)

// insertQuery says OR FAIL as an error rolls everything back: SQLite would keep a copy of each page
// to take back the one statement.
func insertQuery(n int) string {
	row := "(" + strings.Repeat(", ?", insertArgs)[2:] + ")"
	return `INSERT OR FAIL INTO journal (saga_id, seq, at, kind, path, way, attempt, generation, key, class, node, data, hash) VALUES ` +
		strings.Repeat(", "+row, n)[2:]
}

// insert inserts them in order.
func (t *tx) insert(w *wanted) error {
	for args := w.args; len(args) > 0; {
		query, n := insertMany, insertRows*insertArgs
		if len(args) < n {
			query, n = insertOne, insertArgs
		}
		if _, err := t.exec(query, args[:n]...); err != nil {
			return err
		}
		args = args[n:]
	}
	return nil
}
