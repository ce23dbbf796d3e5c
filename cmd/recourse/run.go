package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/cli"
	"recourse/internal/cli/config"
	"recourse/internal/cli/database"
	"recourse/internal/cli/definition"
	"recourse/internal/cli/remote"
	"recourse/internal/cli/view"
	"recourse/internal/secrets"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/machine"
)

type runCmd struct {
	cli.OutputFlag
	definition.ActionFlags
	File     string `arg:"" help:"A definition; - is stdin."`
	Input    string `short:"i" placeholder:"JSON" help:"The input: JSON, @FILE, or - for stdin."`
	Database string `placeholder:"FILE|URL" help:"Keep the saga in this database. Default: in memory, for this run only."`
	config.LocalFlags
}

// local is one saga that runs in this process.
type local struct {
	*node
	view.Saga
	app  *cli.App
	stop uuid.UUID // message id of the cancel after an interrupt
	show view.Viewer
}

// Run runs one saga; it returns nil if the saga succeeds. The first interrupt cancels the saga,
// which is then undone; a second one ends the program.
func (c *runCmd) Run(a *cli.App) error {
	o, err := definition.StartOptions(a, c.Input, c.Vars, c.Var)
	if err != nil {
		return err
	}
	n, err := newLocalNode(a, &c.LocalFlags, c.Database, o.Vars)
	if err != nil {
		return err
	}
	defer n.store.Close()
	ctx, stop := context.WithCancel(context.WithoutCancel(a.Ctx))
	defer stop()
	if err := n.start(ctx); err != nil {
		return err
	}
	l := &local{node: n, app: a}
	err = l.run(c, o)
	stop()
	if e := n.wait(); err == nil {
		err = e
	}
	return err
}

func (l *local) run(c *runCmd, o machine.StartOptions) error {
	actions, err := c.ReadActions(l.app)
	if err != nil {
		return err
	}
	if err := l.begin(c.File, actions, o); err != nil {
		return err
	}
	l.show = view.New(l.app, l.Def, c.Machine())
	if err := l.follow(); err != nil {
		return err
	}
	v := l.Machine.View()
	if c.Machine() {
		if err := l.app.Encode(v); err != nil {
			return err
		}
	}
	if v.Status.Terminal() {
		return view.Outcome(v.ID, v.Status, "")
	}
	for _, e := range l.Machine.Inbox() {
		l.app.Note("%s. %s", e.Title, remote.InCommands(e.Detail))
	}
	if c.Database == "" {
		return cli.Exit(cli.Failed, errors.New("the saga needs a person, and was not stored: run it with --database to keep it"))
	}
	return waitsIn(c.Database)
}

// waitsIn says how a saga that waits for a person goes on.
func waitsIn(db string) error {
	return cli.Exit(cli.Failed, fmt.Errorf("the saga waits for a person: run %s, then `recourse inbox`", serves(db)))
}

// newLocalNode returns a node that runs in the process of a command, on a database, or in memory if
// that is "". The caller closes its store.
func newLocalNode(a *cli.App, f *config.LocalFlags, db string, vars map[string]json.RawMessage) (_ *node, err error) {
	src, err := secrets.New(f.SecretDir, a.Env)
	if err != nil {
		return nil, cli.Exit(cli.Usage, err)
	}
	log, err := config.NewLog(a.Stderr, "text", "error", src)
	if err != nil {
		return nil, err
	}
	var store journal.Store = memory.New(memory.Config{})
	if db != "" {
		if store, err = database.Open(a.Ctx, db, true); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			store.Close()
		}
	}()
	file, err := config.ReadLLM(f.Config)
	if err != nil {
		return nil, cli.Exit(cli.Usage, err)
	}
	models, err := f.LLMFlags.Apply(file)
	if err != nil {
		return nil, err
	}
	servers, err := config.ReadMCP(f.Config)
	if err != nil {
		return nil, cli.Exit(cli.Usage, err)
	}
	tracer, err := f.TracesFlag.Tracer(a, models, log)
	if err != nil {
		return nil, err
	}
	return newNode(nodeOptions{Store: localStore{store}, Tracer: tracer, Egress: append(config.Loopback, f.EgressAllow...), Dial: f.DialFlags, Secrets: src, Vars: vars, LLM: models, MCP: servers, Environ: a.Env,
		Lanes: 1, Lease: 15 * time.Second, Drain: 10 * time.Second, Retention: saga.Forever, Version: a.Version, Log: log})
}

