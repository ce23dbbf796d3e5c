package verify

import (
	"fmt"
	"time"

	"recourse/internal/cli"
	"recourse/internal/cli/database"
	"recourse/internal/invariant"
	"recourse/journal"
)

// Newest checks the newest sagas of a database, 0 for all, as `recourse verify --database`
// does. It returns the number of checked sagas; 0 means all.
func Newest(a *cli.App, database string, newest int) (int, error) {
	v := &check{app: a, cmd: &Command{Database: database}, missing: make(map[string]*missing)}
	if newest > 0 {
		since, err := v.before(newest)
		if err != nil {
			return 0, err
		}
		v.cmd.Since = since
	}
	if err := v.database(invariant.Config{Now: time.Now()}); err != nil {
		return 0, err
	}
	if found := v.checker.End(); len(found) > 0 {
		return 0, fmt.Errorf("%s, the first: %s", cli.Count(len(found), "violation"), found[0])
	}
	if v.cmd.Since == "" {
		return 0, nil
	}
	return v.checker.Totals().Sagas, nil
}

// before returns a time since which at least the n newest sagas were started, "" if there are no
// more.
func (v *check) before(n int) (string, error) {
	store, err := database.OpenReadOnly(v.app.Ctx, v.cmd.Database)
	if err != nil {
		return "", err
	}
	defer store.Close()
	found, err := store.Sagas(v.app.Ctx, journal.Filter{Limit: n})
	if err != nil || len(found.Heads) < n {
		return "", err
	}
	return journal.IDTime(found.Heads[n-1].ID).Add(-time.Millisecond).Format(time.RFC3339Nano), nil
}
