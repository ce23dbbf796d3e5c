package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"recourse/journal"
)

const (
	// spanLength is how much of the time in sagas' ids a partition of the journal has. Spans begin
	// at multiples of it since 1970, so a span is a day in UTC.
	spanLength = 24 * time.Hour
	// spansAhead is how many spans have a partition before they begin.
	spansAhead = 3
	// spanNeeded is how long before its beginning a span must have its partition. Earlier, a
	// partition that cannot be made is not worth an error.
	spanNeeded = 48 * time.Hour
	// defaultSpan is the partition for the ids of all other spans.
	defaultSpan = "journal_default"
)

// span is the part of the journal that is in one partition.
type span struct {
	name  string    // of the partition
	first uuid.UUID // the least id
	after uuid.UUID // the least id of the next span
	end   time.Time
}

// spanAt returns the span of a time.
func spanAt(at time.Time) span {
	begin := at.UTC().Truncate(spanLength)
	end := begin.Add(spanLength)
	return span{name: begin.Format("journal_20060102"), first: journal.FirstID(begin), after: journal.FirstID(end), end: end}
}

// bounds returns the bounds of the span's partition, as the database prints them.
func (p *span) bounds() string {
	return fmt.Sprintf("FOR VALUES FROM ('%s') TO ('%s')", p.first, p.after)
}

// has reports whether a saga is in the span. A nil span has none.
func (p *span) has(saga uuid.UUID) bool {
	return p != nil && journal.CompareID(saga, p.first) >= 0 && journal.CompareID(saga, p.after) < 0
}

// spans are the partitions that the database had at a time, in the order of their ids. A partition
// is never made for a span that has rows already, so all rows of a saga are in one partition.
type spans struct {
	at   time.Time // by the database's clock
	list []span
}

// of returns the span that has a saga, if its partition is known.
func (l *spans) of(saga uuid.UUID) (*span, bool) {
	i, found := slices.BinarySearchFunc(l.list, saga, func(p span, saga uuid.UUID) int {
		if p.has(saga) {
			return 0
		}
		return journal.CompareID(p.first, saga)
	})
	if !found {
		return nil, false
	}
	return &l.list[i], true
}

func (l *spans) lacks(p *span) bool {
	return !slices.ContainsFunc(l.list, func(q span) bool { return q.name == p.name })
}

