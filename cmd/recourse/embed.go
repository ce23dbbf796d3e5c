package main

import (
	"context"
	"fmt"
	"net"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/cli"
	"recourse/internal/cli/agent"
	"recourse/internal/cli/config"
	"recourse/internal/cli/database"
	"recourse/internal/cli/definition"
	"recourse/saga"
)

// embed is agent.Embed: a server in this process, on a loopback address and a free port. It
// publishes the actions first.
func embed(a *cli.App, f *config.LocalFlags, db string, actions []*saga.Action) (_ *agent.Server, err error) {
	vars, err := definition.Vars(a, f.Vars, f.Var)
	if err != nil {
		return nil, err
	}
	n, err := newLocalNode(a, f, db, vars)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			n.store.Close()
		}
	}()
	flags := config.ServeFlags{Flag: database.Flag{Database: db}, Listen: "127.0.0.1:0"}
	keys, err := flags.CheckAccess(a.Ctx, n.store)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", flags.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen on a loopback address: %w", err)
	}
	// The server outlives the signal that stops the command, which still has to detach.
	ctx, stop := context.WithCancel(context.WithoutCancel(a.Ctx))
	defer func() {
		if err != nil {
			stop()
			listener.Close()
		}
	}()
	n.services = append(n.services, n.sweep, n.reclaim)
	if err := n.start(ctx); err != nil {
		return nil, err
	}
	if err := n.publishActions(a.Ctx, actions); err != nil {
		stop()
		_ = n.wait() // the error of the actions is the one to report
		return nil, err
	}
	server := n.site(siteOptions{Vars: vars, RequireKeys: keys.Required, Version: a.Version, Log: n.log, Done: ctx.Done()})
	go func() { _ = server.Serve(listener) }() // ends with the server
	runs := func(ctx context.Context, id uuid.UUID) error { return runsHere(ctx, n.store, id, db) }
	return &agent.Server{URL: "http://" + listener.Addr().String(), Runs: runs, Stop: func() error {
		defer n.store.Close()
		stop()
		err := n.wait()
		shutDown(server)
		return err
	}}, nil
}
