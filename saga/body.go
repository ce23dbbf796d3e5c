package saga

import (
	"encoding/json"
	"time"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga/expr"
)

// Body is the part of a step that its kind owns. It is one of the shapes below;
// the machine knows shapes, not kinds.
type Body any

// Value is the shape of kinds that only compute: set, fail. They have no intent.
type Value interface {
	// Eval returns the step's output, or an error that fails the step. An error of
	// type *Failure gives the code and title.
	Eval(env expr.Env) (json.RawMessage, error)
}

// Wait is the shape of kinds that wait for a time: sleep.
type Wait interface {
	// Due returns when the wait that begins at `from` ends.
	Due(env expr.Env, from time.Time) (time.Time, error)
}

// Call is the shape of kinds that send requests: http, task, run, llm. Rendering and judging are
// pure and part of the body; the engine's [Caller] performs the request.
type Call interface {
	// Request renders the request. It reads each root of env once, and the same values give the
	// same bytes. Secrets stay references (see expr's sealed rendering). The caller may change the
	// result. An error means that nothing can be sent: the step fails without an effect.
	Request(env expr.Env) (Request, error)
	// ReadOnly reports whether the request has no effect (GET, HEAD), so that it is never in doubt.
	ReadOnly() bool
	// Judge returns the meaning of the answer to r, if the step's `expect` does not determine it.
	Judge(r Request, a Answer) Verdict
}

// Reader is implemented by calls whose output is not simply the answer's body: llm, task.
type Reader interface {
	// Read returns the meaning of a complete answer with an expected status: Succeeded with the
	// step's default output, or a failure. It is called instead of Judge.
	Read(r Request, a Answer) Verdict
	// Records reports whether the whole answer is kept in the journal, in addition to the output.
	Records() bool
}

// Remover is implemented by calls that may undo something by removing it: http.
type Remover interface {
	// Gone reports whether the answer says that the thing to remove does not exist.
	Gone(a Answer) bool
}

// Priced is implemented by calls that know their cost: llm. An author's `cost` replaces the money,
// not the tokens.
type Priced interface {
	// Reserve returns the most that an attempt with this request may use.
	Reserve(r Request) Usage
	// Used returns what the attempt used, as its answer says, also if the attempt failed. ok is
	// false if the answer does not say.
	Used(r Request, a Answer) (u Usage, ok bool)
}

// Modelled is implemented by calls of a language model: llm. Their usage is also counted by model.
type Modelled interface {
	// Model returns the name of the model that a request calls, "" if it names none.
	Model(r Request) string
}

// Usage is the use of an attempt.
type Usage struct {
	Cost   retry.Money // zero: no cost, or an unknown price
	Input  int64       // tokens
	Output int64
}

// Sequel is implemented by calls whose next attempt may be a different request: to the next model,
// or for the repair of an answer. Such a request has a key of its own.
type Sequel interface {
	// Next returns how the attempt after r differs from r: a hint for Follow, as small JSON, which
	// the journal keeps. nil means that it does not differ. a is the answer to r and v its verdict,
	// which is not Succeeded. attempt counts from 1. now says that the next attempt need not wait,
	// and is made even if the class is Refused.
	Next(r Request, a Answer, v Verdict, attempt int) (hint json.RawMessage, now bool)
	// Follow returns the next request, from the last one and the hint.
	Follow(r Request, hint json.RawMessage) (Request, error)
}

// Request is the request of an attempt, as its intent records it, with secrets as references. It is
// an HTTP request (Method, URL, Headers, Body), or one of Task and Child.
type Request struct {
	Method  string            `json:"method,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body,omitempty"`
	Task    *TaskRequest      `json:"task,omitempty"`
	Child   *ChildRequest     `json:"child,omitempty"`
	// Traceparent is set when the request is sent. It is not recorded, and not part of the hash.
	// "": none. A header of this name in Headers takes precedence.
	Traceparent string `json:"-"`
}

// TaskRequest is work for a worker.
type TaskRequest struct {
	Type  string          `json:"type"`
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
// "run" and a definition, "revert" and a saga.
func (r *Request) Target() (verb, object string) {
	switch {
	case r.Task != nil:
		return "task", r.Task.Type
	case r.Child != nil && r.Child.Revert:
		return "revert", "saga " + r.Child.Saga
	case r.Child != nil:
		return "run", r.Child.Definition
	}
	return r.Method, r.URL
}

// String returns the target in one line, for people.
func (r *Request) String() string {
	verb, object := r.Target()
	return verb + " " + object
}

// Payload returns the data that the request carries: an HTTP request's body, or the input of a task
// or child.
func (r *Request) Payload() json.RawMessage {
	switch {
	case r.Task != nil:
		return r.Task.Input
	case r.Child != nil:
		return r.Child.Input
	}
	return r.Body
}

// Report is what a worker, or a child saga, has reported about an attempt in addition to its output
// or error.
type Report struct {
	Retryable bool   // the attempt has no effect, and another may succeed
	InDoubt   bool   // it may have had an effect
	Cost      string // a decimal amount in the saga's currency; "" for unknown
}

// Answer is the answer to a request, or the reason why there is none.
type Answer struct {
	// Sent is false if certainly no byte of the request left this process for the remote service's
	// application: the connection was refused, the name was not found, TLS failed.
	Sent bool
	// Status is 0 if no complete response head arrived.
	Status  int
	Headers map[string]string // names in lower case, without Set-Cookie
	// Body is the body as JSON: a JSON document as it arrived (compacted), text as a JSON string,
	// other bytes as {"base64": "…"}, an empty body as nil.
	Body json.RawMessage
	// Code is the error in transport or in reading the body, "" for none: timeout, connection, dns,
	// tls, egress_denied, secret_missing, url_invalid, request_invalid, body_cut, body_too_large,
	// body_invalid, redirect, interrupted (the process that sent it died), not_sent.
	Code   string
	Detail string // one sentence for a person; no secrets
	// Report is set when a worker or a child saga has reported how the attempt ended.
	Report *Report
	// Final says that nothing was done for the request, and that asking again will not change it.
	Final bool
	// RetryAfter is the wait that the remote service asks for, 0 for none. It is already limited.
	RetryAfter time.Duration
}

// Verdict is the meaning of an answer.
type Verdict struct {
	Class  journal.Class
	Output json.RawMessage // the kind's default output, on success
	Error  *Failure        // if not succeeded
	// SettlesDoubt says that a refusal also settles earlier doubts: no earlier attempt has had an
	// effect, and none will.
	SettlesDoubt bool
}

// Failure says why something failed.
type Failure struct {
	Code   string `json:"code"`
	Title  string `json:"title"`
	Detail string `json:"detail,omitempty"`
}

// Error implements error.
func (f *Failure) Error() string {
	if f.Detail == "" {
		return f.Title
	}
	return f.Title + ": " + f.Detail
}
