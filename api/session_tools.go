package api

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/api/mcp"
	"recourse/catalog"
	"recourse/journal"
	"recourse/saga"
)

// mcpPath is the route of clients of the Model Context Protocol.
const mcpPath = "/mcp"

// mcpLease is that of sessions that such a client has opened. Nothing sends heartbeats for them but
// their calls.
const mcpLease = 24 * time.Hour

// mcpRoutes lists the routes of the Model Context Protocol. GET and DELETE are refused as the
// protocol says.
func (s *server) mcpRoutes() (list []route) {
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		list = append(list, route{method: method, path: mcpPath, op: opLife, orKey: opSession, handler: s.serveMCP, stream: true})
	}
	return append(list, route{method: http.MethodGet, path: "/v1/sessions/actions", op: opSession, handler: s.listCallable})
}

// fromMCP is the key of the context of requests that the MCP server sends in this process.
type fromMCP struct{}

// longestLease returns the longest lease that a session may be opened with.
func longestLease(ctx context.Context) time.Duration {
	if ctx.Value(fromMCP{}) != nil {
		return mcpLease
	}
	return saga.MaxLease
}

// newMCP returns the MCP server, a client of the API.
func (s *server) newMCP(api http.Handler) *mcp.Handler {
	s.tool = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), fromMCP{}, true)))
	})
	return mcp.New(mcp.Config{API: s.tool, Version: s.cfg.Version, Log: s.log, Life: lifeOfClient, Lease: mcpLease, Wait: s.cfg.Limits.Tool, Every: s.cfg.Limits.ToolNote})
}

// toolClient is the key of the context of requests that the MCP server sends in this process for a
// client without a session token. Its value is the caller.
type toolClient struct{}

// lifeOfClient returns the secret and the token of the life in which a client of the MCP server
// acts in a session. They follow from the client's name, so that no node has to remember them, and
// so that they stay the same when its key or access token is replaced. A name is no secret: see
// hashFor.
func lifeOfClient(name, session string) (secret, token string, err error) {
	id, err := uuid.FromString(session)
	if err != nil {
		return "", "", fmt.Errorf("session: %w", err)
	}
	mac := hmac.New(sha256.New, []byte(name))
	mac.Write([]byte("recourse session " + id.String()))
	secret = base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	return secret, Token(id, secret), nil
}

// clientPrefix begins what is hashed of the secret of an MCP client's life. It makes it longer than
// any secret that a request can have.
const clientPrefix = "mcp "

// hashFor returns what the journal knows of a secret in a request; "" for none. That of an MCP
// client's life has another hash than the same text in any other request, because anyone who knows
// the client's name can compute it.
func hashFor(ctx context.Context, secret string) string {
	if _, ok := ctx.Value(toolClient{}).(caller); ok && secret != "" {
		secret = clientPrefix + secret
	}
	return hashSecret(secret)
}

// serveMCP serves /mcp.
func (s *server) serveMCP(c echo.Context) error {
	who := mcp.Caller{Page: origin(c)}
	if credentials := bearer(c); strings.HasPrefix(credentials, TokenPrefix) {
		id, hash, _, err := parseToken(credentials)
		if err != nil {
			return err
		}
		session, err := s.session(c, id)
		if err != nil {
			return err
		}
		l, err := session.life(c.Request().Context(), hash)
		if err != nil {
			return err
		}
		if who.Actions, err = s.pinnedTools(c.Request().Context(), l.live); err != nil {
			return err
		}
		who.Token, who.Session = credentials, id.String()
		c.(*call).letGo() // its tools use the session themselves
	} else {
		client := callerOf(c)
		var err error
		if who.Actions, err = s.callable(c.Request().Context(), client); err != nil {
			return err
		}
		if err := s.pinTool(c, &who); err != nil {
			return err
		}
		who.Name = client.name
		who.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.tool.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), toolClient{}, client)))
		})
	}
	s.mcp.Serve(c.Response(), c.Request(), who)
	return nil
}

