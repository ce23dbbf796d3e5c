package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recourse/api/rest"
)

// Arguments of the tools that are not the action's own.
const (
	againArg   = "recourse_again"
	sessionArg = "session"
	// otherSessionArg takes its place if the action has an input of that name.
	otherSessionArg = "recourse_session"
)

// schemaOf makes the schema of a tool's arguments.
type schemaOf map[string]any

// object returns the schema of an object with these properties.
func object(properties map[string]any, required ...string) schemaOf {
	s := schemaOf{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func text(description string) map[string]any {
	return map[string]any{"type": "string", "description": description}
}

// callSchema is the schema of the answer to a call.
var callSchema = schemaOf{
	"type": "object", "required": []string{"path", "action", "status"},
	"properties": map[string]any{
		"path":      text("Names the call in its session, such as refund[0]."),
		"action":    text("The action, with its version."),
		"status":    map[string]any{"type": "string", "enum": []string{"running", "waiting", "succeeded", "failed", "in_doubt", "undone"}},
		"replayed":  map[string]any{"type": "boolean", "description": "The call was made before; this is its recorded answer. Nothing was sent."},
		"key":       text("The idempotency key of its requests."),
		"input":     map[string]any{},
		"output":    map[string]any{},
		"error":     map[string]any{"type": "object"},
		"cost":      text("What it has cost."),
		"waits_for": text("What a person decides: approval, repeat, doubt, budget or credentials."),
		"inbox":     text("The id of the inbox entry that a person decides."),
		"undo":      map[string]any{"type": "string", "enum": []string{"available", "none", "running", "done"}},
		"note":      text("What to do next, in words."),
	},
}

// addTools adds those tools of a client to its server that it needs.
func (a *agent) addTools(s *sdk.Server, needs func(tool string) bool) {
	for i := range a.who.Actions {
		act := &a.who.Actions[i]
		if !needs(act.Name) {
			continue
		}
		a.add(s, a.actionTool(act), a.tool(func(ctx context.Context, req *sdk.CallToolRequest, m members) (*sdk.CallToolResult, error) {
			return a.callAction(ctx, req, act, m)
		}))
	}
	own := func(name, title, description string, hints sdk.ToolAnnotations, properties map[string]any, required []string, output schemaOf, h func(context.Context, *sdk.CallToolRequest, *session, members) (*sdk.CallToolResult, error)) {
		if !needs(name) {
			return
		}
		if a.byKey() {
			properties[sessionArg] = text("The `session` that session_open has returned.")
			required = append(required, sessionArg)
		}
		closed := false
		hints.OpenWorldHint = &closed
		t := &sdk.Tool{Name: name, Title: title, Description: description, Annotations: &hints, InputSchema: object(properties, required...)}
		if output != nil {
			t.OutputSchema = output
		}
		known := slices.Sorted(maps.Keys(properties))
		a.add(s, t, a.tool(func(ctx context.Context, req *sdk.CallToolRequest, m members) (*sdk.CallToolResult, error) {
			if err := m.end(known...); err != nil {
				return nil, err
			}
			session, err := a.enterFrom(ctx, m, sessionArg)
			if err != nil {
				return nil, err
			}
			return h(ctx, req, session, m)
		}))
	}
	yes, no := true, false
	call := func() map[string]any {
		return map[string]any{"call": text("The `path` of a call, such as refund[0].")}
	}
	own("session_status", "Session status", "Lists what the session has done, what is open, what was undone, and the budget that is left.",
		sdk.ToolAnnotations{ReadOnlyHint: true}, map[string]any{}, nil, nil, status)
	own("session_wait", "Wait for a call", "Waits for the end of a call whose answer was \"running\" or \"waiting\", and returns it.",
		sdk.ToolAnnotations{ReadOnlyHint: true}, call(), []string{"call"}, callSchema, wait)
	undo := call()
	undo["reason"] = text("Why; it is recorded.")
	own("session_undo", "Undo a call", "Undoes one call of the session that can be undone; the session goes on.",
		sdk.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true}, undo, []string{"call"}, callSchema, undoCall)
	own("session_commit", "Commit the session", "Ends the work of the session. No tool undoes anything afterwards. Refused while calls are open.",
		sdk.ToolAnnotations{DestructiveHint: &no, IdempotentHint: true}, map[string]any{"output": map[string]any{"description": "The result of the work: any JSON."}}, nil, nil, commit)
	own("session_abort", "Abort the session", "Ends the work, and undoes every call of the session that can be undone, the newest first.",
		sdk.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true}, map[string]any{"reason": text("Why; it is recorded.")}, nil, nil, abort)
	if a.byKey() && needs("session_open") {
		a.add(s, a.openTool(), a.tool(a.open))
	}
}

