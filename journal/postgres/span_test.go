package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"

	"recourse/internal/test/pgserver"
	"recourse/journal"
)

// spanNode is as long as a real node's name, so it has a dictionary.
const spanNode = "span-bench-018f0000000070008000000000000001"

// spanBench is a store with a registered node, and a connection to its database.
type spanBench struct {
	*testing.T
	*Store
	dsn  string
	conn *pgx.Conn
	n    byte // sagas so far
}

func newSpanBench(t *testing.T) *spanBench {
	t.Helper()
	b := &spanBench{T: t, dsn: pgserver.DSN(t)}
	b.Store = b.another()
	var err error
	b.conn, err = pgx.Connect(t.Context(), b.dsn)
	b.must(err)
	t.Cleanup(func() { b.conn.Close(context.WithoutCancel(t.Context())) })
	_, err = b.Register(t.Context(), spanNode, time.Hour)
	b.must(err)
	return b
}

// another opens the database as another process does.
func (b *spanBench) another() *Store {
	b.Helper()
	s, err := Open(b.Context(), b.dsn, Options{Migrate: true})
	b.must(err)
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func (b *spanBench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *spanBench) exec(query string, args ...any) {
	b.Helper()
	_, err := b.conn.Exec(b.Context(), query, args...)
	b.must(err)
}

func (b *spanBench) count(query string, args ...any) (n int) {
	b.Helper()
	b.must(b.conn.QueryRow(b.Context(), query, args...).Scan(&n))
	return n
}

// now returns the database's clock.
func (b *spanBench) now() time.Time {
	b.Helper()
	return toTime(int64(b.count(`SELECT ` + nowMS)))
}

// past returns the span of a day whose sagas may be deleted, and creates its partition.
func (b *spanBench) past() *span {
	b.Helper()
	p := spanAt(b.now().Add(-72 * time.Hour))
	b.must(b.makeSpan(b.Context(), &p))
	_, err := b.readSpans(b.Context())
	b.must(err)
	return &p
}

// deleted returns the span of such a day, whose only saga was deleted.
func (b *spanBench) deleted() *span {
	b.Helper()
	p := b.past()
	b.expired(b.idIn(p))
	b.deletes(1)
	return p
}

// idIn returns a new id of a span.
func (b *spanBench) idIn(p *span) uuid.UUID {
	b.n++
	u := p.first
	u[6], u[8], u[15] = 0x70, 0x80, b.n
	return u
}

func (b *spanBench) at(at time.Time) uuid.UUID {
	b.n++
	u := journal.FirstID(at)
	u[6], u[8], u[15] = 0x70, 0x80, b.n
	return u
}

func (b *spanBench) append(a journal.Append) {
	b.Helper()
	out, err := b.Append(b.Context(), spanNode, []journal.Append{a})
	b.must(err)
	b.must(out[0].Err)
}

// started starts a saga, and returns what it has appended.
func (b *spanBench) started(saga uuid.UUID) journal.Append {
	b.Helper()
	a := starting(saga)
	b.append(a)
	return a
}

// starting returns an append that starts a saga.
func starting(saga uuid.UUID) journal.Append {
	r := journal.Record{Seq: 1, At: time.UnixMilli(1).UTC(), Kind: journal.Started, Node: spanNode, Data: []byte(`{}`)}
	journal.Seal(saga, nil, &r)
	return journal.Append{Saga: saga, Start: &journal.Start{Definition: "d", Version: 1, SHA256: strings.Repeat("00", 32)},
		Records: []journal.Record{r}, Row: &journal.Row{Status: "running", Seq: 1}}
}

// goOn appends one record to a saga.
func (b *spanBench) goOn(a journal.Append, row *journal.Row) journal.Append {
	b.Helper()
	last := a.Records[len(a.Records)-1]
	r := journal.Record{Seq: last.Seq + 1, At: last.At, Kind: journal.Woke, Node: spanNode, Data: []byte(`{}`)}
	journal.Seal(a.Saga, last.Hash, &r)
	next := journal.Append{Saga: a.Saga, Records: []journal.Record{r}, Row: row, Release: row != nil}
	b.append(next)
	return next
}

// expired starts a saga and ends it, so that it may be deleted.
func (b *spanBench) expired(saga uuid.UUID) {
	b.Helper()
	b.ended(b.started(saga))
}

func (b *spanBench) ended(a journal.Append) {
	b.Helper()
	b.goOn(a, &journal.Row{Status: "succeeded", Seq: a.Records[0].Seq + 1, EndedAt: time.UnixMilli(1), DeleteAt: time.UnixMilli(2)})
}

func (b *spanBench) deletes(n int) {
	b.Helper()
	if got, err := b.DeleteExpired(b.Context(), 100); err != nil || got != n {
		b.Fatalf("%d deleted, %v; want %d", got, err, n)
	}
}

// rows counts the rows of a partition; -1: it does not exist.
func (b *spanBench) rows(partition string) int {
	b.Helper()
	if b.count(`SELECT count(to_regclass($1))`, partition) == 0 {
		return -1
	}
	return b.count(`SELECT count(*) FROM ` + partition)
}

func (b *spanBench) wantRows(partition string, want int) {
	b.Helper()
	if got := b.rows(partition); got != want {
		b.Errorf("%s has %d rows, want %d", partition, got, want)
	}
}

func (b *spanBench) wantRecords(saga uuid.UUID, want int) {
	b.Helper()
	list, err := b.Records(b.Context(), saga, 0, 10)
	if want == 0 && !errors.Is(err, journal.ErrNotFound) || want > 0 && err != nil || len(list) != want {
		b.Errorf("%d records, %v; want %d", len(list), err, want)
	}
	begins, err := b.Begins(b.Context(), []uuid.UUID{saga}, 10, 1<<20)
	if err != nil || len(begins[saga]) != want {
		b.Errorf("it begins with %d records, %v; want %d", len(begins[saga]), err, want)
	}
}

func (b *spanBench) wantOrphans(want ...uuid.UUID) {
	b.Helper()
	if list, err := b.Orphans(b.Context(), 10); err != nil || fmt.Sprint(list) != fmt.Sprint(want) {
		b.Errorf("orphans: %v, %v; want %v", list, err, want)
	}
}

func (b *spanBench) reclaim() {
	b.Helper()
	b.must(b.Reclaim(b.Context()))
}

// A start goes to the partition of its day, or to the default one.
func TestSpanOfStarts(t *testing.T) {
	b := newSpanBench(t)
	now := b.now()
	for i := range spansAhead + 1 {
		p := spanAt(now.Add(time.Duration(i) * spanLength))
		first := b.idIn(&p)
		last := b.at(p.end.Add(-time.Millisecond))
		for n, saga := range []uuid.UUID{first, last} {
			a := b.started(saga)
			b.wantRows(p.name, 2*n+1)
			b.goOn(a, nil)
			b.wantRows(p.name, 2*n+2)
			b.wantRecords(saga, 2)
		}
	}
	odd := []uuid.UUID{{15: 1}, {0: 0xff, 15: 1}, b.at(now.Add(-90 * spanLength)), b.at(now.Add(90 * spanLength)), uuid.Must(uuid.NewV4())}
	for _, saga := range odd {
		b.goOn(b.started(saga), nil)
		b.wantRecords(saga, 2)
	}
	b.wantRows(defaultSpan, 2*len(odd))
	b.wantOrphans()
}

// A start and an append succeed without a partition, whether the store knows that or not. A
// partition is not created if the default one has rows of its day.
func TestMissingSpans(t *testing.T) {
	b := newSpanBench(t)
	today, tomorrow := spanAt(b.now()), spanAt(b.now().Add(spanLength))
	old := b.started(b.idIn(&today))
	b.exec(`DROP TABLE ` + tomorrow.name)
	b.exec(`ALTER TABLE journal DETACH PARTITION ` + today.name)
	b.exec(`INSERT INTO journal SELECT * FROM ` + today.name)
	b.exec(`DROP TABLE ` + today.name)
	old = b.goOn(old, nil)
	b.goOn(b.started(b.idIn(&today)), nil)
	b.wantRows(defaultSpan, 4)
	for range 2 {
		b.reclaim()
		b.wantRows(today.name, -1)
		b.wantRows(tomorrow.name, 0)
	}
	b.goOn(old, nil)
	b.wantRecords(old.Saga, 3)
	b.expired(b.idIn(&today))
	b.deletes(1)
	b.wantRows(defaultSpan, 5)
	// Rows that were never committed do not prevent the partition.
	p := spanAt(b.now().Add(10 * spanLength))
	tx, err := b.conn.Begin(t.Context())
	b.must(err)
	_, err = tx.Exec(t.Context(), `INSERT INTO journal VALUES ($1, 1, 1, 1, '')`, id(b.idIn(&p)))
	b.must(err)
	if err := b.makeSpan(t.Context(), &p); !errors.Is(err, errBusy) {
		t.Errorf("while a row of the day is being written: %v", err)
	}
	b.must(tx.Rollback(t.Context()))
	b.must(b.makeSpan(t.Context(), &p))
	b.wantRows(p.name, 0)
}

// The journals of the sagas of a day are dropped, and are not seen before that.
func TestDropsSpan(t *testing.T) {
	b := newSpanBench(t)
	p := b.past()
	one, two, three := b.idIn(p), b.idIn(p), b.idIn(p)
	b.expired(one)
	b.expired(two)
	b.expired(three)
	if got, err := b.DeleteCopied(t.Context(), []journal.Copied{{Saga: one, Seq: 2}}); err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	b.must(b.Delete(t.Context(), two))
	b.wantRows(p.name, 4) // Delete does not leave anything for later
	b.deletes(1)
	for _, saga := range []uuid.UUID{one, two, three} {
		b.wantRecords(saga, 0)
	}
	b.wantOrphans()
	b.must(b.another().Reclaim(t.Context())) // the process that has deleted them may be gone
	b.wantRows(p.name, -1)
	b.wantRows("deferred_deletes", 0)
	b.reclaim()
	b.wantRows(p.name, -1)
	late := b.started(b.idIn(p)) // this store has known the partition
	b.goOn(late, nil)
	b.wantRows(defaultSpan, 2)
	b.ended(b.goOn(late, nil))
	b.deletes(1)
	b.wantRows(defaultSpan, 0)
}

// A store behind a pooler, which has no settings and no prepared statements, does the same.
func TestDropsSpanPooled(t *testing.T) {
	b := newSpanBench(t)
	p := b.past()
	b.expired(b.idIn(p))
	s, err := Open(t.Context(), b.dsn+"&default_query_exec_mode=exec", Options{Migrate: true})
	b.must(err)
	defer s.Close()
	if n, err := s.DeleteExpired(t.Context(), 10); err != nil || n != 1 {
		t.Fatalf("%d deleted, %v", n, err)
	}
	b.wantRows(p.name, 2)
	b.exec(`DROP TABLE ` + spanAt(b.now().Add(spanLength)).name)
	b.must(s.Reclaim(t.Context()))
	b.wantRows(p.name, -1)
	b.wantRows(spanAt(b.now().Add(spanLength)).name, 0)
}

// A saga that stays does not keep the journals of others for long.
func TestLongSagaKeepsNoSpan(t *testing.T) {
	b := newSpanBench(t)
	p := b.past()
	long := b.started(b.idIn(p))
	b.expired(b.idIn(p))
	b.deletes(1)
	b.reclaim()
	b.wantRows(p.name, 3) // it may be dropped soon
	b.exec(`UPDATE deferred_deletes SET deleted_at = deleted_at - $1`, deferFor.Milliseconds())
	b.reclaim()
	b.wantRows(p.name, 1)
	b.wantRows("deferred_deletes", 0)
	b.wantRecords(long.Saga, 1)
	b.ended(long)
	b.deletes(1)
	b.reclaim()
	b.wantRows(p.name, -1)
}

// Sagas that are deleted on their first day leave nothing for later: the day's partition is kept.
func TestDeletesOnTheSameDay(t *testing.T) {
	b := newSpanBench(t)
	p := spanAt(b.now())
	b.expired(b.idIn(&p))
	b.deletes(1)
	b.wantRows(p.name, 0)
	b.reclaim()
	b.wantRows(p.name, 0)
}

// A saga may start again under the id of a deleted one, whose journal is still there.
func TestDeletedIDStartsAgain(t *testing.T) {
	b := newSpanBench(t)
	p := b.past()
	saga := b.idIn(p)
	b.expired(saga)
	b.deletes(1)
	b.wantRows(p.name, 2)
	again := b.started(saga)
	b.wantRows(p.name, 1)
	b.wantRecords(saga, 1)
	b.exec(`UPDATE deferred_deletes SET deleted_at = deleted_at - $1`, deferFor.Milliseconds())
	b.reclaim()
	b.wantRecords(saga, 1)
	b.ended(again)
	b.wantRecords(saga, 2)
	b.exec(`DELETE FROM sagas WHERE id = $1`, saga)
	b.wantOrphans(saga) // it was not deleted, but has lost its row
}

// Journals that waited for long are deleted a few at a time, whatever their number.
func TestDeferredInParts(t *testing.T) {
	b := newSpanBench(t)
	p := b.past()
	b.started(b.idIn(p))
	b.expired(b.idIn(p))
	b.deletes(1)
	b.exec(`UPDATE deferred_deletes SET deleted_at = deleted_at - $1, sagas = ARRAY(SELECT gen_random_uuid() FROM generate_series(1, 250)) || sagas`, deferFor.Milliseconds())
	b.reclaim()
	b.wantRows(p.name, 1)
	b.wantRows("deferred_deletes", 0)
}

// A start names no partition, so it does not wait for one that changes.
func TestStartWaitsForNoSpan(t *testing.T) {
	b := newSpanBench(t)
	tx, err := b.conn.Begin(t.Context())
	b.must(err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `LOCK TABLE `+defaultSpan+` IN ACCESS EXCLUSIVE MODE`)
	b.must(err)
	today := spanAt(time.Now())
	begun := time.Now()
	b.started(b.idIn(&today))
	if took := time.Since(begun); took > 8*time.Second { // less than lock_timeout
		t.Errorf("it took %v", took)
	}
}

// A journal whose saga has lost its row without a deletion is not dropped, nor deleted.
func TestKeepsOrphans(t *testing.T) {
	b := newSpanBench(t)
	p := b.past()
	orphan := b.idIn(p)
	b.expired(orphan)
	b.expired(b.idIn(p))
	b.exec(`DELETE FROM sagas WHERE id = $1`, id(orphan))
	b.deletes(1)
	b.wantOrphans(orphan)
	b.reclaim()
	b.wantRows(p.name, 4)
	b.exec(`UPDATE deferred_deletes SET deleted_at = deleted_at - $1`, deferFor.Milliseconds())
	b.reclaim()
	b.wantRows(p.name, 2)
	b.wantOrphans(orphan)
}

// A partition that somebody reads is dropped later. Meanwhile nobody waits for the drop.
func TestDropDoesNotWait(t *testing.T) {
	b := newSpanBench(t)
	p := b.deleted()
	tx, err := b.conn.Begin(t.Context())
	b.must(err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE journal IN ACCESS SHARE MODE`)
	b.must(err)
	begun := time.Now()
	b.reclaim()
	today := spanAt(b.now())
	b.goOn(b.started(b.idIn(&today)), nil)
	if took := time.Since(begun); took > 5*time.Second { // of lock_timeout and statement_timeout
		t.Errorf("it took %v", took)
	}
	b.must(tx.Rollback(t.Context()))
	b.wantRows(p.name, 2)
	b.reclaim() // too early
	b.wantRows(p.name, 2)
	b.drops.Clear()
	b.reclaim()
	b.wantRows(p.name, -1)
}

// A saga that starts while its partition is about to be dropped prevents that.
func TestStartBeforeDrop(t *testing.T) {
	b := newSpanBench(t)
	p := b.deleted()
	late := b.started(b.idIn(p))
	if err := b.dropSpan(t.Context(), p); !errors.Is(err, errBusy) {
		t.Errorf("err = %v", err)
	}
	b.wantRecords(late.Saga, 1)
}

// A drop that ends before its commit leaves everything, and the next one finds it.
func TestDropIsOneTransaction(t *testing.T) {
	b := newSpanBench(t)
	p := b.deleted()
	statements := dropStatements(p)
	for n := range statements {
		if err := b.atOnce(t.Context(), append(statements[:n+1:n+1], `SELECT 1 / 0`)...); code(err) != codeDivisionByZero {
			t.Fatalf("after statement %d: %v", n, err)
		}
		b.wantRows(p.name, 2)
		b.wantRows("deferred_deletes", 1)
		b.wantOrphans()
	}
	b.reclaim()
	b.wantRows(p.name, -1)
}

// Nodes may create and drop partitions at once, while others write.
func TestNodesReclaimAtOnce(t *testing.T) {
	b := newSpanBench(t)
	p := b.deleted()
	var missing []string
	for i := range spansAhead {
		name := spanAt(b.now().Add(time.Duration(i+1) * spanLength)).name
		b.exec(`DROP TABLE ` + name)
		missing = append(missing, name)
	}
	stores := []*Store{b.Store}
	for range 3 {
		s, err := Open(t.Context(), b.dsn, Options{})
		b.must(err)
		defer s.Close()
		stores = append(stores, s)
	}
	var work sync.WaitGroup
	for _, s := range stores {
		for range 2 {
			work.Go(func() {
				if err := s.Reclaim(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	today := spanAt(b.now())
	for range 20 {
		b.goOn(b.started(b.idIn(&today)), nil)
	}
	work.Wait()
	b.drops.Clear()
	b.reclaim() // what the others have left because they were at it at the same moment
	for _, name := range missing {
		b.wantRows(name, 0)
	}
	b.wantRows(p.name, -1)
	b.wantRows(today.name, 40)
}

// Appends, and reads of one saga, use only the partition of the saga.
func TestUsesOneSpan(t *testing.T) {
	b := newSpanBench(t)
	today := spanAt(b.now())
	a := b.started(b.idIn(&today))
	for range 10 { // the database has chosen its plans after some executions
		a = b.goOn(a, nil)
		b.wantRecords(a.Saga, min(int(a.Records[0].Seq), 10))
	}
	fresh := b.another() // its connections have no plans
	tx, err := b.conn.Begin(t.Context())
	b.must(err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	for i := range spansAhead {
		p := spanAt(today.end.Add(time.Duration(i) * spanLength))
		_, err = tx.Exec(t.Context(), `LOCK TABLE `+p.name+` IN ACCESS EXCLUSIVE MODE`)
		b.must(err)
	}
	begun := time.Now()
	for range 3 {
		a = b.goOn(a, nil)
	}
	b.Store = fresh
	for range 8 {
		b.wantRecords(a.Saga, 10)
	}
	b.ended(a)
	if err := b.Delete(t.Context(), a.Saga); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 8*time.Second { // less than lock_timeout
		t.Errorf("it took %v", took)
	}
}

// A batch may have sagas of several days, and each must continue its own journal.
func TestBatchOfManySpans(t *testing.T) {
	b := newSpanBench(t)
	today, past := spanAt(b.now()), b.past()
	var batch []journal.Append
	for _, saga := range []uuid.UUID{b.idIn(past), {15: 1}, b.idIn(&today)} {
		last := b.started(saga).Records[0]
		r := journal.Record{Seq: 2, At: last.At, Kind: journal.Woke, Node: spanNode, Data: []byte(`{}`)}
		journal.Seal(saga, last.Hash, &r)
		batch = append(batch, journal.Append{Saga: saga, Records: []journal.Record{r}})
	}
	gap := batch[0]
	gap.Records = []journal.Record{{Seq: 4, At: time.UnixMilli(1).UTC(), Kind: journal.Woke, Node: spanNode, Data: []byte(`{}`)}}
	journal.Seal(gap.Saga, nil, &gap.Records[0])
	for i, want := range []error{journal.ErrConflict, nil, nil} {
		out, err := b.Append(t.Context(), spanNode, []journal.Append{[]journal.Append{gap, batch[0], batch[0]}[i], batch[1], batch[2]})
		b.must(err)
		if !errors.Is(out[0].Err, want) || out[1].Err != nil || out[2].Err != nil {
			t.Errorf("%d: %v", i, out)
		}
	}
	for _, a := range batch {
		b.wantRecords(a.Saga, 2)
	}
}
