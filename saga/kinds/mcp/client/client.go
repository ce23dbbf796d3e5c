// Package client calls the tools of MCP servers: over streamable HTTP through package egress, and
// over stdin and stdout of child processes. It speaks the revisions 2026-07-28 and 2025-11-25 of
// the protocol.
//
// A call is sent at most once. Before it, the server may be greeted and asked for its tools, which
// has no effect. The protocol's official SDK is not used here, because it sends calls again by
// itself (see docs/decisions).
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"recourse/internal/egress"
	"recourse/internal/httptext"
	"recourse/saga"
	"recourse/saga/expr"
	"recourse/saga/kinds/mcp"
)

const (
	defaultMaxBody = 4 << 20
	// listFor is how long a list of tools counts. After that it is read again before a call.
	listFor = time.Minute
)

// Config configures a [Caller]. The zero value of a field selects its default.
type Config struct {
	MCP    mcp.Config // [mcp.Config.Check] must have accepted it
	Egress egress.Config
	// Secret returns the value of a secret. Its errors say how to provide it and never hold values.
	Secret      func(name string) (string, error)
	SecretHosts *egress.SecretHosts // the hosts that may receive secrets; nil: any host
	Known       func() []string     // the values of all secrets, which are redacted from answers; nil: none
	MaxBody     int64               // bytes of an answer; default 4 MiB
	Now         func() time.Time    // default time.Now
	Environ     []string            // this process's environment; child processes get a part of it
	Version     string              // of this program
}

// Caller performs the requests of mcp steps. It is safe for concurrent use.
type Caller struct {
	servers map[string]*server
	sender  *egress.Sender
}

// New returns a Caller. Close it when done.
func New(cfg Config) *Caller {
	if cfg.Secret == nil {
		cfg.Secret = func(string) (string, error) { return "", errors.New("no secrets are configured; see --secret-dir") }
	}
	if cfg.Known == nil {
		cfg.Known = func() []string { return nil }
	}
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = defaultMaxBody
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c := &Caller{servers: make(map[string]*server, len(cfg.MCP)), sender: egress.New(cfg.Egress)}
	for _, s := range cfg.MCP {
		c.servers[s.Name] = newServer(&cfg, s, c.sender)
	}
	return c
}

// Close ends the child processes and closes the idle connections.
func (c *Caller) Close() {
	for _, name := range slices.Sorted(maps.Keys(c.servers)) {
		c.servers[name].close()
	}
	c.sender.Close()
}

// Prepare implements engine.Preparer: it adds what the server has last said about the tool.
func (c *Caller) Prepare(r saga.Request) saga.Request {
	if r.Tool == nil || c.servers[r.Tool.Server] == nil {
		return r
	}
	return *r.Hinted(c.servers[r.Tool.Server].hint(r.Tool.Tool))
}

// Call performs a request. ctx has the deadline of the whole attempt. Sent is false only if
// certainly no byte of the call has left this process. Values of secrets do not appear in the
// answer. A complete answer has the status 200, and an mcp.Result as its body.
func (c *Caller) Call(ctx context.Context, r saga.Request) saga.Answer {
	if r.Tool == nil {
		return saga.Answer{Code: egress.CodeRequestInvalid, Detail: "the request names no tool"}
	}
	s := c.servers[r.Tool.Server]
	if s == nil {
		return saga.Answer{Code: saga.CodeServerMissing, Detail: "the server " + r.Tool.Server + " is not under `mcp` in the config file: put it back"}
	}
	keys, err := s.unseal()
	if err != nil {
		return saga.Answer{Code: saga.CodeSecretMissing, Detail: err.Error()}
	}
	a := s.call(ctx, r.Tool, keys)
	a.Detail = keys.redact.Detail(a.Detail)
	return a
}

// Probe greets a server and returns how many tools it has, and the revision that it speaks.
func (c *Caller) Probe(ctx context.Context, name string) (tools int, revision string, err error) {
	s := c.servers[name]
	if s == nil {
		return 0, "", errors.New("there is no such server")
	}
	keys, err := s.unseal()
	if err != nil {
		return 0, "", err
	}
	l, f := s.ready(ctx, keys)
	if f != nil {
		return 0, "", errors.New(keys.redact.Detail(f.why))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tools), l.revision(), nil
}

