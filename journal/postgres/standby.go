package postgres

import (
	"context"
	"fmt"

	"recourse/internal/pgsync"
	"recourse/journal"
)

// Synchronous implements journal.Log.
func (s *Store) Synchronous(ctx context.Context) error {
	r, err := pgsync.Read(ctx, s.w)
	switch {
	case err != nil:
		return fmt.Errorf("synchronous: %w", err)
	case r.Names == "":
		return fmt.Errorf("%w: synchronous_standby_names is empty: name a standby, or turn on the synchronous mode of your failover manager", journal.ErrNotSynchronous)
	case !r.Durable():
		return fmt.Errorf("%w: synchronous_commit is %s: set it to on for recourse's role", journal.ErrNotSynchronous, r.Commit)
	case r.Missing():
		return fmt.Errorf("%w: %w", journal.ErrNotSynchronous, r.NoStandby())
	}
	return nil
}
