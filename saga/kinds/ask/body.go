// Package ask is what a session's request to a language model is in the machine, and how requests
// and responses are read: chat completions, responses, messages, embeddings.
//
// An agent sends its requests to recourse instead of the provider (package api), which lets the
// machine add an ask: a step with one attempt, that is never in doubt and leaves nothing to undo.
// Package client sends it, and passes the response on while it arrives. The response is an answer
// if it is whole: then the same request of a later process of the agent gets the same bytes.
//
// The journal has the hashes of contents; the contents are stored apart from it, so that a
// conversation is stored once, and can be erased.
package ask

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/expr"
	"recourse/saga/kinds/http"
	"recourse/saga/kinds/llm"
)

// Kind is the kind of the steps.
const Kind = "ask"

// Timeout is the longest time without a part of a response: models may think for minutes.
const Timeout = 10 * time.Minute

// CodeCut is the code of a response that is not whole.
const CodeCut = "body_cut"

// Body is the body of an ask. It is immutable.
type Body struct {
	*llm.Tariff
	cfg llm.Config
}

var (
	_ saga.Call     = (*Body)(nil)
	_ saga.Reader   = (*Body)(nil)
	_ saga.Priced   = (*Body)(nil)
	_ saga.Modelled = (*Body)(nil)
	_ saga.Keeper   = (*Body)(nil)
)

// Step returns the step that an ask is. It panics if [llm.Config.Check] does not accept the
// configuration.
func Step(cfg llm.Config) *saga.Step {
	return &saga.Step{
		ID: "llm", Kind: Kind, Body: &Body{llm.NewTariff(cfg), cfg}, Timeout: Timeout, Continue: true, NoCompensation: true,
		Retry:       retry.Policy{Attempts: 1}, // the agent's client sends a failed request again
		Idempotency: idempotency.Placement{In: idempotency.Header, Name: "Idempotency-Key"},
	}
}

// Headers of a request for our own use, which are not sent.
const (
	routeHeader   = "X-Recourse-Route"
	SessionHeader = "X-Recourse-Session" // the session's id
)

// Request implements saga.Call. Its body is the question: the contents are found by their hashes
// when it is sent.
func (b *Body) Request(env expr.Env) (saga.Request, error) {
	v, _ := env.Root(saga.ActionInput)
	input, _ := v.(expr.Raw)
	var q Question
	if err := json.Unmarshal(input, &q); err != nil {
		return saga.Request{}, fmt.Errorf("%w: an ask: %w", saga.ErrUnreadable, err)
	}
	route, ok := named(q.Route)
	if !ok {
		return saga.Request{}, &saga.Failure{Code: "bad_request", Title: "the request cannot be sent", Detail: "there is no route " + q.Route}
	}
	p := b.cfg.Provider(route.API, q.Model)
	if p == nil {
		return saga.Request{}, &saga.Failure{Code: "bad_request", Title: "the request cannot be sent", Detail: fmt.Sprintf("no provider is configured for the model %q", q.Model)}
	}
	q.Chain, q.Place, q.Lane = "", "", "" // they say which recorded answer the request gets
	headers := map[string]string{routeHeader: q.Route}
	if about, ok := env.Root("saga"); ok {
		headers[SessionHeader], _ = about.(map[string]any)["id"].(string)
	}
	return saga.Request{Method: route.Method, URL: p.At(route.Path), Headers: headers, Body: saga.Encode(q)}, nil
}

// Open reads a request that Request has made, and returns the provider that it is for; nil if the
// configuration does not have it. Error: it is none of these.
func Open(cfg llm.Config, r saga.Request) (*Question, Route, *llm.Provider, error) {
	var q Question
	if err := json.Unmarshal(r.Body, &q); err != nil {
		return nil, Route{}, nil, fmt.Errorf("%w: an ask: %w", saga.ErrUnreadable, err)
	}
	route, ok := named(q.Route)
	if !ok {
		return nil, Route{}, nil, fmt.Errorf("%w: route %q", saga.ErrUnreadable, q.Route)
	}
	return &q, route, cfg.OwnerOf(route.API, r.URL, route.Path), nil
}

