package saga

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// Hash returns the SHA-256, in hex, of the verb, the object (see Target) and the payload, separated
// by newlines, as they are in the request: with secrets as references. For an HTTP request these
// are the method, the URL and the body.
func (r *Request) Hash() string {
	verb, object := r.Target()
	text := make([]byte, 0, 256)
	text = append(append(text, verb...), '\n')
	text = append(append(text, object...), '\n')
	sum := sha256.Sum256(append(text, r.Payload()...))
	return hex.EncodeToString(sum[:])
}

// SendHash returns the SHA-256, in hex, of the idempotency key and the whole request, with secrets
// as references: an approval that covers a step compares it. It leaves out what is not of the
// request's author: the id of a child saga, and what a server says about its tool.
func (r *Request) SendHash(key string) string {
	// As it is after decoding.
	text := bytes.ReplaceAll(Encode(r.Hinted(HintNone).Childless()), replaced, []byte("\uFFFD"))
	sum := sha256.Sum256(slices.Concat([]byte(key+"\n"), text))
	return hex.EncodeToString(sum[:])
}

// Request is the request of an attempt, as its intent records it, with secrets as references. It is
// an HTTP request (Method, URL, Headers, Body), or one of Tool, Task, Child and Own.
type Request struct {
	Method  string            `json:"method,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body,omitempty"`
	Task    *TaskRequest      `json:"task,omitempty"`
	Child   *ChildRequest     `json:"child,omitempty"`
	Own     *OwnRequest       `json:"own,omitempty"`
	Tool    *ToolRequest      `json:"mcp,omitempty"`
	// Content is the body of an ask whose session does not store it. It is not recorded, and not
	// part of the hash. nil: it is stored. A pointer, because few requests have one.
	Content *[]byte `json:"-"`
	// Traceparent is set when the request is sent. It is not recorded, and not part of the hash.
	// "": none. A header of this name in Headers takes precedence.
	Traceparent string `json:"-"`
}

// TaskRequest is work for a worker.
type TaskRequest struct {
	Type  string          `json:"type"`
	Input json.RawMessage `json:"input,omitempty"`
}

// ToolRequest is a call of a tool of an MCP server.
type ToolRequest struct {
	Server    string            `json:"server"` // its name in the server's configuration
	Tool      string            `json:"tool"`
	Arguments json.RawMessage   `json:"arguments,omitempty"`
	Meta      map[string]string `json:"_meta,omitempty"`     // has the idempotency key as KeyMeta
	MustRead  bool              `json:"must_read,omitempty"` // it is sent only if the tool is read-only
	// Hint is what the server said about the tool when the intent was written. Without it, a second
	// call may have a second effect.
	Hint Hint `json:"hint,omitempty"`
}

// KeyMeta is the name of the idempotency key in the `_meta` of a tool's call.
const KeyMeta = "recourse/idempotency-key"

// Hint is what the server of a tool says about repeated calls of the tool.
type Hint string

// The hints. They are annotations of MCP: readOnlyHint, idempotentHint, or neither of them.
const (
	HintRead       Hint = "read_only"
	HintIdempotent Hint = "idempotent"
	HintNone       Hint = "none"
)

// Resendable reports whether a second send of a request has no second effect, as far as the request
// itself says. The remote services of other requests are expected to honour the key.
func (r *Request) Resendable() bool {
	return r == nil || r.Tool == nil || r.Tool.Hint == HintRead || r.Tool.Hint == HintIdempotent
}

// Reads reports whether the request is known to have no effect, although its kind may have.
func (r *Request) Reads() bool { return r != nil && r.Tool != nil && r.Tool.Hint == HintRead }

// Hinted returns the request with another hint; itself if it calls no tool.
func (r *Request) Hinted(h Hint) *Request {
	if r == nil || r.Tool == nil || h == "" || r.Tool.Hint == h {
		return r
	}
	again, tool := *r, *r.Tool
	tool.Hint = h
	again.Tool = &tool
	return &again
}

// Childless returns the request without the id of its child saga, which depends on the time at
// which the child starts. The receiver stays as it is.
func (r *Request) Childless() *Request {
	if r.Child == nil {
		return r
	}
	again, child := *r, *r.Child
	child.Saga, child.Budget = "", nil
	again.Child = &child
	return &again
}

// OwnRequest is work that an agent does itself.
type OwnRequest struct {
	ID    string          `json:"id"`
	Input json.RawMessage `json:"input,omitempty"`
}

// ChildRequest asks for a saga to be started as a step's child or, with Revert, to be undone.
type ChildRequest struct {
	Saga   string `json:"saga,omitempty"` // the child's id
	Parent string `json:"parent"`         // the parent's id
	Revert bool   `json:"revert,omitempty"`

	// The fields below belong to a start.
	Definition string          `json:"definition,omitempty"` // "refund", or "refund@v3"
	Input      json.RawMessage `json:"input,omitempty"`
	Path       string          `json:"path,omitempty"`    // the parent's step
	Depth      int             `json:"depth,omitempty"`   // see ParentData
	Starter    string          `json:"starter,omitempty"` // see ParentData
	Final      bool            `json:"final,omitempty"`   // a step of the parent's `finally` starts it
	// Budget is the part of the parent's budget that is reserved for the child; nil: the parent has
	// none. The machine sets it when it decides to send the request.
	Budget *BudgetData `json:"budget,omitempty"`
}

// Target returns what a request does, and to what: "POST" and a URL, "task" and a task's type,
// "run" and a definition, "revert" and a saga, "own" and the id of an own step, "mcp" and a server
// with its tool.
func (r *Request) Target() (verb, object string) {
	switch {
	case r.Task != nil:
		return "task", r.Task.Type
	case r.Child != nil && r.Child.Revert:
		return "revert", "saga " + r.Child.Saga
	case r.Child != nil:
		return "run", r.Child.Definition
	case r.Own != nil:
		return "own", r.Own.ID
	case r.Tool != nil:
		return "mcp", r.Tool.Server + "/" + r.Tool.Tool
	}
	return r.Method, r.URL
}

// String returns the target in one line, for people.
func (r *Request) String() string {
	verb, object := r.Target()
	return verb + " " + object
}

// Payload returns the data that the request carries: an HTTP request's body, or the input of a
// task, child or own step, or a tool's arguments.
func (r *Request) Payload() json.RawMessage {
	switch {
	case r.Task != nil:
		return r.Task.Input
	case r.Child != nil:
		return r.Child.Input
	case r.Own != nil:
		return r.Own.Input
	case r.Tool != nil:
		return r.Tool.Arguments
	}
	return r.Body
}
