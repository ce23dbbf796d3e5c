package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/expr"
	"recourse/saga/kinds/http"
)

// path is the path of requests below a provider's base URL.
const path = "/chat/completions"

// Headers of a request for our own use, which are not sent.
const (
	ownHeaders   = "X-Recourse-"
	courseHeader = ownHeaders + "Course"
)

func ours(name string) bool {
	return strings.HasPrefix(textproto.CanonicalMIMEHeaderKey(name), ownHeaders)
}

// completion is the body of a request. Its fields are written in this order.
type completion struct {
	Model               string            `json:"model"`
	Messages            []json.RawMessage `json:"messages"`
	MaxTokens           int64             `json:"max_tokens,omitempty"`
	MaxCompletionTokens int64             `json:"max_completion_tokens,omitempty"`
	Temperature         json.Number       `json:"temperature,omitempty"`
	ResponseFormat      json.RawMessage   `json:"response_format,omitempty"`
	Tools               []json.RawMessage `json:"tools,omitempty"`
	Stream              bool              `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

func (c *completion) limit() int64 { return c.MaxTokens + c.MaxCompletionTokens }

// course is a request's position in the order of fallback. It is stored in a header that is not
// sent.
type course struct {
	Next     []string `json:"next,omitempty"`     // the models after this one
	Fresh    int      `json:"fresh,omitempty"`    // how many of them were not called yet
	Repaired bool     `json:"repaired,omitempty"` // the request asks for a repair
}

// Request implements saga.Call. An error is a *saga.Failure or an *expr.EvalError and means that
// nothing can be sent.
func (b *Body) Request(env expr.Env) (saga.Request, error) {
	env = http.Once(env)
	c := completion{MaxTokens: DefaultMaxTokens}
	names, err := b.names(env)
	if err != nil {
		return saga.Request{}, err
	}
	c.Model = names[0]
	if c.Messages, err = b.question(env); err != nil {
		return saga.Request{}, err
	}
	turns, err := b.said(env)
	if err != nil {
		return saga.Request{}, err
	}
	c.Messages, c.Tools = append(c.Messages, turns...), b.tools
	if err := b.numbers(env, &c); err != nil {
		return saga.Request{}, err
	}
	if b.check != nil {
		c.ResponseFormat = encode(map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "answer", "schema": b.ask}})
	}
	c.Stream, c.StreamOptions.IncludeUsage = true, true
	return b.address(c, course{Next: names[1:], Fresh: len(names) - 1})
}

// address returns the request for a completion, to the provider that serves the model.
func (b *Body) address(c completion, at course) (saga.Request, error) {
	p := b.cfg.Provider(OpenAIAPI, c.Model)
	if p == nil {
		return saga.Request{}, unsendable("no provider is configured for the model %q", c.Model)
	}
	c.MaxTokens, c.MaxCompletionTokens = c.limit(), 0
	if p.MaxCompletionTokens {
		c.MaxTokens, c.MaxCompletionTokens = 0, c.MaxTokens
	}
	r := saga.Request{Method: "POST", URL: p.At(path), Body: seal(encode(c)),
		Headers: map[string]string{"Accept": "text/event-stream", "Content-Type": "application/json"}}
	if len(at.Next) > 0 || at.Repaired {
		r.Headers[courseHeader] = string(encode(at))
	}
	return r, nil
}

// opened reads a request that address has made, and to which the machine may have added a key.
func opened(r saga.Request) (c completion, at course, err error) {
	doc, err := unseal(r.Body)
	if err != nil {
		return c, at, err
	}
	if err := json.Unmarshal(doc, &c); err != nil {
		return c, at, fmt.Errorf("llm: request: %w", err)
	}
	if text, ok := r.Headers[courseHeader]; ok {
		if err := json.Unmarshal([]byte(text), &at); err != nil {
			return c, at, fmt.Errorf("llm: %s: %w", courseHeader, err)
		}
	}
	return c, at, nil
}

// seal writes a document in the form of journaled requests, in which ${secrets.X} refers to a
// secret (see [expr.Unseal]), so that no prompt can forge one.
func seal(doc []byte) json.RawMessage {
	return json.RawMessage(strings.ReplaceAll(string(doc), "${", "$${"))
}

var errSecret = errors.New("an llm step sends no secrets")

func unseal(doc json.RawMessage) ([]byte, error) {
	text, err := expr.Unseal(string(doc), func(string) (string, error) { return "", errSecret }, strings.Clone)
	return []byte(text), err
}

// Outgoing returns the headers and the body that are sent for a request of an llm step, without the
// provider's key.
func Outgoing(r saga.Request) (headers map[string]string, body []byte, err error) {
	if body, err = unseal(r.Body); err != nil {
		return nil, nil, err
	}
	headers = maps.Clone(r.Headers)
	maps.DeleteFunc(headers, func(name, _ string) bool { return ours(name) })
	return headers, body, nil
}

func unsendable(format string, args ...any) error {
	return &saga.Failure{Code: "bad_request", Title: "the request cannot be sent", Detail: fmt.Sprintf(format, args...)}
}

// encode encodes values made of text and JSON, which can always be encoded.
func encode(v any) json.RawMessage {
	doc, err := journal.Encode(v)
	if err != nil {
		panic("llm: " + err.Error())
	}
	return doc
}

func (b *Body) names(env expr.Env) ([]string, error) {
	v, err := b.model.Value(env)
	if err != nil {
		return nil, err
	}
	if text, ok := expr.Unknown(env, encode(v)); ok || expr.IsPartial(env) && expr.HasPlaceholder(text) {
		return nil, expr.ErrUnknown
	}
	names, err := models(v)
	if err != nil {
		return nil, unsendable("%s", err)
	}
	return names, nil
}

const maxModels = 16

var modelName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$`)

