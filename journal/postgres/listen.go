package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// channel is the channel on which nodes notify each other.
const channel = "recourse"

const (
	minListenPause = 100 * time.Millisecond
	maxListenPause = 10 * time.Second
)

// notify informs all nodes of new messages or tasks. It runs after the commit, in a transaction
// without a write, because a NOTIFY locks the whole database until its commit is on disk. If it is
// lost, the receiver waits for its next poll.
func (s *Store) notify(ctx context.Context, db lender) {
	s.hint()
	_, _ = db.exec(ctx, `SELECT pg_notify($1, '')`, channel) // only a hint
}

// listen turns notifications into hints until ctx ends. It reconnects if the connection breaks.
func (s *Store) listen(ctx context.Context, cfg *pgx.ConnConfig) {
	pause := minListenPause
	for ctx.Err() == nil {
		if s.listenOnce(ctx, cfg) {
			pause = minListenPause
		}
		s.hint() // a notification may have been missed
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, maxListenPause)
	}
}

// listenOnce listens until the connection breaks or turns out to be to an old primary. established
// reports whether there was a connection.
func (s *Store) listenOnce(ctx context.Context, cfg *pgx.ConnConfig) (established bool) {
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
		_ = conn.Close(ctx) // it is broken or no longer needed
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