// ReadOnly implements saga.Call: an answer leaves nothing to undo.
func (b *Body) ReadOnly() bool { return true }

// Records implements saga.Reader: Keep stores the answer.
func (b *Body) Records() bool { return false }

// Judge implements saga.Call. Nothing is sent again: the agent's client does that.
func (b *Body) Judge(r saga.Request, a saga.Answer) saga.Verdict {
	f := http.Failed(r, a, "")
	if a.Status > 0 && a.Code == "" {
		f.Code = llm.CodeProvider
	}
	return saga.Verdict{Class: journal.Refused, Error: f}
}

// Output is the output of an ask that has an answer.
type Output struct {
	Meaning
	Answer string `json:"answer"` // the hash of the answer, as the agent has got it
	Type   string `json:"content_type"`
	Bytes  int    `json:"bytes"`
}

// Read implements saga.Reader.
func (b *Body) Read(_ saga.Request, a saga.Answer) saga.Verdict {
	var m Meaning
	if err := json.Unmarshal(a.Body, &m); err != nil || a.Content == nil {
		return saga.Verdict{Class: journal.Refused, Error: &saga.Failure{Code: CodeCut, Title: "the response cannot be read"}}
	}
	switch {
	case m.Fault != "":
		return saga.Verdict{Class: journal.Refused, Error: &saga.Failure{Code: llm.CodeProvider, Title: "the provider reports an error within its response", Detail: m.Fault}}
	case !m.Whole:
		return saga.Verdict{Class: journal.Refused, Error: &saga.Failure{Code: CodeCut, Title: "the response ended before it was whole"}}
	}
	return saga.Verdict{Class: journal.Succeeded, Output: saga.Encode(Output{m, digest(a.Content), a.Headers["content-type"], len(a.Content)})}
}

// Keep implements saga.Keeper.
func (b *Body) Keep(a saga.Answer) []journal.Blob { return []journal.Blob{Pack(a.Content)} }

// Reserve implements saga.Priced: the estimated tokens of the request, and the most tokens of its
// response, if they are limited.
func (b *Body) Reserve(r saga.Request) saga.Usage {
	q, route, _, err := Open(b.cfg, r)
	if err != nil || route.form == free {
		return saga.Usage{}
	}
	output := q.MaxOutput
	if most := b.MaxOutput(q.Model); route.Generates() && output == 0 {
		output = min(most*q.choices(), llm.MaxUsage)
	}
	cost, _ := b.Cost(q.Model, llm.Tokens{Output: output})
	return saga.Usage{Input: q.Input, Output: output, Cost: cost.Add(b.MaxInput(q.Model, q.Input))}
}

// Limited reports whether the most that the request may cost is known.
func (b *Body) Limited(q *Question) bool {
	route, ok := named(q.Route)
	return ok && (!route.Generates() || q.MaxOutput > 0 || b.MaxOutput(q.Model) > 0)
}

// Used implements saga.Priced. A cost that is not known stays reserved.
func (b *Body) Used(r saga.Request, a saga.Answer) (saga.Usage, bool) {
	q, route, _, err := Open(b.cfg, r)
	switch {
	case !a.Sent, err == nil && route.form == free:
		return saga.Usage{}, true
	case err != nil:
		return saga.Usage{}, false
	}
	var m Meaning
	if json.Unmarshal(a.Body, &m) != nil || m.Tokens == nil {
		return saga.Usage{}, false
	}
	cost, known := b.Cost(q.Model, *m.Tokens)
	return saga.Usage{Cost: cost, Input: m.Tokens.Input, Output: m.Tokens.Output}, known
}

// Model implements saga.Modelled.
func (b *Body) Model(r saga.Request) string {
	var doc struct{ Model string }
	if json.Unmarshal(r.Body, &doc) != nil {
		return ""
	}
	return doc.Model
}

// hexed returns the hash of a content in hex.
func hexed(b journal.Blob) string { return hex.EncodeToString(b.Hash[:]) }
