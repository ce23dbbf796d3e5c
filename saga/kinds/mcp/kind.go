// Package mcp is the step kind that calls a tool of an MCP server.
//
// The package is pure: it determines the request and the meaning of an answer. Package client sends
// the requests, over streamable HTTP or to a child process.
//
// The protocol has no idempotency. The server says of each tool whether it only reads
// (readOnlyHint) or may be called twice (idempotentHint). An intent records that, and the machine
// sends a call in doubt again only if it says so, or the author does.
package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"recourse/idempotency"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

// Name is the name of the kind.
const Name = "mcp"

// DefaultTimeout is the timeout of one attempt.
const DefaultTimeout = 60 * time.Second

// MaxTool is the longest name of a tool, in bytes.
const MaxTool = 128

// ServerName is the pattern of the names of servers.
var ServerName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

// Kind describes the kind. servers are the names of the configured servers. nil means that they are
// unknown, so that every name is accepted.
func Kind(servers []string) dsl.Kind {
	return dsl.Kind{
		Name: Name,
		Value: json.RawMessage(`{"type": "object", "additionalProperties": false, "required": ["server", "tool"], "properties": {
			"server": {"type": "string", "pattern": "` + ServerName.String() + `"}, "tool": {"type": "string", "minLength": 1, "maxLength": 128},
			"arguments": {"type": ["object", "string"]}}}`),
		Doc: "Calls a `tool` of an MCP `server` that the configuration names, with `arguments`. `result` is `{content, structured, is_error}`; the output is the structured content, or else the text. " +
			"The idempotency key is in `_meta`, as `" + saga.KeyMeta + "`. A lost answer is in doubt; the call is sent again only if the server says that the tool is read-only or idempotent, or with `in_doubt: retry`.",
		Timeout: DefaultTimeout,
		Sends:   true,
		Fails:   dsl.ByAccident,
		Decode:  func(d *dsl.Decoder) saga.Body { return decode(d, servers) },
	}
}

// Body is an mcp step: its shape is [saga.Call]. It is immutable.
type Body struct {
	server, tool string
	arguments    *expr.Template // nil: none
	reads        bool           // it calls read-only tools only: a status check, or a step with fresh_for
}

var (
	_ saga.Call      = (*Body)(nil)
	_ saga.Reader    = (*Body)(nil)
	_ dsl.KeyCarrier = (*Body)(nil)
	_ dsl.Resulting  = (*Body)(nil)
)

func decode(d *dsl.Decoder, servers []string) saga.Body {
	own := d.Own()
	if !d.Known(own, Name, "server", "tool", "arguments") && own.Form != dsl.Map {
		return nil
	}
	b := &Body{reads: d.Reads()}
	if n := own.Get("server"); n == nil {
		d.Fail(own, "missing_key", "mcp needs the name of a server, which the configuration has under mcp")
	} else if name, ok := d.Str(n, "the name of a server"); ok {
		b.server = name
		checkServer(d, n, name, servers)
	}
	if n := own.Get("tool"); n == nil {
		d.Fail(own, "missing_key", "mcp needs the name of a tool of the server")
	} else if name, ok := d.Str(n, "the name of a tool"); ok {
		if b.tool = name; name == "" || len(name) > MaxTool || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) || strings.Contains(name, "${") {
			d.Fail(n, "bad_name", "a tool's name is 1 to %d bytes without spaces and without expressions", MaxTool)
		}
	}
	if n := own.Get("arguments"); n != nil && !n.IsNull() {
		if n.Form == dsl.List || n.Form == dsl.Scalar && !n.IsText() {
			d.Expect(n, "a map of arguments, by the names in the tool's schema")
			return b
		}
		b.arguments = d.Typed(n, dsl.InRequest, expr.KindObject, "arguments are a map, by the names in the tool's schema")
	}
	return b
}

func checkServer(d *dsl.Decoder, n *dsl.Node, name string, servers []string) {
	switch {
	case !ServerName.MatchString(name):
		d.Fail(n, "bad_name", "a server's name is a small letter, then up to 62 small letters, digits, _ or -; it is constant")
	case servers == nil || d.Stored() || slices.Contains(servers, name):
	case len(servers) == 0:
		d.Fail(n, "unknown_server", "there is no MCP server %q: none is configured; put it under `mcp` in the file of --config", name)
	default:
		hint := dsl.Suggest(name, servers)
		if hint == "" {
			hint = ", there are " + strings.Join(servers, ", ")
		}
		d.Fail(n, "unknown_server", "there is no MCP server %q under `mcp` in the file of --config%s", name, hint)
	}
}

// ReadOnly implements saga.Call. What a tool does is known only when the server has said it, so a
// step counts as a write. A status check, and a step that is read again later, refuse tools that
// are not read-only.
func (b *Body) ReadOnly() bool { return b.reads }

// CarriesKey implements dsl.KeyCarrier.
func (b *Body) CarriesKey(in, name string) error {
	switch idempotency.In(in) {
	case idempotency.Header:
		if name == idempotency.DefaultPlacement.Name {
			return nil
		}
	case idempotency.Body:
		return nil
	}
	return errors.New("the key of a tool's call is always in `_meta`, as " + saga.KeyMeta + "; idempotency may put it into an argument as well (body: name), or replace it (key: …)")
}

// Request implements saga.Call.
func (b *Body) Request(env expr.Env) (saga.Request, error) {
	t := &saga.ToolRequest{Server: b.server, Tool: b.tool, MustRead: b.reads}
	if b.arguments == nil {
		return saga.Request{Tool: t}, nil
	}
	var err error
	if t.Arguments, err = b.arguments.JSON(env); err != nil {
		return saga.Request{}, err
	}
	if len(t.Arguments) > 0 && t.Arguments[0] != '{' && !(expr.IsPartial(env) && expr.HasPlaceholder(t.Arguments)) {
		return saga.Request{}, &saga.Failure{Code: "bad_request", Title: "the call cannot be sent", Detail: "arguments must be a map"}
	}
	return saga.Request{Tool: t}, nil
}

// ResultType implements dsl.Resulting.
func (b *Body) ResultType(schema *expr.Type) *expr.Type {
	if schema == nil {
		schema = expr.Any()
	}
	return expr.Fields(map[string]*expr.Type{"content": expr.Items(expr.Any()), "structured": schema.With(expr.KindNull, false), "is_error": expr.Exactly(expr.KindBool)}, nil)
}

// Result implements saga.Resulting. An answer without a result has an empty one.
func (b *Body) Result(a saga.Answer) any {
	r, err := resultOf(a.Body)
	if err != nil {
		r = Result{}
	}
	return map[string]any{"content": value(r.Content, "[]"), "structured": value(r.Structured, "null"), "is_error": r.IsError}
}

func value(doc json.RawMessage, without string) any {
	if len(doc) == 0 {
		doc = json.RawMessage(without)
	}
	return expr.Raw(doc)
}

// target returns the server and the tool, for messages.
func target(r saga.Request) string {
	if r.Tool == nil {
		return "the tool"
	}
	return fmt.Sprintf("%s of %s", r.Tool.Tool, r.Tool.Server)
}