// pinTool replaces the actions of a client by that of the session which a request names, if it
// calls a tool that is an action of it: another version may be the newest one since, or none.
func (s *server) pinTool(c echo.Context, who *mcp.Caller) error {
	r, client := c.Request(), callerOf(c)
	body, err := io.ReadAll(http.MaxBytesReader(c.Response(), r.Body, mcp.MaxBody))
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	tool, sessions := mcp.CallOf(body)
	if tool == "" {
		return nil
	}
	if err := s.mayCallTool(r.Context(), client, tool); err != nil {
		return err
	}
	for _, session := range sessions {
		id, err := uuid.FromString(session)
		if err != nil {
			continue
		}
		list, err := s.pinnedFor(c, client, id)
		if p, ok := errors.AsType[*problem](err); ok && p.Status < http.StatusInternalServerError {
			continue // the tool says it when it enters the session
		}
		if err != nil {
			return err
		}
		for i := range list {
			if g := client.binding.Agent; list[i].Name == tool && (g == nil || g.Calls(tool, versionOf(list[i].Action))) {
				who.Actions = list[i : i+1]
				return nil
			}
		}
	}
	return nil
}

// pinnedFor returns the actions of a session for a client that may attach to it.
func (s *server) pinnedFor(c echo.Context, client caller, id uuid.UUID) ([]mcp.Action, error) {
	defer c.(*call).letGo() // its tools use the session themselves
	l, err := s.session(c, id)
	if err != nil {
		return nil, err
	}
	if err := client.mayAttach(id, l.def.Session.Data, l.m.Starter()); err != nil {
		return nil, err
	}
	return s.pinnedTools(c.Request().Context(), l)
}

// versionOf returns the version in a reference to an action.
func versionOf(ref string) int {
	_, version, _ := strings.Cut(ref, "@")
	return parseVersion(version)
}

// listPinned serves GET /v1/sessions/{id}/actions: the actions of a session, with what an agent has
// to know to call them.
func (s *server) listPinned(c echo.Context) error {
	if _, err := readQuery(c); err != nil {
		return err
	}
	l, err := s.readSession(c)
	if err != nil {
		return err
	}
	list, err := s.pinnedTools(c.Request().Context(), l.live)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, page[mcp.Action]{Data: list})
}

// pinnedTools returns the actions of a session, in the order in which it was opened with them.
func (s *server) pinnedTools(ctx context.Context, l *live) ([]mcp.Action, error) {
	list := []mcp.Action{}
	for _, ref := range l.def.Session.Data.Actions {
		name, _, _ := strings.Cut(ref, "@")
		t, err := s.toolOf(ctx, name, versionOf(ref))
		if err != nil {
			return nil, err
		}
		list = append(list, t.Action)
	}
	return list, nil
}

// listCallable serves GET /v1/sessions/actions: the actions with which the caller may open
// sessions.
func (s *server) listCallable(c echo.Context) error {
	if _, err := readQuery(c); err != nil {
		return err
	}
	list, err := s.callable(c.Request().Context(), callerOf(c))
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, page[mcp.Action]{Data: list})
}

// maxTools bounds the list of actions for a key. Clients give all of them to a model.
const maxTools = 200

// callable returns the actions with which a caller may open sessions, by name: in their newest
// versions, or in those that the caller's grant names.
func (s *server) callable(ctx context.Context, who caller) ([]mcp.Action, error) {
	list, err := s.newest(ctx, who)
	if g := who.binding.Agent; err == nil && g != nil {
		for _, ref := range g.Actions {
			name, _, _ := strings.Cut(ref, "@")
			version := g.Version(name)
			if version == 0 || len(list) == maxTools || slices.ContainsFunc(list, func(a mcp.Action) bool { return a.Name == name }) {
				continue
			}
			t, err := s.toolOf(ctx, name, version)
			if errors.Is(err, saga.ErrUnusable) || errors.Is(err, journal.ErrNotFound) {
				continue // it is yet to be published
			}
			if err != nil {
				return nil, err
			}
			if t.forAgents {
				list = append(list, t.Action)
			}
		}
		slices.SortFunc(list, func(a, b mcp.Action) int { return strings.Compare(a.Name, b.Name) })
	}
	return list, err
}

