package journaltest

import (
	"fmt"
	"testing"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// BenchmarkAppend measures appends of one record, alone and in a batch. It closes the store.
func BenchmarkAppend(b *testing.B, s journal.Store) {
	defer s.Close()
	const node = "bench"
	if _, err := s.Register(b.Context(), node, ttl); err != nil {
		b.Fatal(err)
	}
	for _, run := range []struct {
		size int
		rows bool // whether each append also changes its saga's row
	}{{1, false}, {64, false}, {64, true}} {
		size := run.size
		b.Run(fmt.Sprintf("batch=%d,rows=%v", size, run.rows), func(b *testing.B) {
			ids := make([]uuid.UUID, size)
			next := make([]journal.Append, size)
			for i := range ids {
				ids[i] = newID()
				next[i] = begin(ids[i])
			}
			for b.Loop() {
				out, err := s.Append(b.Context(), node, next)
				if err != nil {
					b.Fatal(err)
				}
				for i := range next {
					if out[i].Err != nil {
						b.Fatal(out[i].Err)
					}
					last := next[i].Records[0]
					next[i] = journal.Append{Saga: ids[i], Records: chain(ids[i], last.Hash, last.Seq+1, 1)}
					if run.rows {
						next[i].Row = row("running")
					}
				}
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
