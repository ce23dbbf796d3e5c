package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// sessionView is what the tools say of a session.
type sessionView struct {
	ID       string          `json:"id"`
	Status   string          `json:"status"`
	Cost     json.RawMessage `json:"cost"`
	Residual json.RawMessage `json:"residual,omitempty"`
	Doubts   json.RawMessage `json:"doubts,omitempty"`
	Open     []string        `json:"open,omitempty"`
	Session  struct {
		Name    string   `json:"name"`
		Actions []string `json:"actions"`
	} `json:"session"`
}

// result returns a session as the result of a tool, with a text.
func (v *sessionView) result(said string) (*sdk.CallToolResult, error) {
	out := struct {
		Session  string          `json:"session"`
		Name     string          `json:"name"`
		Status   string          `json:"status"`
		Actions  []string        `json:"actions"`
		Cost     json.RawMessage `json:"cost"`
		Open     []string        `json:"open,omitempty"`     // ids of inbox entries
		Residual json.RawMessage `json:"residual,omitempty"` // effects that stay after an abort
		Doubts   json.RawMessage `json:"doubts,omitempty"`   // effects that may stay
	}{v.ID, v.Session.Name, v.Status, v.Session.Actions, v.Cost, v.Open, v.Residual, v.Doubts}
	raw, err := encode(out)
	if err != nil {
		return nil, err
	}
	return result(raw, said)
}

// status is the tool session_status.
func status(ctx context.Context, _ *sdk.CallToolRequest, s *session, _ members) (*sdk.CallToolResult, error) {
	var v sessionView
	if _, err := s.send(ctx, http.MethodGet, "", nil, &v); err != nil {
		return nil, err
	}
	said, err := s.text(ctx, "summary")
	if err != nil {
		return nil, err
	}
	return v.result(said)
}

// text reads a part of the session that is no JSON.
func (s *session) text(ctx context.Context, part string) (string, error) {
	reply, err := s.send(ctx, http.MethodGet, part, nil, nil)
	if err != nil {
		return "", err
	}
	return reply.Text(), nil
}

// pathOf reads the argument that names a call.
func pathOf(m members) (string, error) {
	path := ""
	if err := m.take("call", &path, "the `path` of a call, such as refund[0]"); err != nil {
		return "", err
	}
	if path == "" {
		return "", fail("invalid_request", "the argument `call` is missing: send the `path` of a call, such as refund[0]; session_status lists them")
	}
	return path, nil
}

// wait is the tool session_wait.
func wait(ctx context.Context, req *sdk.CallToolRequest, s *session, m members) (*sdk.CallToolResult, error) {
	path, err := pathOf(m)
	if err != nil {
		return nil, err
	}
	until := time.Now().Add(s.cfg.Wait)
	var raw json.RawMessage
	if _, err := s.send(ctx, http.MethodGet, callPath(path), nil, &raw); err != nil {
		return nil, err
	}
	return s.await(ctx, req, raw, until)
}

// undoCall is the tool session_undo.
func undoCall(ctx context.Context, _ *sdk.CallToolRequest, s *session, m members) (*sdk.CallToolResult, error) {
	path, err := pathOf(m)
	if err != nil {
		return nil, err
	}
	body, err := reasonOf(m)
	if err != nil {
		return nil, err
	}
	var raw json.RawMessage
	if _, err := s.send(ctx, http.MethodPost, callPath(path)+"/undo", body, &raw); err != nil {
		return nil, err
	}
	return s.callResult(raw, `While "undo" is "running", it goes on; session_status shows the end.`)
}

// reasonOf returns the body of a command that may have a reason.
func reasonOf(m members) (map[string]string, error) {
	reason := ""
	if err := m.take("reason", &reason, "text"); err != nil || strings.TrimSpace(reason) == "" {
		return map[string]string{}, err
	}
	return map[string]string{"reason": reason}, nil
}

