// Package llm is the step kind that calls a language model: OpenAI-compatible chat completions over
// HTTP.
//
// The package is pure: it determines the request, the meaning and cost of an answer, and the next
// model to call. Package client sends the requests, and reads the answers as they stream in. A
// completion leaves nothing to undo, so it
// is never in doubt. Its cost is reserved before it is sent.
package llm

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"recourse/idempotency"
	"recourse/internal/httptext"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

const (
	// DefaultTimeout is the longest time without data, before an answer and within it.
	DefaultTimeout = 120 * time.Second
	// DefaultMaxTokens is the limit of an answer whose step has no max_tokens.
	DefaultMaxTokens = 1024
)

// Kind describes the kind with a configuration. It panics if [Config.Check] does not accept the
// configuration.
func Kind(cfg Config) dsl.Kind {
	t := NewTariff(cfg)
	return dsl.Kind{
		Name:   "llm",
		Output: dsl.Model,
		Value: json.RawMessage(`{"type": "object", "additionalProperties": false, "required": ["model"], "properties": {
			"model": {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": "string"}}]},
			"prompt": {"type": ["string", "number", "boolean"]}, "messages": {"type": ["array", "string"]},
			"system": {"type": ["string", "number", "boolean"]}, "schema": true,
			"tools": {"type": "array", "minItems": 1, "maxItems": 64, "items": {"type": "string"}}, "max_turns": {"type": "integer", "minimum": 1, "maximum": 100},
			"max_tokens": {"type": ["integer", "string"]}, "temperature": {"type": ["number", "string"]}}}`),
		Doc: "Asks a language model: `model` (a name, or a list in order of fallback), `prompt` or `messages`, `system`, `schema`, `max_tokens`, " +
			"`temperature`. The output is `{text, json, model, finish_reason, usage, cost}`. Nothing is left to undo, so it is never in doubt. " +
			"With `tools`, a list of actions, the model calls these as steps of the saga, in up to `max_turns` turns (10).",
		Timeout: DefaultTimeout,
		Sends:   true,
		Fails:   dsl.ByAccident,
		Decode:  func(d *dsl.Decoder) saga.Body { return decode(d, t) },
	}
}

// Body is an llm step: its shape is [saga.Call]. It is immutable.
type Body struct {
	*Tariff
	model       *expr.Template
	unpriced    []string
	prompt      *expr.Template // nil: messages
	messages    *expr.Template
	system      *expr.Template // nil: none
	maxTokens   *expr.Template // nil: the default
	temperature *expr.Template // nil: the model's default
	check       saga.Schema    // nil: any text
	ask         json.RawMessage
	tools       []json.RawMessage // none: the model can call nothing
}

var (
	_ saga.Call      = (*Body)(nil)
	_ saga.Reader    = (*Body)(nil)
	_ saga.Priced    = (*Body)(nil)
	_ saga.Modelled  = (*Body)(nil)
	_ saga.Sequel    = (*Body)(nil)
	_ dsl.KeyCarrier = (*Body)(nil)
	_ dsl.Paid       = (*Body)(nil)
)

// ReadOnly implements saga.Call: a completion leaves nothing to undo.
func (b *Body) ReadOnly() bool { return true }

// Records implements saga.Reader: the same answer cannot be requested again.
func (b *Body) Records() bool { return true }

// CarriesKey implements dsl.KeyCarrier. Providers refuse fields and parameters that they do not
// know.
func (b *Body) CarriesKey(in, name string) error {
	switch idempotency.In(in) {
	case idempotency.Body, idempotency.Query:
		return errors.New("the key of an llm step goes into a header, or nowhere (idempotency: none)")
	case idempotency.Header:
		if !httptext.Settable(name) || strings.EqualFold(name, "Authorization") || ours(name) {
			return errors.New("the key cannot be sent as the header " + strconv.Quote(name) + ": choose another name")
		}
	}
	return nil
}

// Unpriced implements dsl.Paid.
func (b *Body) Unpriced() []string {
	if b.cfg.Elsewhere {
		return nil
	}
	return b.unpriced
}