// add adds a tool to a server. The SDK panics if it cannot read a schema, such as one with a number
// that no float can hold: then the others must not be lost.
func (a *agent) add(s *sdk.Server, t *sdk.Tool, h sdk.ToolHandler) {
	defer func() {
		if v := recover(); v != nil {
			a.cfg.Log.Warn("an action is no tool: MCP clients cannot read its input schema", "action", t.Name, "error", v)
		}
	}()
	s.AddTool(t, h)
}

// tool is a handler of the SDK that reads the arguments, and answers with failures as results,
// which the model sees.
func (a *agent) tool(h func(context.Context, *sdk.CallToolRequest, members) (*sdk.CallToolResult, error)) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (result *sdk.CallToolResult, _ error) {
		defer func() { // the SDK calls it in a goroutine, where a panic would end the program
			if v := recover(); v != nil {
				a.cfg.Log.Error("a tool has failed", "tool", req.Params.Name, "error", v, "stack", string(debug.Stack()))
				result = refusal(fail("internal", "the server's log has the details; calling the tool again with the same arguments is safe"))
			}
		}()
		until, cancel := a.until(ctx)
		defer cancel()
		m, err := parse(req.Params.Arguments)
		if err != nil {
			return refusal(err), nil
		}
		result, err = h(until, req, m)
		switch {
		case err == nil:
			return result, nil
		case until.Err() != nil:
			return nil, until.Err() // nobody reads it
		}
		return refusal(err), nil
	}
}

// refusal is the result of a tool that has done nothing, or does not know whether it has.
func refusal(err error) *sdk.CallToolResult {
	r := &sdk.CallToolResult{IsError: true}
	said := err.Error()
	if p, ok := errors.AsType[*rest.Problem](err); ok {
		said = codeOf(p) + ": " + p.Error()
		if codeOf(p) == "" {
			said = "unavailable: the server does not respond. Call the tool again with the same arguments: an effect is not repeated"
		}
		for _, f := range p.Errors {
			said += fmt.Sprintf("\n- %s: %s: %s", f.Pointer, f.Code, f.Detail)
		}
	} else if _, ours := errors.AsType[*failure](err); !ours {
		said = "unavailable: the answer of the server could not be read. Call the tool again with the same arguments: an effect is not repeated"
	}
	r.Content = []sdk.Content{&sdk.TextContent{Text: said}}
	return r
}

// enterFrom enters the session that an argument names, and removes the argument.
func (a *agent) enterFrom(ctx context.Context, m members, arg string) (*session, error) {
	id := ""
	if a.byKey() {
		if err := m.take(arg, &id, "the text that session_open has returned"); err != nil {
			return nil, err
		}
	}
	return a.enter(ctx, id)
}

// actionTool describes the tool of an action.
func (a *agent) actionTool(act *Action) *sdk.Tool {
	destroys, outside := act.Effect == Stays, true
	t := &sdk.Tool{Name: act.Name, Title: act.Title, Description: describe(act), OutputSchema: callSchema, Annotations: &sdk.ToolAnnotations{
		Title: act.Title, ReadOnlyHint: act.Effect == Reads, DestructiveHint: &destroys, IdempotentHint: act.Effect != Reads, OpenWorldHint: &outside,
	}}
	schema, own := argumentsOf(act)
	properties := maps.Clone(own)
	if act.Effect != Reads && !act.Once {
		properties[againArg] = map[string]any{"type": "integer", "minimum": 0,
			"description": "Leave it out. Only to have the same effect once more on purpose, with the same arguments: 1 for the second time, 2 for the third."}
	}
	if a.byKey() {
		name := sessionArgOf(act)
		properties[name] = text("The `session` that session_open has returned.")
		required, _ := schema["required"].([]any)
		schema["required"] = append(slices.Clone(required), name)
	}
	schema["properties"] = properties
	t.InputSchema = schema
	return t
}

