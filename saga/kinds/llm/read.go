package llm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"recourse/internal/httptext"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/expr"
	"recourse/saga/kinds/http"
)

// Codes of failures, in addition to those of http steps.
const (
	CodeMismatch = "schema_mismatch"  // the response does not fit the schema
	CodeRefused  = "content_refused"  // the model, or its provider, refuses to answer
	CodeModel    = "model_unknown"    // the provider does not have the model
	CodeContext  = "context_overflow" // the prompt is too long for the model
	CodeAnswer   = "answer_invalid"   // a 2xx answer without a completion
	CodeProvider = "provider_error"   // a 2xx answer that contains an error
)

// Judge implements saga.Call: the classes are those of an http step that only reads.
func (b *Body) Judge(r saga.Request, a saga.Answer) saga.Verdict {
	if a.Code == "" && a.Status >= 200 && a.Status <= 299 {
		return b.Read(r, a)
	}
	v := saga.Verdict{Class: http.Class(a, true), Error: http.Failed(r, a, "")}
	switch f := faultOf(a.Body); {
	case a.Status == 409: // a request with the same key is being processed
		v.Class = journal.Transient
	case v.Class == journal.Refused:
		v.Error.Code = f.code(a.Status, v.Error.Code)
	}
	return v
}

// answer is the part of a completion that is used.
type answer struct {
	Model   string
	Choices []struct {
		FinishReason string `json:"finish_reason"`
		Message      struct {
			Content content
			Refusal string
			Calls   []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
	}
}

// content is text, or a list of parts, some of which are text.
type content string

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(doc []byte) error {
	var parts []struct{ Text string }
	if json.Unmarshal(doc, &parts) != nil {
		return json.Unmarshal(doc, (*string)(c))
	}
	for _, p := range parts {
		*c += content(p.Text)
	}
	return nil
}

// output is the default output of an llm step.
type output struct {
	Text         string          `json:"text"`
	JSON         json.RawMessage `json:"json"`
	Model        string          `json:"model"`
	FinishReason *string         `json:"finish_reason"`
	Usage        *usage          `json:"usage"`
	Cost         json.RawMessage `json:"cost"`
	PricesAt     string          `json:"prices_at,omitempty"`
	ToolCalls    []toolCall      `json:"tool_calls,omitempty"` // what a model with tools calls next
}

// Read implements saga.Reader.
func (b *Body) Read(r saga.Request, a saga.Answer) saga.Verdict {
	if f := faultOf(a.Body); f != nil {
		return f.verdict()
	}
	var doc answer
	if err := json.Unmarshal(a.Body, &doc); err != nil || len(doc.Choices) == 0 {
		return failed(journal.Transient, CodeAnswer, "the response is not a chat completion", "look at the provider's base URL: it ends before "+path)
	}
	first := doc.Choices[0]
	out := output{Text: string(first.Message.Content), JSON: json.RawMessage("null"), Model: doc.Model, Usage: usageOf(a.Body)}
	if first.FinishReason != "" {
		out.FinishReason = &first.FinishReason
	}
	switch {
	case first.Message.Refusal != "":
		return failed(journal.Refused, CodeRefused, "the model refuses to answer", clip(first.Message.Refusal))
	case first.FinishReason == "content_filter":
		return failed(journal.Refused, CodeRefused, "the provider's content filter ended the response", "")
	}
	if len(b.tools) > 0 {
		for _, c := range first.Message.Calls {
			out.ToolCalls = append(out.ToolCalls, toolCall{c.ID, c.Function.Name, c.Function.Arguments})
		}
	}
	if b.check != nil && len(out.ToolCalls) == 0 {
		value, wrong, tooCostly := b.parse(out.Text)
		switch {
		case first.FinishReason == "length":
			return failed(journal.Refused, CodeMismatch, "the response was cut off by max_tokens before its JSON was whole", "raise max_tokens")
		case tooCostly:
			return failed(journal.Refused, saga.CodeTooCostly, "the response could not be checked by the schema", wrong)
		case wrong != "":
			return failed(journal.Refused, CodeMismatch, "the response does not fit the schema", wrong)
		}
		out.JSON = value
	}
	b.costs(&out, r)
	return saga.Verdict{Class: journal.Succeeded, Output: encode(out)}
}

func failed(class journal.Class, code, title, detail string) saga.Verdict {
	return saga.Verdict{Class: class, Error: &saga.Failure{Code: code, Title: title, Detail: detail}}
}

// costs sets the cost of the answer, null if it is not known.
func (b *Body) costs(out *output, r saga.Request) {
	out.Cost = json.RawMessage("null")
	c, _, err := opened(r)
	if err != nil {
		return
	}
	if out.Model == "" {
		out.Model = c.Model
	}
	if out.Usage != nil && b.hasPrice(c.Model) {
		out.Cost = json.RawMessage(b.cost(c.Model, out.Usage.Input, out.Usage.Output).Decimal())
		out.PricesAt = b.cfg.PricesAt
	}
}

// parse reads the JSON of an answer, with or without a fence, and validates it. wrong describes the
// error; tooCostly says that it could not be validated.
func (b *Body) parse(text string) (value json.RawMessage, wrong string, tooCostly bool) {
	doc, code, why := httptext.EncodeBody("application/json", []byte(text), nil)
	if inner, ok := fenced(text); ok && (code != "" || doc == nil) {
		doc, code, why = httptext.EncodeBody("application/json", []byte(inner), nil)
	}
	switch {
	case code != "":
		return nil, strings.TrimPrefix(why, "the body says it is JSON and is not: "), false
	case doc == nil:
		return nil, "it is empty", false
	}
	v, err := expr.Decode(doc)
	if err != nil {
		return nil, err.Error(), false
	}
	v, findings := b.check.Apply(v)
	if len(findings) > 0 {
		return nil, saga.Details(findings), saga.TooCostly(findings)
	}
	return encode(v), "", false
}

const fence = "```"

// fenced returns the content of the first ``` fence of a text.
func fenced(text string) (string, bool) {
	_, rest, ok := strings.Cut(text, fence)
	if !ok {
		return "", false
	}
	_, rest, ok = strings.Cut(rest, "\n") // skip the language
	inner, _, closed := strings.Cut(rest, fence)
	return inner, ok && closed
}

// fault is an error in the format of OpenAI and compatible providers; nil is none.
type fault struct {
	message, kind, name string
	status              int // for an error inside an answer that began without one
}

// faultOf finds {error: {message, type, code}} or {error: text}. The code may be a text or a
// status.
func faultOf(body json.RawMessage) *fault {
	var doc struct{ Error json.RawMessage }
	if json.Unmarshal(body, &doc) != nil || len(doc.Error) == 0 || string(doc.Error) == "null" {
		return nil
	}
	var f fault
	if json.Unmarshal(doc.Error, &f.message) == nil {
		return &f
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(doc.Error, &fields) // missing fields stay empty
	_ = json.Unmarshal(fields["message"], &f.message)
	_ = json.Unmarshal(fields["type"], &f.kind)
	if json.Unmarshal(fields["code"], &f.status) != nil {
		_ = json.Unmarshal(fields["code"], &f.name)
	}
	return &f
}

// says reports whether the error has one of these names.
func (f *fault) says(names ...string) bool {
	return f != nil && (slices.Contains(names, f.name) || slices.Contains(names, f.kind))
}

// code returns the code of a refusal, or the given code.
func (f *fault) code(status int, code string) string {
	switch {
	case f.says("content_filter", "content_policy_violation", "responsibleaipolicyviolation", "moderation_blocked"):
		return CodeRefused
	case f.says("context_length_exceeded", "string_above_max_length") || status == 413 || f.mentions("context length", "context window", "maximum context", "prompt is too long"):
		return CodeContext
	case status == 404 || f.says("model_not_found"):
		return CodeModel
	}
	return code
}

func (f *fault) mentions(phrases ...string) bool {
	return f != nil && slices.ContainsFunc(phrases, func(p string) bool { return strings.Contains(strings.ToLower(f.message), p) })
}

// verdict judges an error inside a 2xx answer: by the status that it names, else as transient.
func (f *fault) verdict() saga.Verdict {
	class := journal.Transient
	if f.status >= 400 && f.status <= 499 {
		class = http.Class(saga.Answer{Sent: true, Status: f.status}, true)
	}
	code := f.code(f.status, CodeProvider)
	if code != CodeProvider {
		class = journal.Refused
	}
	title := "the provider reports an error within its response"
	if f.status > 0 {
		title = fmt.Sprintf("%s (%d)", title, f.status)
	}
	return failed(class, code, title, clip(f.message))
}

// maxSaid limits the quote of the provider's explanation.
const maxSaid = 500

func clip(s string) string { return httptext.Clip(s, maxSaid) }