// keys are the headers, or the variables, of a server with its secrets inserted. They must not be
// shown or stored.
type keys struct {
	values map[string]string
	redact *httptext.Redactor
}

// unseal inserts the secrets of a server's configuration.
func (s *server) unseal() (*keys, error) {
	from := s.Headers
	if s.URL == "" {
		from = s.Env
	}
	out := &keys{values: make(map[string]string, len(from))}
	known := slices.Clone(s.cfg.Known())
	resolve := func(name string) (string, error) {
		value, err := s.cfg.Secret(name)
		switch {
		case err != nil:
			return "", fmt.Errorf("the secret %s of the MCP server %s cannot be had: %s", name, s.Name, httptext.Clip(httptext.Printable(err.Error()), 300))
		case value == "" || s.URL != "" && httptext.HasControl(value) || strings.Contains(value, "\x00"):
			return "", fmt.Errorf("the secret %s of the MCP server %s is empty, or has a control character in it: provide it as one line", name, s.Name)
		}
		if s.address != nil {
			if err := s.cfg.SecretHosts.Allow(name, s.address); err != nil {
				return "", err
			}
		}
		known = append(known, value)
		return value, nil
	}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		var why error
		text, err := expr.Unseal(from[name], func(secret string) (string, error) {
			value, err := resolve(secret)
			why = err
			return value, err
		}, func(value string) string { return value })
		if err != nil {
			return nil, errors.Join(why)
		}
		out.values[name] = text
	}
	out.redact = httptext.NewRedactor(known)
	return out, nil
}

// call makes sure that the server is there and has the tool, and sends the call.
func (s *server) call(ctx context.Context, t *saga.ToolRequest, k *keys) saga.Answer {
	l, f := s.ready(ctx, k)
	if f != nil {
		return f.before()
	}
	hint := s.hint(t.Tool)
	switch {
	case hint == "":
		return saga.Answer{Code: mcp.CodeToolMissing, Detail: "the server " + s.Name + " has no tool " + t.Tool + s.others()}
	case t.MustRead && hint != saga.HintRead:
		return saga.Answer{Code: mcp.CodeToolWrites, Detail: "the server does not say of " + t.Tool + " that it is read-only (readOnlyHint)", Hint: hint}
	case weaker(hint, t.Hint):
		// The intent, which decides what follows if this process dies, says more than is true.
		return saga.Answer{Code: mcp.CodeNotReady, Detail: "the server says something else about " + t.Tool + " than before: readOnlyHint or idempotentHint is gone", Hint: hint}
	}
	rep, f := l.request(ctx, "tools/call", callParams(t), t.Tool, k)
	var a saga.Answer
	if f != nil {
		a = f.after()
	} else {
		a = rep.answer(k.redact)
	}
	a.Hint = hint
	return a
}

// weaker reports whether a server promises less now than it did.
func weaker(now, before saga.Hint) bool {
	rank := map[saga.Hint]int{saga.HintIdempotent: 1, saga.HintRead: 2}
	return rank[now] < rank[before]
}

// others lists some of the server's tools.
func (s *server) others() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.Sorted(maps.Keys(s.tools))
	if len(names) == 0 {
		return ": it has none"
	}
	if len(names) > 10 {
		names = append(names[:10], "…")
	}
	return ", it has " + strings.Join(names, ", ")
}

func callParams(t *saga.ToolRequest) map[string]any {
	p := map[string]any{"name": t.Tool, "arguments": json.RawMessage("{}")}
	if len(t.Arguments) > 0 {
		p["arguments"] = t.Arguments
	}
	if len(t.Meta) > 0 {
		meta := make(map[string]any, len(t.Meta))
		for name, value := range t.Meta { // any order
			meta[name] = value
		}
		p["_meta"] = meta
	}
	return p
}
