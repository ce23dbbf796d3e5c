package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"recourse/api/mcp"
	"recourse/internal/cli"
	"recourse/internal/cli/config"
	"recourse/internal/cli/remote"
)

// MCP is `recourse mcp`.
type MCP struct {
	Server   string   `env:"RECOURSE_SERVER" placeholder:"URL" help:"The server's address. Default: a server in this process, with --database."`
	APIKey   string   `name:"api-key" env:"RECOURSE_API_KEY" placeholder:"KEY" help:"The API key, of the role agent. Prefer the environment variable."`
	Name     string   `default:"assistant" help:"What sessions of this kind are called; default ${default}."`
	Key      string   `placeholder:"KEY" help:"Continue the session that was opened with this key, or open one. Default: open a session."`
	Actions  []string `required:"" placeholder:"NAME[@VERSION]|FILE|DIR" help:"The actions that are tools, separated by commas: their names with --server, and files or directories without."`
	Budget   string   `placeholder:"AMOUNT" help:"The most that the session may cost, such as \"5.00 USD\"."`
	Parent   string   `placeholder:"ID" help:"The whole id of the saga or session whose budget pays for this session."`
	Database string   `placeholder:"FILE|URL" help:"The database of the server in this process; default recourse.db. Without --server only."`
	config.LocalFlags
}

// Run serves the client that has started this process, on stdin and stdout, in a session that it
// opens and keeps attached.
func (c *MCP) Run(a *cli.App, embed Embed) error {
	body := openRequest{Name: c.Name, Key: c.Key, Actions: c.Actions, Budget: money(c.Budget), Parent: c.Parent}
	r := &runner{app: a, flags: remote.ServerFlags{Server: c.Server, APIKey: c.APIKey}, keyed: c.Key != ""}
	local := Run{Server: c.Server, Actions: c.Actions, Database: c.Database, LocalFlags: c.LocalFlags}
	stop, err := local.connect(r, embed, &body)
	if err != nil {
		return err
	}
	defer stop()
	found, err := r.open(body)
	if err != nil {
		return err
	}
	if r.session.Status.Terminal() {
		return cli.Exit(cli.Conflict, fmt.Errorf("the session of key %s has ended as %s: choose another --key", c.Key, r.session.Status))
	}
	r.watcher = r.watch(true, found)
	defer r.watcher.stop()
	if err := r.begin(); err != nil {
		return err
	}
	defer r.life.stop()
	err = r.serveTools()
	r.watcher.stop() // it reads the session with the token
	r.leave()
	return err
}

// serveTools serves the client until it closes stdin, or the command is stopped.
func (r *runner) serveTools() error {
	var list struct {
		Data []mcp.Action `json:"data"`
	}
	answer, err := r.ask(http.MethodGet, "actions", nil)
	if err == nil {
		err = answer.Into(&list)
	}
	if err != nil {
		return err
	}
	server, err := url.Parse(strings.TrimRight(r.flags.Server, "/"))
	if err != nil {
		return cli.Exit(cli.Usage, err)
	}
	who := mcp.Caller{Token: r.token(r.life.secret), Session: r.session.ID, Actions: list.Data, Page: r.flags.Address(), Attach: func(ctx context.Context) error {
		_, err := r.attach(ctx, r.life.secret, "") // the machine may have slept
		return err
	}}
	h := mcp.New(mcp.Config{API: forward(server), Version: r.app.Version})
	err = h.ServeStreams(r.app.Ctx, io.NopCloser(r.app.Stdin), nopWriteCloser{r.app.RawStdout()}, who)
	if err != nil && r.app.Ctx.Err() == nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

type nopWriteCloser struct{ io.Writer }

// Close implements io.Closer.
func (nopWriteCloser) Close() error { return nil }

// forward returns a handler that forwards requests to the server.
func forward(server *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(server) },
		ModifyResponse: func(r *http.Response) error {
			// Outside a server, ReverseProxy ignores that a body breaks off, and a text would seem
			// to be whole. An error here reaches ErrorHandler.
			body, err := io.ReadAll(r.Body)
			_ = r.Body.Close() // it was read
			r.Body = io.NopCloser(bytes.NewReader(body))
			return err
		},
		ErrorLog: log.New(io.Discard, "", 0), // the client gets the error
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.WriteHeader(http.StatusBadGateway) // without a problem: the tools say what to do
		},
	}
}

// leave ends the use of the session when the client has gone. Nobody can continue a session without
// a key: one without calls is committed, so that it does not wait for a person.
func (r *runner) leave() {
	r.life.stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.app.Ctx), detachTime)
	defer cancel()
	token := r.token(r.life.secret)
	var now session
	answer, err := r.try(ctx, token, remote.Call{Method: http.MethodGet, Path: remote.SessionPath(r.session.ID)})
	if err == nil {
		err = answer.Into(&now)
	}
	if err == nil && now.Status.Terminal() {
		return
	}
	if !r.keyed {
		var calls struct {
			Data []struct{} `json:"data"`
		}
		answer, err := r.try(ctx, token, remote.Call{Method: http.MethodGet, Path: remote.SessionPath(r.session.ID, "calls")})
		if err == nil && answer.Into(&calls) == nil && len(calls.Data) == 0 {
			if _, err := r.try(ctx, token, remote.Call{Method: http.MethodPost, Path: remote.SessionPath(r.session.ID, "commit"), Body: struct{}{}}); err == nil {
				r.note("session %s is committed: it has no calls", r.session.ID)
				return
			}
		}
	}
	r.detach()
	r.note("%s", r.goesOn())
}
