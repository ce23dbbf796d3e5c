package postgres

import (
	"errors"
	"testing"

	"recourse/journal"
)

// A start that was refused in one attempt is not refused if another attempt can write it: the saga
// that had its unique value may have ended meanwhile.
func TestReconcileForgetsEarlierResults(t *testing.T) {
	b := newSpanBench(t)
	holder, start := starting(b.at(b.now())), starting(b.at(b.now()))
	holder.Start.Unique, start.Start.Unique = "u", "u"
	b.append(holder)
	batch := []part{{Append: start}}
	out := make([]journal.Result, 1)
	ready, _, err := b.reconcile(b.Context(), spanNode, batch, out)
	b.must(err)
	if !errors.Is(out[0].Err, journal.ErrUnique) || len(ready) > 0 {
		t.Fatalf("while the other saga lives: %+v, %d appends to write", out[0], len(ready))
	}
	b.ended(holder)
	ready, _, err = b.reconcile(b.Context(), spanNode, batch, out)
	b.must(err)
	if out[0].Err != nil || !out[0].Saga.IsNil() || len(ready) != 1 || ready[0].Saga != start.Saga {
		t.Errorf("once the other saga has ended: %+v, %d appends to write", out[0], len(ready))
	}
}

// A batch that has to be reconciled does not make the store write its dictionaries again.
func TestDictionariesAreWrittenOnce(t *testing.T) {
	b := newSpanBench(t)
	start := func(key string) journal.Append {
		a := starting(b.at(b.now()))
		a.Start.Key = key
		a.Alike = &journal.Alike{Name: "d@1", Records: func() []journal.Record { return a.Records }}
		return a
	}
	b.append(start("key"))
	const written = `SELECT string_agg(id || ' in ' || xmin, ', ' ORDER BY id) FROM dictionaries`
	var before, after string
	b.must(b.conn.QueryRow(b.Context(), written).Scan(&before))
	out, err := b.Append(b.Context(), spanNode, []journal.Append{start("key")})
	b.must(err)
	if !errors.Is(out[0].Err, journal.ErrStartKey) {
		t.Fatalf("a start with the same key: %+v", out[0])
	}
	b.append(start("another"))
	b.must(b.conn.QueryRow(b.Context(), written).Scan(&after))
	if before == "" || after != before {
		t.Errorf("the dictionaries were written by the transactions %s, and then by %s", before, after)
	}
}
