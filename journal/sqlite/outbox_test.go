package sqlite

import (
	"context"
	"testing"
)

// A count of very many events stays while a later one fails, so that no alert ends by itself.
func TestManyEventsStayCounted(t *testing.T) {
	s := fresh(t)
	err := s.w.do(t.Context(), func(t *tx) error {
		_, err := t.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
			INSERT INTO outbox (id, sink, saga_id, created_at, due_at) SELECT CAST(format('%016d', i) AS BLOB), 's', x'00', i, i FROM n`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 {
		got, err := s.OutboxStats(late)
		if err != nil || len(got) != 1 || got[0].Events != 60000 || got[0].Oldest.UnixMilli() != 1 {
			t.Errorf("OutboxStats = %+v, %v", got, err)
		}
		cancel()
	}
}
