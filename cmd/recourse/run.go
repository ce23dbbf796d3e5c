package main

import (
	"context"
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
	"recourse/saga/kinds/llm"
	"recourse/saga/machine"
)

type runCmd struct {
	cli.OutputFlag
	definition.ActionFlags
	File        string   `arg:"" help:"A definition; - is stdin."`
	Input       string   `short:"i" placeholder:"JSON" help:"The input: JSON, @FILE, or - for stdin."`
	Database    string   `placeholder:"FILE|URL" help:"Keep the saga in this database. Default: in memory, for this run only."`
	Var         []string `sep:"none" placeholder:"NAME=TEXT" help:"A variable, in addition to RECOURSE_VAR_<name>; repeatable."`
	Vars        string   `env:"RECOURSE_VARS" placeholder:"FILE" help:"YAML map of variables."`
	SecretDir   string   `env:"RECOURSE_SECRET_DIR" placeholder:"DIR" help:"Directory with a file for each secret, besides RECOURSE_SECRET_<NAME>."`
	EgressAllow []string `env:"RECOURSE_EGRESS_ALLOW" placeholder:"HOST|CIDR" help:"Host or network that steps may call, in addition to public addresses and this machine; repeatable."`
	config.TracesFlag
	config.DialFlags
	config.LLMFlags
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
	src, err := secrets.New(c.SecretDir, a.Env)
	if err != nil {
		return cli.Exit(cli.Usage, err)
	}
	log, err := config.NewLog(a.Stderr, "text", "error", src)
	if err != nil {
		return err
	}
	var store journal.Store = memory.New(memory.Config{})
	if c.Database != "" {
		if store, err = database.Open(a.Ctx, c.Database, true); err != nil {
			return err
		}
	}
	defer store.Close()
	models, err := c.LLMFlags.Apply(llm.Config{})
	if err != nil {
		return err
	}
	tracer, err := c.TracesFlag.Tracer(a, models, log)
	if err != nil {
		return err
	}
	n, err := newNode(nodeOptions{Store: store, Tracer: tracer, Egress: append(config.Loopback, c.EgressAllow...), Dial: c.DialFlags, Secrets: src, Vars: o.Vars, LLM: models,
		Lanes: 1, Lease: 15 * time.Second, Drain: 10 * time.Second, Retention: saga.Forever, Version: a.Version, Log: log})
	if err != nil {
		return err
	}
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
		return view.Outcome(v.ID, v.Status)
	}
	for _, e := range l.Machine.Inbox() {
		l.app.Note("%s. %s", e.Title, remote.InCommands(e.Detail))
	}
	if c.Database == "" {
		return cli.Exit(cli.Failed, errors.New("the saga needs a person, and was not stored: run it with --database to keep it"))
	}
	return cli.Exit(cli.Failed, fmt.Errorf("the saga waits for a person: run `recourse serve --database %s`, then `recourse inbox`", c.Database))
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
	for _, act := range actions.List {
		if _, _, _, err := l.catalog.PublishAction(ctx, act.Name, act.Source, ""); err != nil {
			return fmt.Errorf("action %s: %w", act.Name, err)
		}
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