// readSpans reads the partitions that this program has made, and that it may read by their names.
func (s *Store) readSpans(ctx context.Context) (*spans, error) {
	var now int64
	if err := s.pool.QueryRow(ctx, `SELECT `+nowMS).Scan(&now); err != nil {
		return nil, err
	}
	rows, err := s.pool.Query(ctx, `SELECT c.relname::text, coalesce(pg_get_expr(c.relpartbound, c.oid), '') FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'journal'::regclass AND has_table_privilege(c.oid, 'SELECT') ORDER BY c.relname`)
	if err != nil {
		return nil, err
	}
	out := &spans{at: toTime(now)}
	var name, bounds string
	_, err = pgx.ForEachRow(rows, []any{&name, &bounds}, func() error {
		at, err := time.Parse("journal_20060102", name)
		if p := spanAt(at); err == nil && p.bounds() == bounds {
			out.list = append(out.list, p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.spans.Store(out)
	return out, nil
}

// ensureSpans creates the missing partitions for the present day and the next ones.
func (s *Store) ensureSpans(ctx context.Context) error {
	have, err := s.readSpans(ctx)
	if err != nil {
		return err
	}
	made := false
	for i := range spansAhead + 1 {
		begin := have.at.Truncate(spanLength).Add(time.Duration(i) * spanLength)
		p := spanAt(begin)
		if !have.lacks(&p) {
			continue
		}
		err := s.makeSpan(ctx, &p)
		if code(err) == codeDuplicateTable { // another node may have created it
			if have, rerr := s.readSpans(ctx); rerr != nil {
				return rerr
			} else if !have.lacks(&p) {
				continue
			}
		}
		if err == nil {
			made = true
			continue
		}
		if !errors.Is(err, errBusy) || begin.Sub(have.at) < spanNeeded {
			return fmt.Errorf("create the partition %s of the journal, without which its rows go to %s: %w", p.name, defaultSpan, err)
		}
		break // the next call tries again
	}
	if made {
		_, err = s.readSpans(ctx)
	}
	return err
}

// errBusy means that a partition cannot be changed now, because others use it or change it.
var errBusy = errors.New("other transactions use the partition")

// lockBriefly limits how long a statement waits for a lock, because others queue for it.
const lockBriefly = `SET LOCAL lock_timeout = '100ms'; SET LOCAL statement_timeout = '2s'`

// noStandby makes a commit not wait for a standby, because others wait for its locks. If a failover
// loses it, the next call repeats what it did.
const noStandby = `SET LOCAL synchronous_commit = local`

// makeSpan creates a partition, unless another node does so at the moment. To attach it locks the
// table against other changes of its partitions, but not against writers. It locks the default
// partition completely, and reads all of it, because its rows must not belong to the new one. If
// some do, the span stays in the default partition. This fails first, without that lock.
func (s *Store) makeSpan(ctx context.Context, p *span) error {
	err := s.atOnce(ctx, lockBriefly, noStandby, lockSpans,
		`SELECT 1 / (NOT EXISTS (SELECT 1 FROM `+defaultSpan+` WHERE saga_id >= '`+p.first.String()+`' AND saga_id < '`+p.after.String()+`'))::int`,
		`CREATE TABLE `+p.name+` (LIKE journal INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES INCLUDING STORAGE)`,
		`ALTER TABLE journal ATTACH PARTITION `+p.name+` `+p.bounds())
	switch code(err) {
	case codeDivisionByZero, codeCheckViolation:
		return nil // another node makes it, or the default partition has rows of the span
	case codeLockNotAvailable:
		return fmt.Errorf("%w: %w", errBusy, err)
	}
	return err
}

// lockSpans fails with codeDivisionByZero if another transaction changes the partitions.
const lockSpans = `SELECT 1 / pg_try_advisory_xact_lock(hashtextextended('recourse.journal', 1))::int`

// atOnce runs statements in a transaction, and sends them in one message, so that their locks are
// not held for longer if this process or the network stops meanwhile.
func (s *Store) atOnce(ctx context.Context, statements ...string) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.release()
	_, err = conn.Exec(ctx, begin+`; `+strings.Join(statements, `; `)+`; COMMIT`, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		rollback(ctx, conn)
		return outcome(err, true)
	}
	return nil
}

// spanName stands for the name of a partition in the text of a statement. It is replaced last,
// because mergedTexts would keep the texts of each day.
const spanName = "{span}"

// nearest returns the partition that has most of the sagas that a batch continues: that of the
// newest one; nil: it is not known, or a batch has only starts. Statements use it by its name,
// because a statement on the whole journal locks and opens all partitions.
func (s *Store) nearest(batch []part) *span {
	newest := uuid.Nil
	for i := range batch {
		if a := &batch[i]; a.Start == nil && journal.CompareID(a.Saga, newest) > 0 {
			newest = a.Saga
		}
	}
	if have := s.spans.Load(); have != nil {
		if p, ok := have.of(newest); ok {
			return p
		}
	}
	return nil
}

// forget makes the store no longer use partitions by name until it has read which there are.
func (s *Store) forget() { s.spans.Store(nil) }

// bySpan returns the sagas whose journals must be deleted now, and those whose journals need not,
// because their spans are over and may soon be dropped.
func (s *Store) bySpan(sagas []pgtype.UUID) (now []pgtype.UUID, later map[*span][]pgtype.UUID) {
	have := s.spans.Load()
	if have == nil {
		return sagas, nil
	}
	later = make(map[*span][]pgtype.UUID)
	for _, u := range sagas {
		if p, ok := have.of(u.Bytes); ok && !p.end.After(have.at) {
			later[p] = append(later[p], u)
		} else {
			now = append(now, u)
		}
	}
	return now, later
}
