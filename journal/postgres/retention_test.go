package postgres

import (
	"testing"

	"recourse/journal"
)

// Sagas with much content are removed in several transactions. If one of them fails, the sagas of
// those before it stay removed.
func TestRemovesInParts(t *testing.T) {
	for name, remove := range map[string]func(*spanBench, []journal.Copied) (int, error){
		"expired": func(b *spanBench, _ []journal.Copied) (int, error) { return b.DeleteExpired(b.Context(), 10) },
		"copied": func(b *spanBench, sagas []journal.Copied) (int, error) {
			deleted, err := b.DeleteCopied(b.Context(), sagas)
			return len(deleted), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newSpanBench(t)
			b.removeBytes = 2
			var sagas []journal.Copied
			for i := range 5 {
				saga := b.at(b.now())
				b.expired(saga)
				b.exec(`INSERT INTO blobs VALUES ($1, 'hash', 'x')`, saga)
				b.exec(`UPDATE sagas SET delete_at = $2 WHERE id = $1`, saga, i)
				sagas = append(sagas, journal.Copied{Saga: saga, Seq: 2, Blobs: 1})
			}
			b.exec(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$`)
			b.exec(`CREATE TRIGGER fail BEFORE DELETE ON blobs FOR EACH ROW WHEN (OLD.saga_id = '` + sagas[4].Saga.String() + `') EXECUTE FUNCTION fail()`)
			if n, err := remove(b, sagas); n != 4 || err == nil {
				t.Errorf("%d were removed, %v", n, err)
			}
			if left := b.count(`SELECT count(*) FROM sagas`); left != 1 {
				t.Errorf("%d are left", left)
			}
		})
	}
}
