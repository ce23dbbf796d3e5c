package wire_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"recourse/engine"
	"recourse/examples/world"
	"recourse/internal/test/pgserver"
	"recourse/internal/test/wire/rig"
	"recourse/journal"
)

// skew sets a database's clock, as its statements read it, off the nodes' clocks.
func skew(t *testing.T, dsn string, by time.Duration) {
	t.Helper()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, query := range []string{
		`CREATE SCHEMA skewed`,
		fmt.Sprintf(`CREATE FUNCTION skewed.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$ SELECT pg_catalog.clock_timestamp() + interval '%d seconds' $$`, int(by.Seconds())),
		`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = skewed, pg_catalog, public', current_database()); END $$`,
	} {
		if _, err := conn.Exec(ctx, query); err != nil {
			t.Fatal(err)
		}
	}
}

// wall is a store whose lease has the time of the node's wall clock: a node with it is a bad one.
type wall struct{ journal.Store }

func (s wall) Register(ctx context.Context, node string, ttl time.Duration, dead ...string) (journal.Lease, error) {
	l, err := s.Store.Register(ctx, node, ttl, dead...)
	l.Now = time.Now()
	return l, err
}

func (s wall) Renew(ctx context.Context, node string, ttl time.Duration) (journal.Lease, error) {
	l, err := s.Store.Renew(ctx, node, ttl)
	l.Now = time.Now()
	return l, err
}

// apart runs nodes whose wall clocks lag behind the database's by so much, and returns what is
// wrong with the journals' times.
func apart(t *testing.T, by time.Duration, wrap func(journal.Store) journal.Store) (wrong []string) {
	dsn := pgserver.DSN(t)
	openStore(t, dsn, 1) // migrates
	skew(t, dsn, by)
	direct := openStore(t, dsn, 4)
	w := rig.World(t, world.Config{Now: func() time.Time { return time.Now().Add(by) }})
	sys := rig.New(t, direct, w, "")
	from := time.Now().Add(by)
	var nodes []*rig.Node
	for range 2 {
		nodes = append(nodes, sys.Add(wrap(openStore(t, dsn, 8)), engine.Config{Lease: time.Second}))
	}
	l := sys.Load(3)
	rig.Until(t, "sagas run", func() bool { return nodes[0].Engine.Stats().Commits > 30 && nodes[1].Engine.Stats().Commits > 30 })
	dead, err := direct.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(dead) != 2 { // both leases hold by the database's clock
		wrong = append(wrong, fmt.Sprintf("%d nodes have a lease, want 2", len(dead)))
	}
	l.End()
	wrong = append(wrong, sys.Settle()...)
	return append(wrong, times(t, direct, from, time.Now().Add(by))...)
}

// times finds records from outside of the time in which they were made.
func times(t *testing.T, s journal.Store, from, to time.Time) (wrong []string) {
	t.Helper()
	found, err := s.Sagas(t.Context(), journal.Filter{Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	from = from.Truncate(time.Millisecond)
	for _, h := range found.Heads {
		records, err := s.Records(t.Context(), h.ID, 0, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []time.Time{h.CreatedAt, h.UpdatedAt, h.EndedAt} {
			if at.Before(from) || at.After(to) {
				wrong = append(wrong, fmt.Sprintf("the row of %s has %v, not between %v and %v", h.ID, at, from, to))
			}
		}
		for _, r := range records {
			if r.At.Before(from) || r.At.After(to) {
				wrong = append(wrong, fmt.Sprintf("record %d of %s is of %v, not between %v and %v", r.Seq, h.ID, r.At, from, to))
			}
		}
	}
	return wrong
}

// Nodes whose clocks are an hour off the database's, either way, go by the database's.
func TestClocksApart(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			for _, w := range apart(t, by, func(s journal.Store) journal.Store { return s }) {
				t.Error(w)
			}
		})
	}
	t.Run("a node that goes by its own", func(t *testing.T) {
		t.Parallel()
		if wrong := apart(t, time.Hour, func(s journal.Store) journal.Store { return wall{s} }); len(wrong) == 0 {
			t.Error("not noticed")
		}
	})
}
