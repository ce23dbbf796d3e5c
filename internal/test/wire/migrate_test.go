package wire_test

import (
	"testing"

	"recourse/internal/test/pgserver"
	"recourse/internal/test/wire"
	"recourse/journal/postgres"
)

// A migration whose commit is cut leaves a database that the next try brings up.
func TestMigrationCut(t *testing.T) {
	p, through := proxied(t, pgserver.DSN(t))
	s, err := postgres.Open(t.Context(), through, postgres.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	commits := p.Tried(wire.Commit)
	if commits == 0 {
		t.Fatal("migrating makes no commit")
	}
	for _, cut := range []wire.Fault{{}, {After: true}} {
		for cut.Skip = range commits {
			dsn := pgserver.DSN(t)
			p, through := proxied(t, dsn)
			p.Arm(cut)
			s, err := postgres.Open(t.Context(), through, postgres.Options{Migrate: true})
			if err == nil {
				s.Close()
				t.Errorf("commit %d, after %v: no error, though it was struck %d times", cut.Skip, cut.After, p.Struck())
			}
			s, err = postgres.Open(t.Context(), dsn, postgres.Options{Migrate: true})
			if err != nil {
				t.Errorf("commit %d, after %v: the next try: %v", cut.Skip, cut.After, err)
				continue
			}
			if _, err := s.Register(t.Context(), "n", ttl); err != nil {
				t.Errorf("commit %d, after %v: the next try went through, and the store does not work: %v", cut.Skip, cut.After, err)
			}
			s.Close()
		}
	}
}