// publishActions publishes actions in the node's store.
func (n *node) publishActions(ctx context.Context, list []*saga.Action) error {
	for _, act := range list {
		if _, _, _, err := n.catalog.PublishAction(ctx, act.Name, act.Source, ""); err != nil {
			return fmt.Errorf("action %s: %w", act.Name, err)
		}
	}
	return nil
}

// begin publishes the actions and the definition in the store and starts the saga.
func (l *local) begin(file string, actions *definition.Actions, o machine.StartOptions) error {
	ctx := l.app.Ctx
	actions.Other = func(name string, version int) (*saga.Action, error) {
		act, err := l.catalog.Action(ctx, name, version)
		if errors.Is(err, journal.ErrNotFound) {
			return nil, fmt.Errorf("there is no action %s here: give its file, or its directory, with --actions", name)
		}
		return act, err
	}
	def, err := definition.Compile(l.app, file, actions)
	if err != nil {
		return err
	}
	if err := l.publishActions(ctx, actions.List); err != nil {
		return err
	}
	doc, def, _, err := l.catalog.Publish(ctx, def.Name, def.Source, "")
	if errs, ok := errors.AsType[*dsl.Errors](err); ok {
		return cli.Exit(cli.Usage, errs)
	} else if err != nil {
		return err
	}
	for _, w := range def.Warnings {
		l.app.Note("%s:%d:%d: warning: %s: %s", file, w.Line, w.Column, w.Code, w.Detail)
	}
	o.Version = doc.Version
	data, unique, wrong := machine.Begin(def, o)
	if len(wrong) > 0 {
		return definition.StartError(wrong)
	}
	l.Def = def
	begun, err := l.engine.Start(ctx, def, journal.Start{Definition: def.Name, Version: doc.Version, SHA256: def.SHA256, Unique: unique}, data, false)
	l.ID = begun.ID
	if errors.Is(err, journal.ErrUnique) {
		return cli.Exit(cli.Conflict, fmt.Errorf("saga %s is running with the same `unique` value: wait for its end", l.ID))
	} else if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	l.Machine = machine.New(def, l.ID)
	return nil
}

// follow shows the journal as it grows, until the saga has ended or needs a person.
func (l *local) follow() error {
	grown, stop := l.engine.Watch(l.ID)
	defer stop()
	poll := time.NewTicker(200 * time.Millisecond)
	defer poll.Stop()
	interrupted := l.app.Ctx.Done()
	defer l.show.End(&l.Saga)
	for {
		if err := l.read(); err != nil {
			return err
		}
		l.show.Tick(&l.Saga)
		answered := l.stop.IsNil() || l.Machine.Applied(l.stop)
		if l.Machine.Status().Terminal() || answered && len(l.Machine.Inbox()) > 0 {
			return nil
		}
		select {
		case <-grown:
		case <-poll.C:
		case <-interrupted:
			interrupted = nil
			if err := l.cancel(); err != nil {
				return err
			}
		}
	}
}

// read adds and shows the new records.
func (l *local) read() error {
	fresh, err := l.store.Records(context.WithoutCancel(l.app.Ctx), l.ID, l.Machine.Seq(), 1000)
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	if len(fresh) == 0 {
		return nil
	}
	if err := l.Add(fresh); err != nil {
		return err
	}
	l.show.Update(&l.Saga, fresh)
	return nil
}

// cancel cancels the saga, which is then undone.
func (l *local) cancel() error {
	l.show.Say(&l.Saga, "interrupted: cancelling the saga; interrupt again to leave it as it is")
	var err error
	if l.stop, err = uuid.NewV7(); err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	m, err := saga.Command{Do: saga.Cancel{}, Reason: "interrupted", Actor: "terminal"}.Message(l.stop, l.ID)
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	return l.engine.Send(context.WithoutCancel(l.app.Ctx), m)
}
