package saga

import (
	"encoding/json"
	"time"

	"recourse/journal"
)

// Report is what a worker, or a child saga, has reported about an attempt in addition to its output
// or error.
type Report struct {
	Retryable bool   // the attempt has no effect, and another may succeed
	InDoubt   bool   // it may have had an effect
	Cost      string // a decimal amount in the saga's currency; "" for unknown
	Child     *ChildCost
}

// ChildCost is what a child saga has cost, its own children included, as it reports to its parent.
type ChildCost struct {
	Currency string `json:"currency,omitempty"` // "": it has no amounts
	Spent    string `json:"spent"`
	// Reserved is what it may have spent in addition, or may still spend: the cost of attempts that
	// is unknown, and what is left of the budget if steps of `finally` may cost something.
	Reserved string     `json:"reserved,omitempty"`
	Tokens   TokensView `json:"tokens"` // its Reserved as above
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
	// Content is the body as it arrived, for kinds that keep it next to the journal; nil for
	// others.
	Content []byte
	// Code is the error in transport or in reading the body, "" for none: timeout, connection, dns,
	// tls, egress_denied, secret_missing, url_invalid, request_invalid, body_cut, body_too_large,
	// body_invalid, redirect, interrupted (the process that sent it died), not_sent.
	Code   string
	Detail string // one sentence for a person; no secrets
	// Report is set when a worker or a child saga has reported how the attempt ended.
	Report *Report
	// Final says that nothing was done for the request, and that asking again will not change it.
	Final bool
	// Hint is what the server of the called tool says about it; "" if it was not asked.
	Hint Hint
	// RetryAfter is the wait that the remote service asks for, 0 for none. It is already limited.
	RetryAfter time.Duration
	// Reading is what the answer means by the step's kind and `expect.schema`, if that has been
	// found out already; nil if it has not.
	Reading *Reading
}

// Reading is what an answer with an expected status means by the step's kind and its
// `expect.schema`. It depends only on the step, the request and the answer.
type Reading struct {
	// Verdict is the kind's, see [Reader]. For a kind that is no Reader, it is Succeeded with the
	// answer's body.
	Verdict   Verdict
	Mismatch  string // how the body breaks the schema; "" if it does not, or if Verdict is a failure
	TooCostly bool   // the body could not be validated; Mismatch says why
}

// Interrupted is the code of the answer to an attempt whose process died, or was stopped, before an
// answer came.
const Interrupted = "interrupted"

// InterruptedAnswer returns the answer to an attempt whose process died. Whether the attempt took
// effect is unknown.
func InterruptedAnswer() Answer {
	return Answer{Sent: true, Code: Interrupted, Detail: "the process that sent the request stopped before the response came"}
}

// Spawned is the code of the answer to a request to another saga that will report its result
// itself.
const Spawned = "spawned"

// NoSaga is the code of the answer to a request to undo a saga that does not exist.
const NoSaga = "saga_not_found"

// CodeParentEnded is the code of a refusal: the saga that a child saga or a session was to belong
// to is ending, or has ended. A child did not exist then, so no earlier attempt has started it, and
// none will.
const CodeParentEnded = "parent_ended"

// CodeSecretMissing is the code of an [Answer] and of a failure: a secret does not exist, or the
// request may not use it there. Nothing was sent.
const CodeSecretMissing = "secret_missing"

// CodeServerMissing is the code of an [Answer] and of a failure: the configuration has no such MCP
// server. Nothing was sent.
const CodeServerMissing = "mcp_server_missing"

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