func decode(d *dsl.Decoder, t *Tariff) saga.Body {
	own := d.Own()
	if !d.Known(own, "llm", "model", "prompt", "messages", "system", "schema", "max_tokens", "temperature", "tools", "max_turns") && own.Form != dsl.Map {
		return nil
	}
	b, answer := &Body{Tariff: t}, expr.Exactly(expr.KindNull)
	if n := own.Get("model"); n != nil {
		b.decodeModel(d, n)
	} else {
		d.Fail(own, "missing_key", "llm needs a model: a name, or a list of names in order of fallback")
	}
	b.decodeQuestion(d, own)
	if n := own.Get("schema"); n != nil {
		if b.check, b.ask = d.Schema(n); b.check != nil {
			answer = d.Schemed(b.check)
		}
	}
	text, unknown := expr.Exactly(expr.KindString), expr.Any().With(expr.KindAbsent, false)
	fields := map[string]*expr.Type{"text": text, "json": answer, "model": text, "finish_reason": text.With(expr.KindNull, true),
		"cost": expr.Exactly(expr.KindNumber).With(expr.KindNull, false)}
	tools, turns := own.Get("tools"), own.Get("max_turns")
	if tools != nil {
		fields["turns"] = expr.Exactly(expr.KindInteger)
		fields["calls"] = expr.Items(expr.Fields(map[string]*expr.Type{"tool": text, "input": expr.Any(), "status": text}, unknown))
	} else if turns != nil {
		d.Fail(turns, "missing_key", "max_turns limits the turns of a model with tools: add tools, or remove it")
	}
	d.Gives(expr.Fields(fields, unknown))
	b.maxTokens = number(d, own.Get("max_tokens"), expr.KindInteger, func(v any) error { _, err := tokens(v); return err })
	b.temperature = number(d, own.Get("temperature"), expr.KindNumber, func(v any) error { _, err := temperature(v); return err })
	if tools != nil {
		return decodeTools(d, b, tools, turns)
	}
	return b
}

// decodeModel checks a written-out model. A computed one is checked when it is rendered.
func (b *Body) decodeModel(d *dsl.Decoder, n *dsl.Node) {
	items := []*dsl.Node{n}
	if n.Form == dsl.List {
		items = n.Items
	}
	parts := make([]*expr.Template, len(items))
	var known []any
	for i, item := range items {
		if parts[i] = d.Typed(item, dsl.InRequest, expr.KindString|expr.KindList, "a model is a name, or a list of names"); !parts[i].IsConst() {
			continue
		}
		v, _ := parts[i].Value(expr.MapEnv{})
		if v == "" && item.Text() != "" {
			continue // the errors of its expressions are reported already
		}
		names, err := models(v)
		if err != nil {
			d.Fail(item, "bad_model", "%s", err)
			continue
		}
		known = append(known, v)
		b.unpriced = append(b.unpriced, slices.DeleteFunc(names, b.hasPrice)...)
	}
	if b.model = expr.List(parts); n.Form != dsl.List {
		b.model = parts[0]
	}
	if len(known) == len(items) {
		if _, err := models(known); err != nil {
			d.Fail(n, "bad_model", "%s", err)
		}
	}
}

func (b *Body) decodeQuestion(d *dsl.Decoder, own *dsl.Node) {
	prompt, messages := own.Get("prompt"), own.Get("messages")
	switch {
	case prompt != nil && messages != nil:
		d.Fail(messages, "two_prompts", "prompt and messages both say what to ask: keep one")
	case prompt != nil:
		b.prompt = d.Text(prompt, 0, dsl.InRequest)
	case messages != nil:
		if messages.Form == dsl.Map || messages.Form == dsl.Scalar && !messages.IsText() {
			d.Expect(messages, "a list of {role, content}")
			return
		}
		b.messages = d.Template(messages, dsl.InRequest)
		if b.messages.IsConst() {
			v, _ := b.messages.Value(expr.MapEnv{})
			if err := checkMessages(v); err != nil {
				d.Fail(messages, "bad_messages", "%s", err)
			}
		}
	default:
		d.Fail(own, "missing_key", "llm needs a prompt, or messages: what to ask")
	}
	if n := own.Get("system"); n != nil {
		b.system = d.Text(n, 0, dsl.InRequest)
	}
}

// number compiles a number or an expression whose result is a number. check has the rule as its
// error.
func number(d *dsl.Decoder, n *dsl.Node, kinds expr.Kinds, check func(any) error) *expr.Template {
	if n == nil {
		return nil
	}
	t := d.Typed(n, dsl.InRequest, kinds, check(nil).Error())
	if t.IsConst() && !n.IsText() {
		v, _ := t.Value(expr.MapEnv{})
		if err := check(v); err != nil {
			d.Fail(n, "wrong_type", "%s", err)
		}
	}
	return t
}
