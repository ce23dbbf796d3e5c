package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"recourse/journal"
)

// ErrNoStandby says that commits wait for a standby, and that none is there: each of them waits
// until one comes.
var ErrNoStandby = errors.New("commits wait for a synchronous standby, and none is connected")

// replication is what decides what a commit waits for. Of the standbys a role sees at least that
// they are connected; their state only with pg_read_all_stats, so one whose state is not shown
// counts.
const replication = `SELECT current_setting('synchronous_standby_names'), current_setting('synchronous_commit'),
	(SELECT count(*) FROM pg_stat_replication WHERE sync_state IS NULL OR sync_state IN ('sync', 'quorum'))`

// Synchronous implements journal.Log. That synchronous_commit is remote_write does not do: the
// standby's machine may lose it.
func (s *Store) Synchronous(ctx context.Context) error {
	names, commit, standbys, err := s.replication(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("synchronous: %w", err)
	case names == "":
		return fmt.Errorf("%w: synchronous_standby_names is empty: name a standby, or turn on your fail-over manager's synchronous mode", journal.ErrNotSynchronous)
	case commit != "on" && commit != "remote_apply":
		return fmt.Errorf("%w: synchronous_commit is %s: set it to on for recourse's role", journal.ErrNotSynchronous, commit)
	case standbys == 0:
		return fmt.Errorf("%w: %w", journal.ErrNotSynchronous, noStandby(names))
	}
	return nil
}

func (s *Store) replication(ctx context.Context) (names, commit string, standbys int, err error) {
	err = s.w.QueryRow(ctx, replication).Scan(&names, &commit, &standbys)
	return names, commit, standbys, err
}

func noStandby(names string) error {
	return fmt.Errorf("%w (synchronous_standby_names is %q): start the standby, or empty that setting to go on with one machine", ErrNoStandby, names)
}

const (
	standbyTime  = 10 * time.Second       // that Open gives a standby to come
	standbyPause = 200 * time.Millisecond // between two looks for one
)

// awaitStandby returns ErrNoStandby where each commit would wait without a word, once it has waited
// itself for a while. Any other fault shows in the statements that follow.
func (s *Store) awaitStandby(ctx context.Context) error {
	for began := time.Now(); ; {
		names, commit, standbys, err := s.replication(ctx)
		if err != nil || names == "" || commit == "off" || commit == "local" || standbys > 0 {
			return nil
		}
		if time.Since(began) > standbyTime {
			return noStandby(names)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(standbyPause):
		}
	}
}
