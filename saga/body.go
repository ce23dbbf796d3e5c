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

// Call is the shape of kinds that touch the world: http. Rendering and judging
// are pure and stand here; performing the request is the engine's [Caller].
type Call interface {
	// Request renders the request: env is asked once, and the same values give the same bytes.
	// Secrets stay references (see expr's sealed rendering). The caller may change what it gets. An
	// error means that nothing can be sent: the step fails without an effect.
	Request(env expr.Env) (Request, error)
	// ReadOnly reports whether the request can leave no effect (GET, HEAD), so that
	// it is never in doubt.
	ReadOnly() bool
	// Judge says what the answer to r means, where the step's `expect` has not
	// said it already.
	Judge(r Request, a Answer) Verdict
}

// Reader is implemented by calls whose output is not simply the answer's body: llm, task.
type Reader interface {
	// Read says what an answer holds that came whole and with an expected status:
	// Succeeded with the step's default output, or a failure. It takes the place of Judge then.
	Read(r Request, a Answer) Verdict
	// Records reports whether the whole answer is kept in the journal, beside the output.
	Records() bool
}

// Remover is implemented by calls that may undo something by removing it: http.
type Remover interface {
	// Gone reports whether an answer says that what was to be removed is not there.
	Gone(a Answer) bool
}

// Priced is implemented by calls that know what they cost: llm. An author's `cost` takes the place
// of their money.
type Priced interface {
	// Reserve returns the most that an attempt with this request may use.
	Reserve(r Request) Usage
	// Used returns what the attempt has used, as its answer says, whatever became of it; ok is
	// false when the answer does not say.
	Used(r Request, a Answer) (u Usage, ok bool)
}

// Modelled is implemented by calls that ask a language model: llm. Their usage is counted by model,
// too.
type Modelled interface {
	// Model returns the name of the model that a request asks, "" if it names none.
	Model(r Request) string
}

// Usage is what an attempt uses.
type Usage struct {
	Cost   retry.Money // zero: nothing, or its price is not known
	Input  int64       // tokens
	Output int64
}

// Sequel is implemented by calls whose next attempt may be another request: the
// next model, an answer to be repaired. Such a request has a key of its own.
type Sequel interface {
	// Next says how the attempt that follows one with r, which got a and was judged v (not
	// Succeeded), differs from it: a hint for Follow, as small JSON, which the journal keeps. nil:
	// it does not. attempt counts from 1. With now the next attempt need not wait, and it is made
	// although the class is Refused.
	Next(r Request, a Answer, v Verdict, attempt int) (hint json.RawMessage, now bool)
	// Follow makes the next request of the last one and the hint.
	Follow(r Request, hint json.RawMessage) (Request, error)
}

// Request is what an attempt asks for, as its intent records it: secrets are references. It is an
// HTTP request (Method, URL, Headers, Body), or one of Task and Child.
type Request struct {
	Method  string            `json:"method,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body,omitempty"`
	Task    *TaskRequest      `json:"task,omitempty"`
	Child   *ChildRequest     `json:"child,omitempty"`
	// Traceparent is set as the request leaves; it is not recorded, nor part of the hash. "": none.
	// Headers win.
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

	// The fields below are of a start.
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

// Report is what a worker, or a child saga, has reported of an attempt besides its output or error.
type Report struct {
	Retryable bool   // the attempt has no effect, and another may succeed
	InDoubt   bool   // it may have an effect all the same
	Cost      string // a decimal amount in the saga's currency; "" for unknown
}

// Answer is what came back, or did not.
type Answer struct {
	// Sent is false when surely no byte of the request left this process for the
	// other side's application: the connection was refused, the name was not found, TLS failed.
	Sent bool
	// Status is 0 when no complete response head arrived.
	Status  int
	Headers map[string]string // names in lower case; Set-Cookie is left out
	// Body is the body as JSON: a JSON document as it came (compacted), text as a
	// JSON string, other bytes as {"base64": "…"}, nothing as nil.
	Body json.RawMessage
	// Code says what went wrong in transport or in reading the body, "" for nothing:
	// timeout, connection, dns, tls, egress_denied, secret_missing, url_invalid,
	// request_invalid, body_cut, body_too_large, body_invalid, redirect,
	// interrupted (the process that sent it died), not_sent.
	Code   string
	Detail string // one sentence for a person; no secrets
	// Report is set when a worker or a child saga has reported how the attempt ended.
	Report *Report
	// Final says that nothing was done for the request, and that asking again will not change it.
	Final bool
	// RetryAfter is what the other side asks for, 0 for nothing; already clamped.
	RetryAfter time.Duration
}

// Verdict is what an answer means.
type Verdict struct {
	Class  journal.Class
	Output json.RawMessage // the kind's default output, on success
	Error  *Failure        // otherwise
	// Settles says of a refusal that no earlier attempt has had an effect either, and none will.
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
