package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/cli"
	"recourse/internal/cli/config"
	"recourse/internal/cli/database"
	"recourse/internal/cli/definition"
	"recourse/saga"
)

// Embed starts a server in this process, on a database, and publishes the actions.
type Embed func(a *cli.App, f *config.LocalFlags, database string, actions []*saga.Action) (*Server, error)

// Server is a server in this process.
type Server struct {
	URL string
	// Runs returns an error if a saga or session is live and the server does not run it, because it
	// was started at another server.
	Runs func(ctx context.Context, id uuid.UUID) error
	Stop func() error // waits for its end
}

// defaultDatabase is that of `recourse serve`, which therefore shows the session later.
const defaultDatabase = "recourse.db"

// connect makes the runner use a server in this process until stop is called, unless --server names
// another one.
func (c *Run) connect(r *runner, embed Embed, body *openRequest) (stop func(), err error) {
	switch {
	case c.Server == "":
		server, err := c.embed(r.app, embed, body)
		if err != nil {
			return nil, err
		}
		r.flags.Server, r.database, r.runs = server.URL, c.Database, server.Runs
		r.note("%s is served at %s", database.Name(c.Database), server.URL)
		stop = func() {
			if err := server.Stop(); err != nil {
				r.note("the server in this process did not stop in order; the next one continues: %s", err)
			}
		}
		if err := r.checkRuns(body.Parent); err != nil {
			stop()
			return nil, err
		}
		return stop, nil
	case c.Database != "":
		return nil, cli.Exit(cli.Usage, errors.New("--database is that of a server in this process: leave it out, or leave out --server and RECOURSE_SERVER"))
	}
	return func() {}, nil
}

// checkRuns returns an error if there is a server in this process and it does not run a saga or
// session. An id that is none is the API's to refuse.
func (r *runner) checkRuns(id string) error {
	if u, err := uuid.FromString(id); err == nil && r.runs != nil {
		return r.runs(r.app.Ctx, u)
	}
	return nil
}

// embed starts a server with the actions in files, and writes into the body which of them the agent
// may call. The others are for compensations.
func (c *Run) embed(a *cli.App, start Embed, body *openRequest) (*Server, error) {
	c.Database = cmp.Or(c.Database, defaultDatabase)
	if c.Session != "" {
		return c.serve(a, start, nil)
	}
	actions, err := definition.ActionFlags{Actions: c.Actions}.ReadActions(a)
	if err != nil {
		return nil, cli.Exit(cli.ExitCode(err), fmt.Errorf("--actions: %w; without a server it names files and directories: set --server to use the actions of a server by their names", err))
	}
	body.Actions = nil
	for _, act := range actions.List {
		if act.Agents != nil {
			body.Actions = append(body.Actions, act.Name)
		}
	}
	if body.Actions == nil {
		return nil, cli.Exit(cli.Usage, errors.New("--actions: no action in these files may be called by agents: `agents: auto` in an action allows it"))
	}
	return c.serve(a, start, actions.List)
}

// serve starts the server with these actions.
func (c *Run) serve(a *cli.App, start Embed, actions []*saga.Action) (*Server, error) {
	server, err := start(a, &c.LocalFlags, c.Database, actions)
	if cli.ExitCode(err) == cli.Conflict {
		err = fmt.Errorf("%w; or run the agent with the server of that process: --server", err)
	}
	return server, err
}

// command returns how a person runs a command for the session once this command has ended.
func (r *runner) command(line string) string {
	if r.database == "" {
		return r.flags.Command(r.app, line)
	}
	return "`recourse serve` with " + database.Name(r.database) + " and then `recourse " + line + "`"
}