// describe returns the description of an action's tool.
func describe(act *Action) string {
	parts := []string{act.Description}
	switch act.Effect {
	case Undoable:
		parts = append(parts, "Its effect can be undone (session_undo, session_abort).")
	case Stays:
		parts = append(parts, "Its effect cannot be undone.")
	}
	switch act.Approval {
	case AllApprovals:
		parts = append(parts, "A person approves each call before it is sent.")
	case SomeApprovals:
		parts = append(parts, "A person approves some calls before they are sent.")
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

// sessionArgOf returns the name of the argument that names the session.
func sessionArgOf(act *Action) string {
	if _, own := argumentsOf(act); own[sessionArg] != nil {
		return otherSessionArg
	}
	return sessionArg
}

// inputArg is the only argument of an action whose input is no object.
const inputArg = "input"

// isWrapped reports whether the input of an action cannot be an object, as arguments are.
func isWrapped(schema map[string]any) bool {
	switch t := schema["type"].(type) {
	case string:
		return t != "object"
	case []any:
		return !slices.Contains(t, any("object"))
	}
	return false
}

// argumentsOf returns the schema of an action's input as one of arguments, and its properties. The
// result does not share what the caller changes.
func argumentsOf(act *Action) (schema, properties map[string]any) {
	input, _ := act.Input.(map[string]any)
	if isWrapped(input) {
		properties = map[string]any{inputArg: input}
		return map[string]any{"type": "object", "properties": properties, "required": []any{inputArg}}, properties
	}
	schema = maps.Clone(input)
	if schema == nil {
		schema = map[string]any{}
	}
	schema["type"] = "object"
	own, _ := schema["properties"].(map[string]any)
	properties = make(map[string]any, len(own))
	for name, property := range own { // any order
		properties[name] = withoutHeaders(property)
	}
	return schema, properties
}

// withoutHeaders removes the keyword by which clients would copy an argument into an HTTP header:
// inputs do not belong into the logs of proxies.
func withoutHeaders(schema any) any {
	m, ok := schema.(map[string]any)
	if !ok {
		return schema
	}
	m = maps.Clone(m)
	delete(m, "x-mcp-header")
	if inner, ok := m["properties"].(map[string]any); ok {
		inner = maps.Clone(inner)
		for name, property := range inner { // any order
			inner[name] = withoutHeaders(property)
		}
		m["properties"] = inner
	}
	return m
}

// callView is what the tools read of a call.
type callView struct {
	Path     string `json:"path"`
	Status   string `json:"status"`
	WaitsFor string `json:"waits_for"`
	Inbox    string `json:"inbox"`
	Error    *struct {
		Code   string `json:"code"`
		Title  string `json:"title"`
		Detail string `json:"detail"`
	} `json:"error"`
}

func (v *callView) ended() bool { return v.Status != "running" && v.Status != "waiting" }

// callRequest is the body of a call.
type callRequest struct {
	Action string          `json:"action"`
	Input  json.RawMessage `json:"input,omitempty"`
	Again  json.RawMessage `json:"again,omitempty"`
	Wait   string          `json:"wait"`
}

// quick is how long a call waits until a person is asked, if the client can show an address.
const quick = 500 * time.Millisecond

// inMillis writes a duration as the API reads it: in whole numbers.
func inMillis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

// callAction calls an action. The API finds the call if it was made before.
func (a *agent) callAction(ctx context.Context, req *sdk.CallToolRequest, act *Action, m members) (*sdk.CallToolResult, error) {
	body := callRequest{Action: act.Name, Again: m[againArg], Wait: inMillis(a.cfg.Every)}
	if showsAddresses(req) {
		body.Wait = inMillis(quick)
	}
	delete(m, againArg)
	s, err := a.enterFrom(ctx, m, sessionArgOf(act))
	if err != nil {
		return nil, err
	}
	if input, _ := act.Input.(map[string]any); isWrapped(input) {
		body.Input = m[inputArg]
	} else if body.Input, err = encode(m); err != nil {
		return nil, err
	}
	until := time.Now().Add(a.cfg.Wait)
	var raw json.RawMessage
	if _, err := s.send(ctx, http.MethodPost, "calls", body, &raw); err != nil {
		return nil, err
	}
	return s.await(ctx, req, raw, until)
}

// await waits for the end of a call, and tells the client that it does. If a person has to decide,
// and the client can show an address, the person is asked to open it instead. The answer to that is
// not read: only the inbox decides.
func (s *session) await(ctx context.Context, req *sdk.CallToolRequest, raw json.RawMessage, until time.Time) (*sdk.CallToolResult, error) {
	began := time.Now()
	for {
		var v callView
		if err := json.Unmarshal(raw, &v); err != nil {
			return nil, fmt.Errorf("call: %w", err)
		}
		left := time.Until(until)
		switch {
		case v.ended():
			return s.answer(&v, raw)
		case v.Inbox != "" && showsAddresses(req) && len(req.Params.InputResponses) == 0:
			return s.askPerson(&v), nil
		case left <= 0, v.Inbox != "" && len(req.Params.InputResponses) > 0 && !accepted(req):
			return s.answer(&v, raw)
		}
		s.progress(ctx, req, &v, time.Since(began))
		step := min(left, s.cfg.Every)
		asked := time.Now()
		if _, err := s.send(ctx, http.MethodGet, callPath(v.Path)+"?wait="+inMillis(step), nil, &raw); err != nil {
			return nil, err
		}
		if time.Since(asked) < step/2 { // the call has ended, or the server stops
			until = time.Now()
		}
		if err := s.renew(ctx); err != nil {
			return nil, err
		}
	}
}

// callPath returns the part of a path that names a call.
func callPath(path string) string { return rest.Path("calls", path)[1:] }

// progress notifies the client, if it wants that.
func (s *session) progress(ctx context.Context, req *sdk.CallToolRequest, v *callView, waited time.Duration) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return
	}
	message := v.Path + " is " + v.Status
	if v.WaitsFor != "" {
		message += ": a person decides (" + v.WaitsFor + ")"
	}
	p := &sdk.ProgressNotificationParams{ProgressToken: token, Message: message}
	p.Progress, p.Total = waited.Seconds(), s.cfg.Wait.Seconds()
	_ = req.Session.NotifyProgress(ctx, p) // the answer does not depend on it
}

