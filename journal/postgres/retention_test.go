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

// Content that takes longer to erase than a statement may take is erased in several transactions.
func TestErasesInParts(t *testing.T) {
	b := newSpanBench(t)
	saga := b.at(b.now())
	b.expired(saga)
	b.exec(`INSERT INTO blobs SELECT $1, sha256(i::text::bytea), 'x' FROM generate_series(1, 10) i`, saga)
	b.exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.05); RETURN OLD; END $$`)
	b.exec(`CREATE TRIGGER slow BEFORE DELETE ON blobs FOR EACH ROW EXECUTE FUNCTION slow()`)
	b.dsn += "&statement_timeout=200ms"
	s := b.another()
	s.removeBytes = 2
	n, err := s.EraseBlobs(t.Context(), saga)
	if left := b.count(`SELECT count(*) FROM blobs`); n != 10 || err != nil || left != 0 {
		t.Errorf("%d were erased, %v; %d are left", n, err, left)
	}
}