// models reads a name or a list of names. A list in it, from a variable, counts as its items.
func models(v any) ([]string, error) {
	items, list := v.([]any)
	if !list {
		items = []any{v}
	}
	var names []string
	for _, item := range items {
		if inner, ok := item.([]any); ok && list {
			more, err := models(inner)
			if err != nil {
				return nil, err
			}
			names = append(names, more...)
			continue
		}
		name, ok := item.(string)
		if !ok || !modelName.MatchString(name) {
			return nil, errors.New("a model is a name (letters, digits and . _ : / @ + -), or a list of names in order of fallback")
		}
		names = append(names, name)
	}
	if len(names) == 0 || len(names) > maxModels {
		return nil, fmt.Errorf("a list of models has from 1 to %d names", maxModels)
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("the model %s is listed twice", name)
		}
	}
	return names, nil
}

// question returns the messages, system first.
func (b *Body) question(env expr.Env) ([]json.RawMessage, error) {
	var list []json.RawMessage
	say := func(role string, t *expr.Template) error {
		if t == nil {
			return nil
		}
		text, err := t.Text(env)
		list = append(list, message(role, text))
		return err
	}
	if err := say("system", b.system); err != nil {
		return nil, err
	}
	if b.messages == nil {
		return list, say("user", b.prompt)
	}
	doc, err := b.messages.JSON(env)
	if err != nil {
		return nil, err
	}
	if _, ok := expr.Unknown(env, doc); ok {
		return nil, expr.ErrUnknown
	}
	v, err := expr.Decode(doc)
	if err != nil {
		return nil, unsendable("messages: %s", err)
	}
	if err := checkMessages(v); err != nil {
		return nil, unsendable("%s", err)
	}
	var more []json.RawMessage
	if err := json.Unmarshal(doc, &more); err != nil {
		return nil, unsendable("messages: %s", err)
	}
	return append(list, more...), nil
}

func message(role, text string) json.RawMessage {
	return encode(struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}{role, text})
}

var roles = []string{"system", "developer", "user", "assistant", "tool"}

func checkMessages(v any) error {
	list, _ := v.([]any)
	for _, item := range list {
		m, _ := item.(map[string]any)
		role, _ := m["role"].(string)
		if !slices.Contains(roles, role) || m["content"] == nil {
			list = nil
		}
	}
	if len(list) == 0 {
		return fmt.Errorf("messages is a list of {role, content}, with the roles %s", strings.Join(roles, ", "))
	}
	return nil
}

func (b *Body) numbers(env expr.Env, c *completion) error {
	if b.maxTokens != nil {
		v, err := b.maxTokens.Value(env)
		if err != nil {
			return err
		}
		if _, ok := expr.Unknown(env, encode(v)); ok {
			return expr.ErrUnknown
		}
		if c.MaxTokens, err = tokens(v); err != nil {
			return unsendable("%s", err)
		}
	}
	if b.temperature != nil {
		v, err := b.temperature.Value(env)
		if err != nil {
			return err
		}
		if _, ok := expr.Unknown(env, encode(v)); ok {
			return expr.ErrUnknown
		}
		if c.Temperature, err = temperature(v); err != nil {
			return unsendable("%s", err)
		}
	}
	return nil
}

// maxMaxTokens is more than any model answers.
const maxMaxTokens = 10_000_000

func tokens(v any) (int64, error) {
	if n, ok := v.(json.Number); ok {
		if i, err := n.Int64(); err == nil && i >= 1 && i <= maxMaxTokens {
			return i, nil
		}
	}
	return 0, fmt.Errorf("max_tokens is a whole number from 1 to %d", maxMaxTokens)
}

// temperature keeps the number as it is written.
func temperature(v any) (json.Number, error) {
	if n, ok := v.(json.Number); ok {
		return n, nil
	}
	return "", errors.New("temperature is a number, such as 0.2")
}
