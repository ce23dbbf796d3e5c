// Package task is the step kind whose work a worker does.
package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

// Limits of the kind's durations, and their defaults.
const (
	DefaultTimeout   = 10 * time.Minute // of one attempt, from its claim on
	DefaultHeartbeat = 30 * time.Second
	MinHeartbeat     = time.Second
)

// transport are codes that the transport of a task sets; workers do not report them.
var transport = []string{"", saga.CodeHeartbeatLost, saga.CodeWithdrawn, "timeout", "connection", "dns", "tls", "egress_denied", "secret_missing", "url_invalid",
	"request_invalid", "body_cut", "body_too_large", "body_invalid", "redirect", "interrupted", "not_sent", "no_answer"}

// Taken reports whether a code is reserved, so that workers may not report it.
func Taken(code string) bool { return slices.Contains(transport, code) }

var name = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,127}$`)

// Type reports whether a text is a valid type of a task.
func Type(text string) bool { return name.MatchString(text) }

// Kind describes the kind.
func Kind() dsl.Kind {
	return dsl.Kind{
		Name: "task",
		Value: json.RawMessage(`{"anyOf": [{"type": "string", "pattern": "` + name.String() + `"}, {"type": "object", "additionalProperties": false, "required": ["type"],
			"properties": {"type": {"type": "string", "pattern": "` + name.String() + `"}, "input": true, "heartbeat": {"type": "string", "minLength": 2}}}]}`),
		Keys: []dsl.Key{
			{Name: "input", Schema: json.RawMessage(`true`)},
			{Name: "heartbeat", Schema: json.RawMessage(`{"type": "string", "minLength": 2}`)},
		},
		Doc: "Lets a worker do the work: a program that asks for tasks of this type over the API (POST /v1/tasks/claim) and says how it ended. " +
			"`input` is any value for it. A worker that sends no heartbeat for longer than `heartbeat` (default 30s), or takes longer than `timeout` (default 10m, from its claim on), " +
			"counts as lost: the task is in doubt, because the work may have been done. The output is what the worker returned.",
		Timeout: DefaultTimeout,
		Sends:   true,
		Fails:   dsl.ByAccident,
		Decode:  decode,
	}
}

// Body is a task step: its shape is [saga.Call], performed by workers.
type Body struct {
	kind      string
	input     *expr.Template // nil: none
	object    bool           // the input is, or may be, an object
	heartbeat time.Duration
}

var (
	_ saga.Call      = (*Body)(nil)
	_ saga.Queued    = (*Body)(nil)
	_ saga.Reader    = (*Body)(nil)
	_ saga.Priced    = (*Body)(nil)
	_ dsl.KeyCarrier = (*Body)(nil)
	_ dsl.Unsafe     = (*Body)(nil)
)

func decode(d *dsl.Decoder) saga.Body {
	b := &Body{heartbeat: DefaultHeartbeat}
	kind, input, heartbeat, ok := parts(d)
	if !ok {
		return nil
	}
	if b.kind, ok = d.Str(kind, "the type that workers ask for"); ok && !Type(b.kind) {
		d.Fail(kind, "bad_name", "a task's type is a small letter, then up to 127 small letters, digits, dots, - or _, without expressions: workers ask for it by name")
	}
	if input != nil {
		b.input = d.Template(input, dsl.InRequest)
		b.object = input.Form == dsl.Map || input.IsText() && !b.input.IsConst()
	}
	if heartbeat != nil {
		b.heartbeat, _ = d.Duration(heartbeat, MinHeartbeat)
	}
	return b
}

// parts finds the values of a task: `task: type` with the keys input and heartbeat, or the map
// `task: {type, input, heartbeat}`. An action needs the map, because its key input declares what
// its callers give.
func parts(d *dsl.Decoder) (kind, input, heartbeat *dsl.Node, ok bool) {
	own := d.Own()
	if own.Form != dsl.Map {
		if d.InAction() {
			d.Expect(own, "a map in an action, as in task: {type: page.fetch, input: {url: \"${input.url}\"}}")
			return nil, nil, nil, false
		}
		return own, d.Get("input"), d.Get("heartbeat"), true
	}
	d.Known(own, "task", "type", "input", "heartbeat")
	for _, key := range []string{"input", "heartbeat"} {
		if n := d.Get(key); n != nil && !(key == "input" && d.InAction()) {
			d.Fail(n, "two_places", "%s belongs into the map of task, next to type", key)
		}
	}
	if kind = own.Get("type"); kind == nil {
		d.Fail(own, "missing_key", "task as a map needs type, which workers ask for")
	}
	return kind, own.Get("input"), own.Get("heartbeat"), kind != nil
}

// CarriesKey implements dsl.KeyCarrier: workers get the key in addition to the input.
func (b *Body) CarriesKey(in, _ string) error {
	switch idempotency.In(in) {
	case idempotency.Query:
		return errors.New("a task has no URL for the key to go into: workers get it as `key`, in addition to the input")
	case idempotency.Body:
		if !b.object {
			return errors.New("the key goes into a field of the input, so the step needs an input that is a map")
		}
	}
	return nil
}

// Request implements saga.Call: the task for a worker.
func (b *Body) Request(env expr.Env) (saga.Request, error) {
	t := &saga.TaskRequest{Type: b.kind}
	if b.input == nil {
		return saga.Request{Task: t}, nil
	}
	var err error
	t.Input, err = b.input.JSON(env)
	return saga.Request{Task: t}, err
}

// Task implements saga.Queued.
func (b *Body) Task(r saga.Request) (kind string, input json.RawMessage, lease time.Duration) {
	input = r.Task.Input
	if input == nil {
		input = json.RawMessage("null")
	}
	return r.Task.Type, input, b.heartbeat
}

// ReadOnly implements saga.Call: the effects of a worker's work are unknown.
func (b *Body) ReadOnly() bool { return false }

// Repeatable implements dsl.Unsafe.
func (b *Body) Repeatable() bool { return false }

// Judge implements saga.Call by the worker's report, or by the lack of one.
func (b *Body) Judge(_ saga.Request, a saga.Answer) saga.Verdict {
	class := classOf(a)
	if class == journal.Succeeded {
		out := a.Body
		if out == nil {
			out = json.RawMessage("null")
		}
		return saga.Verdict{Class: class, Output: out}
	}
	return saga.Verdict{Class: class, Error: b.failure(a)}
}

func classOf(a saga.Answer) journal.Class {
	switch {
	case !a.Sent:
		return journal.Transient
	case a.Status >= 200 && a.Status <= 299 && a.Code == "":
		return journal.Succeeded
	case a.Status != 0, Taken(a.Code), a.Report != nil && a.Report.InDoubt:
		return journal.InDoubt
	case a.Report != nil && a.Report.Retryable:
		return journal.Transient
	}
	return journal.Refused
}

func (b *Body) failure(a saga.Answer) *saga.Failure {
	f := &saga.Failure{Code: a.Code, Title: fmt.Sprintf("the worker says that the task %s has failed", b.kind), Detail: a.Detail}
	switch {
	case a.Code == saga.CodeWithdrawn:
		f.Title = fmt.Sprintf("the task %s was taken back before a worker had begun it", b.kind)
	case a.Code == saga.CodeHeartbeatLost:
		f.Title = fmt.Sprintf("the worker of the task %s stopped sending heartbeats, or took too long", b.kind)
	case Taken(a.Code):
		f.Title = fmt.Sprintf("nobody knows how the task %s has ended", b.kind)
	}
	if f.Code == "" {
		f.Code = "no_answer"
	}
	return f
}

// Read implements saga.Reader: the output is what the worker returned.
func (b *Body) Read(r saga.Request, a saga.Answer) saga.Verdict { return b.Judge(r, a) }

// Records implements saga.Reader: an answer has nothing besides its output.
func (b *Body) Records() bool { return false }

// Reserve implements saga.Priced: only the author knows the highest cost of a task.
func (b *Body) Reserve(saga.Request) saga.Usage { return saga.Usage{} }

// Used implements saga.Priced: the cost that the worker reported, also for a failed task.
func (b *Body) Used(_ saga.Request, a saga.Answer) (saga.Usage, bool) {
	if !a.Sent {
		return saga.Usage{}, true
	}
	if a.Report == nil || a.Report.Cost == "" {
		return saga.Usage{}, false
	}
	cost, err := retry.Amount(a.Report.Cost, "")
	if err != nil {
		return saga.Usage{}, false
	}
	return saga.Usage{Cost: cost}, true
}
