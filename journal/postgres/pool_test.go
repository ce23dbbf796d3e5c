package postgres

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"recourse/internal/test/pgserver"
	"recourse/journal"
)

// The error of a connection that was cut while it was idle in the pool has an SQLSTATE, whether the
// driver reports it at once or late, from a query, a batch or a transaction.
func TestDeadConnectionHasSQLState(t *testing.T) {
	ctx, dsn := t.Context(), pgserver.DSN(t)
	s, err := Open(ctx, dsn, Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 1
	var cut atomic.Bool
	cfg.PrepareConn = func(_ context.Context, c *pgx.Conn) (bool, error) {
		if cut.Load() {
			_ = c.PgConn().Conn().Close() // its error does not matter
		}
		return true, nil
	}
	conns, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*pool{&s.pool, &s.w, &s.lease} {
		p.Close()
		*p = newPool(conns)
	}
	s.rest = s.w.leavingSome()

	const node = "n"
	if _, err := s.Register(ctx, node, time.Hour); err != nil {
		t.Fatal(err)
	}
	some := uuid.Must(uuid.NewV7())
	record := journal.Record{Seq: 1, At: time.UnixMilli(1), Kind: journal.Started, Node: node}
	journal.Seal(some, nil, &record)
	start := []journal.Append{{Saga: some, Start: &journal.Start{Definition: "d", Version: 1}, Records: []journal.Record{record}}}
	if _, err := s.Append(ctx, node, start); err != nil {
		t.Fatal(err)
	}
	for name, use := range map[string]func() error{
		"append":   func() error { _, err := s.Append(ctx, node, start); return err },
		"sort":     func() error { _, err := s.snapshot(ctx, node, []part{{Append: start[0]}}); return err },
		"claim":    func() error { _, err := s.Claim(ctx, node, 1); return err },
		"current":  func() error { return s.current(ctx, node) },
		"renew":    func() error { _, err := s.Renew(ctx, node, time.Hour); return err },
		"records":  func() error { _, err := s.Records(ctx, some, 0, 1); return err },
		"begins":   func() error { _, err := s.Begins(ctx, []uuid.UUID{some}, 1, 1); return err },
		"boxes":    func() error { _, err := s.Recipients(ctx, node, uuid.Nil, 1); return err },
		"messages": func() error { _, err := s.Messages(ctx, []uuid.UUID{some}, 1, 1); return err },
		"send":     func() error { return s.Send(ctx, journal.Message{ID: some, Saga: some, Kind: "k"}) },
		"blobs":    func() error { _, err := s.Blobs(ctx, some, nil); return err },
		"put":      func() error { return s.PutBlobs(ctx, some, nil) },
		"owned":    func() error { _, err := s.Owned(ctx, node, uuid.Nil, 1); return err },
		"nodes":    func() error { _, err := s.Nodes(ctx); return err },
		"saga":     func() error { _, err := s.Saga(ctx, some); return err },
		"sagas":    func() error { _, err := s.Sagas(ctx, journal.Filter{Limit: 1}); return err },
		"inbox":    func() error { _, err := s.Inbox(ctx, journal.InboxFilter{Limit: 1}); return err },
		"expired":  func() error { _, err := s.DeleteExpired(ctx, 1); return err },
		"stats":    func() error { _, err := s.Stats(ctx); return err },
		"stalls":   func() error { _, err := s.FindStalls(ctx, time.Hour, 1); return err },
		"publish": func() error {
			_, _, err := s.Publish(ctx, journal.Document{Kind: journal.Definition, Name: "d"}, "")
			return err
		},
		"documents": func() error { _, err := s.Documents(ctx, journal.Definition, "", 1); return err },
		"events":    func() error { _, err := s.ClaimEvents(ctx, []string{"s"}, 1, time.Hour); return err },
		"fired":     func() error { _, err := s.Fired(ctx); return err },
		"tasks":     func() error { _, _, err := s.ReapTasks(ctx, 1, nil); return err },
		"keys":      func() error { _, err := s.ListKeys(ctx); return err },
		"ping":      func() error { return s.Ping(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := use(); err != nil { // the driver has prepared its statements now
				t.Fatal(err)
			}
			cut.Store(true)
			defer cut.Store(false)
			err := use()
			var state interface{ SQLState() string }
			if !errors.As(err, &state) || !strings.HasPrefix(state.SQLState(), "08") {
				t.Errorf("got %v, want an error of class 08, connection exception", err)
			}
		})
	}
}
