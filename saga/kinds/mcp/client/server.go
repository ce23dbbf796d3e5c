package client

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"recourse/internal/egress"
	"recourse/saga"
	"recourse/saga/kinds/mcp"
)

// link is a way to a server that has been greeted.
type link interface {
	// request sends a request and returns the reply. name is the tool, for a call of one.
	request(ctx context.Context, method string, params map[string]any, name string, k *keys) (reply, *failure)
	// usable reports whether a request can be sent, as far as is known.
	usable() bool
	revision() string
	// has reports whether requests with these keys can be sent here: a program has the keys with
	// which it was started.
	has(k *keys) bool
	// retire closes the link, unless another request waits for its reply there.
	retire() bool
	// leave closes the link as soon as no request waits for its reply there.
	leave()
	close()
}

// server is a configured server.
type server struct {
	mcp.Server
	cfg     *Config
	address *url.URL // nil: a command
	sender  *egress.Sender

	greeting chan struct{} // full while somebody greets the server or lists its tools

	mu     sync.Mutex
	link   link                 // nil: none
	former []link               // those whose keys were replaced, and that calls may still use
	tools  map[string]saga.Hint // nil: never listed
	listed time.Time
	closed bool
}

func newServer(cfg *Config, s mcp.Server, sender *egress.Sender) *server {
	out := &server{Server: s, cfg: cfg, sender: sender, greeting: make(chan struct{}, 1)}
	if s.URL != "" {
		out.address, _ = url.Parse(s.URL) // it was checked
	}
	return out
}

// hint returns what the server has last said about a tool; "" if there is no such tool, or the
// server was never asked.
func (s *server) hint(tool string) saga.Hint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools[tool]
}

// current returns the link for requests with these keys, and whether its tools were listed
// recently; nil if there is none.
func (s *server) current(k *keys) (l link, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == nil || !s.link.usable() || !s.link.has(k) {
		return nil, false
	}
	return s.link, s.cfg.Now().Sub(s.listed) < listFor
}

// replace forgets a link that was made with other keys than these. Its calls end there.
func (s *server) replace(k *keys) {
	s.mu.Lock()
	l := s.link
	if l == nil || l.has(k) {
		s.mu.Unlock()
		return
	}
	s.link = nil
	s.former = append(slices.DeleteFunc(s.former, func(l link) bool { return !l.usable() }), l)
	s.mu.Unlock()
	l.leave()
}

// ready returns a link to the server, whose tools are known. A failure means that no call was sent.
func (s *server) ready(ctx context.Context, k *keys) (link, *failure) {
	if l, fresh := s.current(k); fresh {
		return l, nil
	}
	select {
	case s.greeting <- struct{}{}:
	case <-ctx.Done():
		return nil, &failure{code: mcp.CodeNotReady, why: "the server did not answer the greeting in time"}
	}
	defer func() { <-s.greeting }()
	l, fresh := s.current(k)
	if fresh {
		return l, nil
	}
	var f *failure
	if l != nil {
		f = s.list(ctx, l, k)
		switch {
		case f == nil:
			return l, nil
		case f.code == egress.CodeInterrupted: // this says nothing about the server
			return nil, f
		case !s.drop(l), ctx.Err() != nil:
			return nil, f
		}
	}
	s.replace(k)
	if s.address != nil {
		l, f = greetHTTP(ctx, s, k)
	} else {
		l, f = startProcess(ctx, s, k)
	}
	if f != nil {
		return nil, f
	}
	if f := s.list(ctx, l, k); f != nil {
		l.close()
		return nil, f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		l.close()
		return nil, &failure{code: mcp.CodeNotReady, why: "this node is stopping"}
	}
	s.link = l
	return l, nil
}

// drop closes and forgets a link, so that the next call greets the server again. It does not do so
// while another call waits for its reply there: a program that does one thing after another lists
// its tools only after that call, and killing it would leave that call in doubt.
func (s *server) drop(l link) bool {
	if !l.retire() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == l {
		s.link = nil
	}
	return true
}

// outdated says that the server's tools have changed.
func (s *server) outdated() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = time.Time{}
}

func (s *server) close() {
	s.mu.Lock()
	links := s.former
	if s.link != nil {
		links = append(links, s.link)
	}
	s.link, s.former, s.closed = nil, nil, true
	s.mu.Unlock()
	for _, l := range links {
		l.close()
	}
}

// maxPages limits the pages of a list of tools.
const maxPages = 100

// list reads the server's tools.
func (s *server) list(ctx context.Context, l link, k *keys) *failure {
	tools, cursor := make(map[string]saga.Hint), ""
	for range maxPages {
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		rep, f := l.request(ctx, "tools/list", params, "", k)
		if f != nil {
			f.why = "tools/list: " + f.why
			return f
		}
		if rep.err != nil {
			return &failure{sent: true, why: "tools/list: " + rep.err.String()}
		}
		var page struct {
			Tools []struct {
				Name        string `json:"name"`
				Annotations struct {
					ReadOnly   bool `json:"readOnlyHint"`
					Idempotent bool `json:"idempotentHint"`
				} `json:"annotations"`
			} `json:"tools"`
			Next string `json:"nextCursor"`
		}
		if err := json.Unmarshal(rep.result, &page); err != nil {
			return &failure{sent: true, why: "tools/list: the result is not one of MCP"}
		}
		for _, t := range page.Tools {
			switch {
			case t.Annotations.ReadOnly:
				tools[t.Name] = saga.HintRead
			case t.Annotations.Idempotent:
				tools[t.Name] = saga.HintIdempotent
			default:
				tools[t.Name] = saga.HintNone
			}
		}
		if cursor = page.Next; cursor == "" {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.tools, s.listed = tools, s.cfg.Now()
			return nil
		}
	}
	return &failure{sent: true, why: "tools/list: there are more than 100 pages"}
}

// about is the client's part of a greeting.
func (s *server) about() map[string]any {
	return map[string]any{"name": "recourse", "version": s.cfg.Version}
}

// withMeta adds to the parameters of a request what the stateless revision wants.
func (s *server) withMeta(params map[string]any) map[string]any {
	meta := map[string]any{metaRevision: stateless, metaClient: s.about(), metaCapabilities: map[string]any{}}
	if own, ok := params["_meta"].(map[string]any); ok {
		maps.Copy(meta, own)
	}
	out := map[string]any{"_meta": meta}
	for name, value := range params { // any order
		if name != "_meta" {
			out[name] = value
		}
	}
	return out
}

// initialize returns the parameters of the greeting of the older revision.
func (s *server) initialize() map[string]any {
	return map[string]any{"protocolVersion": legacy, "capabilities": map[string]any{}, "clientInfo": s.about()}
}

// greeted reads the result of initialize.
func greeted(rep reply) (revision string, _ *failure) {
	var r struct {
		Revision string `json:"protocolVersion"`
	}
	switch err := json.Unmarshal(rep.result, &r); {
	case rep.err != nil:
		return "", &failure{sent: true, why: "initialize: " + rep.err.String()}
	case err != nil || !slices.Contains(accepted, r.Revision):
		return "", &failure{sent: true, why: "initialize: the server speaks no revision of MCP that this client knows: it has " + stateless + " and " + legacy}
	}
	return r.Revision, nil
}

// speaksStateless reports whether the result of server/discover has the stateless revision.
func speaksStateless(rep reply) bool {
	var r struct {
		Revisions []string `json:"supportedVersions"`
	}
	return rep.err == nil && json.Unmarshal(rep.result, &r) == nil && slices.Contains(r.Revisions, stateless)
}