// newest returns the newest versions of actions that a caller may call.
func (s *server) newest(ctx context.Context, who caller) ([]mcp.Action, error) {
	list := []mcp.Action{}
	for after := ""; ; {
		docs, err := s.cfg.Store.Documents(ctx, catalog.ActionKind, after, maxTools)
		if err != nil {
			return nil, err
		}
		for _, d := range docs {
			after = d.Name
			t, err := s.toolOf(ctx, d.Name, d.Version)
			if errors.Is(err, saga.ErrUnusable) || errors.Is(err, journal.ErrNotFound) {
				continue // another release has published it, or it is gone
			}
			if err != nil {
				return nil, err
			}
			if g := who.binding.Agent; t.forAgents && (g == nil || g.Calls(d.Name, d.Version)) && len(list) < maxTools {
				list = append(list, t.Action)
			}
		}
		if len(docs) < maxTools {
			return list, nil
		}
	}
}

// tool is an action as agents see it.
type tool struct {
	mcp.Action
	forAgents bool
}

// toolCache keeps descriptions of actions. A version of an action never changes.
type toolCache struct {
	mu  sync.Mutex
	all map[string]tool // by name and version. Guarded by mu
}

// maxToolCache is the largest number of descriptions that are kept.
const maxToolCache = 1000

// toolOf describes a version of an action.
func (s *server) toolOf(ctx context.Context, name string, version int) (tool, error) {
	ref := fmt.Sprintf("%s@%d", name, version)
	s.tools.mu.Lock()
	t, ok := s.tools.all[ref]
	s.tools.mu.Unlock()
	if ok {
		return t, nil
	}
	a, err := s.cfg.Catalog.Action(ctx, name, version)
	if err != nil {
		return tool{}, err
	}
	t = tool{describeAction(a), a.Agents != nil}
	s.tools.mu.Lock()
	defer s.tools.mu.Unlock()
	if s.tools.all == nil || len(s.tools.all) >= maxToolCache {
		s.tools.all = make(map[string]tool)
	}
	s.tools.all[ref] = t
	return t, nil
}

// describeAction returns what an agent has to know of an action.
func describeAction(a *saga.Action) mcp.Action {
	t := mcp.Action{Action: fmt.Sprintf("%s@%d", a.Name, a.Version), Name: a.Name, Description: a.Description, Effect: mcp.Undoable, Approval: mcp.NoApproval, Once: a.Once != nil, Irreversible: a.Irreversible}
	body, calls := a.Step.Body.(saga.Call)
	switch undo := a.Step.Compensate; {
	case calls && body.ReadOnly():
		t.Effect = mcp.Reads
	case undo == nil || !undo.Applies(journal.Succeeded):
		t.Effect = mcp.Stays
	}
	switch p := a.Agents; {
	case p == nil:
	case p.Approve:
		t.Approval = mcp.AllApprovals
	case p.ApproveWhen != nil:
		t.Approval = mcp.SomeApprovals
	}
	if a.Input != nil {
		t.Input = a.Input.Document()
		if schema, ok := t.Input.(map[string]any); ok {
			t.Title, _ = schema["title"].(string)
		}
	}
	if t.Title == "" {
		t.Title = strings.ToUpper(a.Name[:1]) + strings.ReplaceAll(a.Name[1:], "-", " ")
	}
	return t
}

// maxLastRecords is how many records lastRecords returns.
const maxLastRecords = 1000

// lastRecords serves GET /v1/sessions/{id}/journal: the last records of a session, for its agent.
func (s *server) lastRecords(c echo.Context) error {
	q, err := readQuery(c, "last")
	if err != nil {
		return err
	}
	last := int(q.number("last", maxLastRecords, 1, maxLastRecords))
	if err := q.err(); err != nil {
		return err
	}
	l, err := s.readSession(c)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, page[journal.Record]{Data: l.records[max(0, len(l.records)-last):]})
}
