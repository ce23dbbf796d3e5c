package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// channel is where a node that posted mail calls.
const channel = "recourse"

const (
	minListenPause = 100 * time.Millisecond
	maxListenPause = 10 * time.Second
)

// notify tells the other nodes, and this one, that mail has come in. It is sent after
// the commit, as a transaction without a write: a NOTIFY holds a lock on the whole
// database until its commit is on disk. Its loss costs a poll's wait.
func (s *Store) notify(ctx context.Context) {
	s.hint()
	_, _ = s.w.Exec(ctx, `SELECT pg_notify($1, '')`, channel) // only a hint
}

// listen turns notifications into hints until ctx ends. A connection that drops is made again.
func (s *Store) listen(ctx context.Context, cfg *pgx.ConnConfig) {
	pause := minListenPause
	for ctx.Err() == nil {
		if s.listenOnce(ctx, cfg) {
			pause = minListenPause
		}
		s.hint() // something may have been missed
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, maxListenPause)
	}
}

// listenOnce listens until the connection breaks, or is to an old primary, and tells whether it
// stood.
func (s *Store) listenOnce(ctx context.Context, cfg *pgx.ConnConfig) (stood bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	later := s.lineage.later()
	s.work.Go(func() {
		defer cancel()
		select {
		case <-later:
		case <-ctx.Done():
		}
	})
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return false
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // it broke, or is of no more use
	}()
	if _, err := conn.Exec(ctx, `LISTEN `+channel); err != nil {
		return false
	}
	s.hint()
	for {
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return true
		}
		s.hint()
	}
}
