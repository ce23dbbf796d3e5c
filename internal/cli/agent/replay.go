package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/cli"
	"recourse/internal/cli/remote"
	"recourse/internal/sessionreplay"
	"recourse/journal"
)

// Replay is `recourse agent replay`.
type Replay struct {
	remote.ServerFlags
	Session string   `arg:"" completion-predictor:"saga" help:"The session's id, or its first 8 characters or more."`
	Command []string `arg:"" name:"cmd" help:"The agent's program and its arguments, after --."`
}

// errReplayed means that the agent's process was stopped because the replay is over.
var errReplayed = errors.New("the replay is over")

// Run runs the agent against the session's journal, and prints the first difference.
func (c *Replay) Run(a *cli.App) error {
	program, err := exec.LookPath(c.Command[0])
	if err != nil {
		return cli.Exit(cli.Usage, fmt.Errorf("the agent cannot be run: %w", err))
	}
	cl, err := c.Client(a.Ctx)
	if err != nil {
		return err
	}
	r := &runner{app: a, program: program, args: c.Command[1:], replays: true}
	if _, err := cl.Get(remote.SessionPath(c.Session), &r.session); err != nil {
		return err
	}
	replay, err := recorded(a, cl, r.session.ID)
	if err != nil {
		return err
	}
	stop, err := r.serve(replay)
	if err != nil {
		return err
	}
	defer stop()
	code, err := r.process()
	stopped := errors.Is(err, errReplayed)
	if err != nil && !stopped {
		return err
	}
	found, err := replay.Result()
	switch {
	case err != nil:
		return cli.Exit(cli.ExitCode(err), fmt.Errorf("session %s cannot be replayed: %w", r.session.ID, err))
	case found.Difference != nil:
		return cli.Exit(cli.Failed, fmt.Errorf("session %s: %s", r.session.ID, found.Difference))
	case found.Ended == journal.Committed && !stopped && code != 0:
		return cli.Exit(cli.Failed, fmt.Errorf("the agent has made the recorded requests, and then exited with %d: session %s was committed", code, r.session.ID))
	}
	r.note("the same: %s of session %s%s", asked(found), r.session.ID, unended(found))
	return nil
}

// asked counts what the agent has asked for.
func asked(found sessionreplay.Result) string {
	var parts []string
	for _, of := range []struct {
		n         int
		one, many string
	}{{found.Asks, "1 request to a model", "requests to models"}, {found.Calls, "1 call", "calls"}, {found.Steps, "1 own step", "own steps"}} {
		switch of.n {
		case 0:
		case 1:
			parts = append(parts, of.one)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", of.n, of.many))
		}
	}
	return strings.Join(parts, ", ")
}

// unended says where the journal ends, if that is before the end of the agent's work.
func unended(found sessionreplay.Result) string {
	switch {
	case found.Open != "":
		return ", as far as its journal goes: " + found.Open + " has not ended in it"
	case found.Ended == journal.Committed:
		return ""
	case found.Ended == "":
		return ", as far as its journal goes"
	}
	return ", until it was aborted"
}

// recorded reads the session, and returns its replay.
func recorded(a *cli.App, cl *remote.Client, session string) (*sessionreplay.Replay, error) {
	id, err := uuid.FromString(session)
	if err != nil {
		return nil, fmt.Errorf("the server's response has no id: %w", err)
	}
	records, err := cl.Records(session)
	if err != nil {
		return nil, err
	}
	r, err := sessionreplay.New(a.Ctx, sessionreplay.Config{Session: id, Records: records, Source: contents{cl, session}, Version: a.Version})
	if err != nil {
		return nil, cli.Exit(cli.ExitCode(err), fmt.Errorf("session %s cannot be replayed: %w", session, err))
	}
	return r, nil
}

// contents reads what the session's journal refers to from the server.
type contents struct {
	client  *remote.Client
	session string
}

// Action implements sessionreplay.Source.
func (c contents) Action(_ context.Context, name string, version int) ([]byte, error) {
	var doc struct {
		Source string `json:"source"`
	}
	_, err := c.client.Get(fmt.Sprintf("/v1/actions/%s/versions/v%d", name, version), &doc)
	if cli.ExitCode(err) == cli.NotFound {
		return nil, fmt.Errorf("%w: %w", journal.ErrNotFound, err)
	}
	return []byte(doc.Source), err
}

// Ask implements sessionreplay.Source.
func (c contents) Ask(_ context.Context, path string) (request, answer []byte, _ error) {
	var said struct {
		Request json.RawMessage `json:"request"`
		Answer  *struct {
			Text string `json:"text"`
		} `json:"answer"`
	}
	if _, err := c.client.Get(remote.SessionPath(c.session, "asks", path), &said); err != nil {
		return nil, nil, err
	}
	if said.Answer != nil {
		answer = []byte(said.Answer.Text)
	}
	return said.Request, answer, nil
}

// serve serves the replay to the agent's process, on a loopback address and a free port. The
// process is to do what the session's first one did, so it is told that it is the first.
func (r *runner) serve(replay *sessionreplay.Replay) (stop func(), _ error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on a loopback address: %w", err)
	}
	server := &http.Server{Handler: replay.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends with the server
	r.flags.Server = "http://" + listener.Addr().String()
	var d attached
	d.LLM.OpenAI, d.LLM.Anthropic, d.MCP = "/llm/openai/v1", "/llm/anthropic", "/mcp"
	r.life = &life{secret: replay.Secret(), number: 1, routes: r.routes(d, replay.Token()), over: make(chan verdict, 1), stop: func() {}}
	ctx, cancel := context.WithCancel(r.app.Ctx)
	go func() {
		select {
		case <-replay.Over():
			r.life.over <- isReplayed
		case <-ctx.Done():
		}
	}()
	return func() {
		cancel()
		server.Close()
	}, nil
}

// withoutServers removes the variables by which a process finds other servers than the replay.
func withoutServers(env []string) []string {
	return slices.DeleteFunc(env, func(entry string) bool { return strings.HasPrefix(entry, "RECOURSE_SERVER=") })
}