// showsAddresses reports whether the client can show a person an address.
func showsAddresses(req *sdk.CallToolRequest) bool {
	c := req.ClientCapabilities()
	return c != nil && c.Elicitation != nil && c.Elicitation.URL != nil
}

// personRequest is the id of the request to open the inbox.
const personRequest = "inbox"

// accepted reports whether the person has opened the address. It says nothing about the decision.
func accepted(req *sdk.CallToolRequest) bool {
	r, ok := req.Params.InputResponses[personRequest].(*sdk.ElicitResult)
	return ok && r.Action == "accept"
}

// askPerson asks the person at the client to decide in the inbox.
func (s *session) askPerson(v *callView) *sdk.CallToolResult {
	return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{personRequest: &sdk.ElicitParams{
		Mode: "url", URL: s.inboxURL(), ElicitationID: v.Inbox,
		Message: fmt.Sprintf("%s waits for a person (%s). Open the inbox to see the request and to decide; this question decides nothing.", v.Path, v.WaitsFor),
	}}}
}

func (s *session) inboxURL() string { return s.who.Page + "/inbox?saga=" + s.id }

// answer is the result of a call.
func (s *session) answer(v *callView, raw json.RawMessage) (*sdk.CallToolResult, error) {
	advice := ""
	switch v.Status {
	case "failed":
		advice = "The call failed and has no effect. Calling the tool again with the same arguments may send it again."
		if v.Error != nil {
			advice = v.Error.Code + ": " + advice
		}
	case "in_doubt":
		advice = "in_doubt: The call may have had its effect, and nobody knows. Do not make it again in another form: a person has to look (" + s.inboxURL() + ")."
	case "running", "waiting":
		advice = fmt.Sprintf(`The call has not ended. Call session_wait with {"call": %q} to wait for it; it goes on meanwhile.`, v.Path)
		if v.Inbox != "" {
			advice += " A person decides about it (" + v.WaitsFor + "), in the inbox: " + s.inboxURL()
		}
	case "undone":
		advice = "The effect of the call was undone. Calling the tool again with the same arguments may make it again."
	}
	r, err := s.callResult(raw, advice)
	if err == nil {
		r.IsError = v.Status == "failed" || v.Status == "in_doubt"
	}
	return r, err
}

// replayedMeta is the name, in the `_meta` of a result, of what says that the call was made before.
const replayedMeta = "recourse/replayed"

// callResult is the result of a tool that returns a call. It says in `_meta` whether the call was
// made before, and so it does to the model, unless the session's requests to models are in its
// journal: then the model must be shown the same in each life, because recorded answers are found
// by what a model is asked.
func (s *session) callResult(call json.RawMessage, note string) (*sdk.CallToolResult, error) {
	var m members
	if err := json.Unmarshal(call, &m); err != nil {
		return nil, fmt.Errorf("call: %w", err)
	}
	replayed := string(m["replayed"]) == "true"
	if !replayed || s.models {
		delete(m, "replayed")
	}
	shown, err := encode(m)
	if err != nil {
		return nil, err
	}
	r, err := result(shown, note)
	if err != nil {
		return nil, err
	}
	if replayed {
		r.Meta = sdk.Meta{replayedMeta: true}
	}
	return r, nil
}

// result is the result of a tool: an object, and a note in words ("": none). The note is a text and
// a member of the structured content, because some clients show their model only that: Claude Code
// does (https://github.com/anthropics/claude-code/issues/79944).
func result(object json.RawMessage, note string) (*sdk.CallToolResult, error) {
	r := &sdk.CallToolResult{StructuredContent: object, Content: []sdk.Content{&sdk.TextContent{Text: string(object)}}}
	if note == "" {
		return r, nil
	}
	r.Content = append(r.Content, &sdk.TextContent{Text: note})
	var m members
	err := json.Unmarshal(object, &m)
	if err == nil {
		m["note"], err = encode(note)
	}
	if err != nil {
		return nil, err
	}
	all, err := encode(m)
	r.StructuredContent = json.RawMessage(all)
	return r, err
}
