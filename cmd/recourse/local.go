package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/cli"
	"recourse/internal/cli/database"
	"recourse/journal"
)

// localStore is the store of a command that runs sagas in its own process. It claims only sagas
// that such commands have started. The others were started at a server, and need its configuration:
// its sinks, its egress rules, the hosts of its secrets.
type localStore struct{ journal.Store }

// Claim implements journal.Log.
func (s localStore) Claim(ctx context.Context, node string, limit int) ([]journal.Claimed, error) {
	return s.ClaimLocal(ctx, node, limit)
}

// Append implements journal.Log.
func (s localStore) Append(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	for i := range batch {
		if batch[i].Start != nil {
			batch[i].Start.Local = true
		}
	}
	return s.Store.Append(ctx, node, batch)
}

// runsHere returns an error if a command does not run this saga, because it was started at a server
// with this database.
func runsHere(ctx context.Context, store journal.Store, id uuid.UUID, db string) error {
	h, err := store.Saga(ctx, id)
	switch {
	case errors.Is(err, journal.ErrNotFound): // the request that names it gets a better error
		return nil
	case err != nil:
		return fmt.Errorf("read saga %s: %w", id, err)
	case h.Local, !h.EndedAt.IsZero():
		return nil
	}
	return cli.Exit(cli.Failed, fmt.Errorf("saga %s was started at a server, whose configuration it needs: run %s, and this command with --server", id, serves(db)))
}

// serves returns the command that serves a database. A URL may contain a password.
func serves(db string) string {
	if database.IsPostgres(db) {
		return "`recourse serve` with the same --database"
	}
	return "`recourse serve --database " + db + "`"
}
