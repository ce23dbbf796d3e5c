package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"recourse/internal/test/pgserver"
)

// BenchmarkDeleteExpired deletes 100,000 sagas, as the present day's (row by row) and as those of a
// day that is over (which are dropped). Then it vacuums the journal.
func BenchmarkDeleteExpired(b *testing.B) {
	const sagas = 100_000
	for name, ago := range map[string]time.Duration{"deleted": 0, "dropped": 72 * time.Hour} {
		b.Run(name, func(b *testing.B) {
			ctx := b.Context()
			must := func(err error) {
				b.Helper()
				if err != nil {
					b.Fatal(err)
				}
			}
			dsn := pgserver.DSN(b)
			s, err := Open(ctx, dsn, Options{Migrate: true})
			must(err)
			defer s.Close()
			conn, err := pgx.Connect(ctx, dsn)
			must(err)
			defer conn.Close(context.WithoutCancel(ctx))
			p := spanAt(time.Now().Add(-ago))
			if ago > 0 {
				must(s.makeSpan(ctx, &p))
				_, err = s.readSpans(ctx)
				must(err)
			}
			wal := func() (bytes float64) {
				must(conn.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn() - '0/0'`).Scan(&bytes))
				return bytes
			}
			measure := func(what string, f func()) {
				before, begun := wal(), time.Now()
				f()
				b.ReportMetric(time.Since(begun).Seconds(), what+"-s")
				b.ReportMetric((wal()-before)/sagas, what+"-WAL-B/saga")
			}
			for b.Loop() {
				_, err = conn.Exec(ctx, `INSERT INTO sagas (id, definition, version, sha256, start_hash, status, seq, updated_at, ended_at, delete_at)
					SELECT (left($1::uuid::text, 13) || '-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, 'booking', 1, sha256('x'), '', 'succeeded', 8, 1, 1, 2 FROM generate_series(1, $2::int) i`, id(p.first), sagas)
				must(err)
				_, err = conn.Exec(ctx, `INSERT INTO journal (saga_id, at, seq, last, data) SELECT id, 1, n, n, sha256('1') || sha256('2') || sha256('3') || sha256('4') || sha256('5')
					FROM sagas, generate_series(1, 4) n ORDER BY id, n`)
				must(err)
				_, err = conn.Exec(ctx, `VACUUM ANALYZE`)
				must(err)
				_, err = conn.Exec(ctx, `CHECKPOINT`)
				must(err)
				measure("delete", func() {
					for n := 1; n > 0; {
						n, err = s.DeleteExpired(ctx, 500)
						must(err)
					}
					must(s.Reclaim(ctx))
				})
				measure("vacuum", func() {
					_, err = conn.Exec(ctx, `VACUUM journal`)
					must(err)
				})
				var left int64
				must(conn.QueryRow(ctx, `SELECT coalesce(sum(pg_total_relation_size(inhrelid)), 0)::bigint FROM pg_inherits WHERE inhparent = 'journal'::regclass`).Scan(&left))
				b.ReportMetric(float64(left)/1e6, "left-MB")
			}
		})
	}
}
