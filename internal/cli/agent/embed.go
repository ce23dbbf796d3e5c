package agent

import (
	"cmp"
	"errors"
	"fmt"

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
	URL  string
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
		r.flags.Server, r.database = server.URL, c.Database
		r.note("%s is served at %s", database.Name(c.Database), server.URL)
		return func() {
			if err := server.Stop(); err != nil {
				r.note("the server in this process did not stop in order; the next one continues: %s", err)
			}
		}, nil
	case c.Database != "":
		return nil, cli.Exit(cli.Usage, errors.New("--database is that of a server in this process: leave it out, or leave out --server and RECOURSE_SERVER"))
	}
	return func() {}, nil
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