// commit is the tool session_commit.
func commit(ctx context.Context, _ *sdk.CallToolRequest, s *session, m members) (*sdk.CallToolResult, error) {
	body := members{}
	if output := m["output"]; output != nil {
		body["output"] = output
	}
	var v sessionView
	if _, err := s.send(ctx, http.MethodPost, "commit", body, &v); err != nil {
		return nil, err
	}
	return v.result("The session is committed: its work is done, and no tool undoes any of it.")
}

// abort is the tool session_abort.
func abort(ctx context.Context, _ *sdk.CallToolRequest, s *session, m members) (*sdk.CallToolResult, error) {
	body, err := reasonOf(m)
	if err != nil {
		return nil, err
	}
	var v sessionView
	if _, err := s.send(ctx, http.MethodPost, "abort", body, &v); err != nil {
		return nil, err
	}
	return v.result("The calls of the session are being undone, the newest first. session_status shows how far it is, and what stays.")
}

// openTool describes session_open.
func (a *agent) openTool() *sdk.Tool {
	names := make([]any, len(a.who.Actions))
	for i := range a.who.Actions {
		names[i] = a.who.Actions[i].Name
	}
	no := false
	actions := map[string]any{"type": "array", "items": map[string]any{"type": "string", "enum": names}, "description": "The tools that the session uses. Default: all of this server."}
	if len(names) == 0 {
		actions["items"] = map[string]any{"type": "string"}
	}
	return &sdk.Tool{Name: "session_open", Title: "Open a session", InputSchema: object(map[string]any{
		"key":     text("Names the task, such as ticket-17. The same key finds the same session again, so a new task needs a new key."),
		"name":    text("What sessions of this kind are called, such as support: small letters, digits and dashes. Default: assistant."),
		"actions": actions,
		"budget":  text(`The most that the session may cost, such as "5.00 USD".`),
	}, "key"), Description: "Opens a session, in which the other tools are called: send the `session` that it returns with each call. Open one for each task, and end it with session_commit or session_abort.",
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &no, IdempotentHint: true, OpenWorldHint: &no}}
}

// openRequest is the body that opens a session. With the same key it must be the same.
type openRequest struct {
	Key     string         `json:"key"`
	Name    string         `json:"name"`
	Actions []string       `json:"actions"`
	Budget  string         `json:"budget,omitempty"`
	Lease   string         `json:"lease"`
	OnLost  map[string]any `json:"on_lost,omitempty"`
}

// open is the tool session_open.
func (a *agent) open(ctx context.Context, _ *sdk.CallToolRequest, m members) (*sdk.CallToolResult, error) {
	body := openRequest{Name: "assistant", Lease: inMillis(a.cfg.Lease)}
	if err := m.end("key", "name", "actions", "budget"); err != nil {
		return nil, err
	}
	for name, into := range map[string]*string{"key": &body.Key, "name": &body.Name, "budget": &body.Budget} {
		if err := m.take(name, into, "text"); err != nil {
			return nil, err
		}
	}
	if err := m.take("actions", &body.Actions, "a list of names"); err != nil {
		return nil, err
	}
	if body.Key == "" {
		return nil, fail("invalid_request", "the argument `key` is missing: name the task, such as ticket-17")
	}
	if len(body.Actions) == 0 { // not their names: the same key must find the session when there are more
		body.Actions = []string{"*"}
	}
	var v sessionView
	if _, err := do(ctx, a.api, http.MethodPost, "/v1/sessions", body, &v); err != nil {
		return nil, err
	}
	secret, _, err := a.cfg.Life(a.who.Name, v.ID)
	if err != nil {
		return nil, err
	}
	switch err := a.attach(ctx, v.ID, secret); codeOf(err) {
	case "terminal", "committed", "aborted":
		return v.result("The session of this key is over: its status is " + v.Status + ". For another task, open one with another key.")
	default:
		if err != nil {
			return nil, err
		}
	}
	return v.result("Send this `session` with each call of the tools.")
}
