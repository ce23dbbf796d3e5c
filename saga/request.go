package saga

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

// Request is the request of an attempt, as its intent records it, with secrets as references. It is
// an HTTP request (Method, URL, Headers, Body), or one of Task, Child and Own.
type Request struct {
	Method  string            `json:"method,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body,omitempty"`
	Task    *TaskRequest      `json:"task,omitempty"`
	Child   *ChildRequest     `json:"child,omitempty"`
	Own     *OwnRequest       `json:"own,omitempty"`
	// Traceparent is set when the request is sent. It is not recorded, and not part of the hash.
	// "": none. A header of this name in Headers takes precedence.
	Traceparent string `json:"-"`
}

// TaskRequest is work for a worker.
type TaskRequest struct {
	Type  string          `json:"type"`
	Input json.RawMessage `json:"input,omitempty"`
}

// OwnRequest is work that an agent does itself.
type OwnRequest struct {
	ID    string          `json:"id"`
	Input json.RawMessage `json:"input,omitempty"`
}

// ChildRequest asks for a saga to be started as a step's child or, with Revert, to be undone.
type ChildRequest struct {
	Saga   string `json:"saga"`   // the child's id
	Parent string `json:"parent"` // the parent's id
	Revert bool   `json:"revert,omitempty"`

	// The fields below belong to a start.
	Definition string          `json:"definition,omitempty"` // "refund", or "refund@v3"
	Input      json.RawMessage `json:"input,omitempty"`
	Path       string          `json:"path,omitempty"`    // the parent's step
	Depth      int             `json:"depth,omitempty"`   // see ParentData
	Starter    string          `json:"starter,omitempty"` // see ParentData
	Final      bool            `json:"final,omitempty"`   // a step of the parent's `finally` starts it
}

// Target returns what a request does, and to what: "POST" and a URL, "task" and a task's type,
// "run" and a definition, "revert" and a saga, "own" and the id of an own step.
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
	}
	return r.Method, r.URL
}

// String returns the target in one line, for people.
func (r *Request) String() string {
	verb, object := r.Target()
	return verb + " " + object
}

// Payload returns the data that the request carries: an HTTP request's body, or the input of a
// task, child or own step.
func (r *Request) Payload() json.RawMessage {
	switch {
	case r.Task != nil:
		return r.Task.Input
	case r.Child != nil:
		return r.Child.Input
	case r.Own != nil:
		return r.Own.Input
	}
	return r.Body
}
