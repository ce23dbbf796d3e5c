package sqlite

import (
	"fmt"
	"strings"

	"recourse/journal"
	"recourse/journal/packed"
)

// One statement for many rows costs less than many statements, but the driver's time for a
// statement grows with the square of the number of its arguments.
const (
	snapshotRows = 32
	insertRows   = 4
	insertArgs   = 5 // arguments of one row of the journal
)

// snapshot is the state of a saga before an append.
type snapshot struct {
	exists   bool
	owned    bool // by the appending node
	inbox    bool // it has inbox entries
	expires  bool // delete_at is not NULL
	claims   int64
	messages int64 // messages that are not applied yet
	last     int64 // seq of the last record
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
		coalesce((SELECT last FROM journal WHERE saga_id = s.id ORDER BY seq DESC LIMIT 1), 0), labels FROM wanted CROSS JOIN sagas s ON s.id = wanted.id`)
	return b.String()
}

// snapshot reads the saga of each append.
func (t *tx) snapshot(node string, batch []journal.Append) ([]snapshot, error) {
	out := make([]snapshot, len(batch))
	for from := 0; from < len(batch); from += snapshotRows {
		part := batch[from:min(from+snapshotRows, len(batch))]
		query, n := snapshotOne, 1
		if len(part) > 1 {
			query, n = snapshotMany, snapshotRows
		}
		args := make([]any, n+1) // unused arguments stay NULL, which equals no id
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

// wanted are the arguments of the rows of the journal to insert, and the messages to send after
// them.
type wanted struct {
	args         []any
	messages     []journal.Message
	dictionaries map[*packed.Dictionary][]byte // those that the batch writes, and what the file then has
}

var insertOne, insertMany = insertQuery(1), insertQuery(insertRows)

// insertQuery returns the statement that inserts n rows. It says OR FAIL because an error rolls
// the whole transaction back: otherwise SQLite would copy each page to be able to undo this one
// statement.
func insertQuery(n int) string {
	row := "(" + strings.Repeat(", ?", insertArgs)[2:] + ")"
	return `INSERT OR FAIL INTO journal (saga_id, seq, last, at, data) VALUES ` +
		strings.Repeat(", "+row, n)[2:]
}

// insert inserts the rows in order.
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
