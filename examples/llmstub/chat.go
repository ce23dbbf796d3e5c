package llmstub

import (
	"encoding/json"
	"net/http"
)

// chat is OpenAI's API for chat completions.
type chat struct{}

// callPrefix is that of the ids of tool calls in OpenAI's APIs.
const callPrefix = "call_"

type chatFunction struct {
	Name       string          `json:"name"`
	Arguments  string          `json:"arguments"`
	Parameters json.RawMessage `json:"parameters,omitempty"`
}

type chatCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatRequest struct {
	Model    string
	Messages []struct {
		Role      string
		Content   json.RawMessage
		ToolCalls []chatCall `json:"tool_calls"`
	}
	Tools               []struct{ Function chatFunction }
	ToolChoice          json.RawMessage `json:"tool_choice"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls"`
	MaxTokens           int             `json:"max_tokens"`
	MaxCompletionTokens int             `json:"max_completion_tokens"`
	Stream              bool
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	ResponseFormat struct {
		Type       string
		JSONSchema struct{ Schema json.RawMessage } `json:"json_schema"`
	} `json:"response_format"`
}

func (chat) parse(_ http.Header, body []byte, _ *memory) (*question, *refusal) {
	var r chatRequest
	if json.Unmarshal(body, &r) != nil || len(r.Messages) == 0 {
		return nil, invalid("send a chat completion request: {model, messages}")
	}
	q := &question{Model: r.Model, Most: r.MaxTokens + r.MaxCompletionTokens, Stream: r.Stream, IncludeUsage: r.StreamOptions.IncludeUsage,
		JSON: r.ResponseFormat.Type == "json_schema", Schema: r.ResponseFormat.JSONSchema.Schema,
		Choice: openAIChoice(r.ToolChoice), Single: r.ParallelToolCalls != nil && !*r.ParallelToolCalls}
	for _, m := range r.Messages {
		one := message{Role: m.Role, Text: text(m.Content)}
		for _, c := range m.ToolCalls {
			one.Calls = append(one.Calls, toolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
		q.Messages = append(q.Messages, one)
	}
	for _, t := range r.Tools {
		q.Tools = append(q.Tools, tool{t.Function.Name, t.Function.Parameters})
	}
	return q, nil
}

// openAIChoice reads the tool_choice of both of OpenAI's APIs.
func openAIChoice(raw json.RawMessage) string {
	var word string
	if json.Unmarshal(raw, &word) == nil {
		return map[string]string{"none": noTool, "required": anyTool}[word]
	}
	var one struct {
		Name     string
		Function struct{ Name string }
	}
	_ = json.Unmarshal(raw, &one) // any other choice is the model's
	return one.Name + one.Function.Name
}

func (a reply) chatFinish() string {
	switch {
	case a.Truncated:
		return "length"
	case len(a.Calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

func (chat) document(q *question, a reply) any {
	said := map[string]any{"role": assistantRole, "content": a.Text, "refusal": optional(a.Refusal)}
	if len(a.Calls) > 0 {
		var calls []chatCall
		for _, c := range a.Calls {
			calls = append(calls, chatCall{callPrefix + c.ID, "function", chatFunction{Name: c.Name, Arguments: c.Arguments}})
		}
		said["tool_calls"], said["content"] = calls, optional(a.Text)
	}
	return map[string]any{"id": "chatcmpl-" + a.ID, "object": "chat.completion", "created": 0, "model": q.Model, "usage": a.Usage,
		"choices": []any{map[string]any{"index": 0, "finish_reason": a.chatFinish(), "message": said}}}
}

func optional(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (chat) events(q *question, a reply, f Fault) []event {
	chunk := func(choices []any, used any) string {
		doc := map[string]any{"id": "chatcmpl-" + a.ID, "object": "chat.completion.chunk", "created": 0, "model": q.Model, "choices": choices}
		if q.IncludeUsage || used != nil {
			doc["usage"] = used
		}
		return "data: " + string(encode(doc)) + "\n\n"
	}
	var used any
	if f.Usage {
		used = a.Usage
	}
	delta := func(delta map[string]any, finish any) string {
		return chunk([]any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}, used)
	}
	list := []event{{Text: ": the stub is thinking\n\n"}, {Text: delta(map[string]any{"role": assistantRole, "content": ""}, nil)}}
	part := func(d map[string]any) { list = append(list, event{Text: delta(d, nil), Part: true}) }
	for _, piece := range pieces(a.Text) {
		part(map[string]any{"content": piece})
	}
	if a.Refusal != "" {
		part(map[string]any{"refusal": a.Refusal})
	}
	for i, c := range a.Calls {
		part(map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": callPrefix + c.ID, "type": "function",
			"function": map[string]any{"name": c.Name, "arguments": ""}}}})
		for _, piece := range pieces(c.Arguments) {
			part(map[string]any{"tool_calls": []any{map[string]any{"index": i, "function": map[string]any{"arguments": piece}}}})
		}
	}
	list = append(list, event{Text: delta(map[string]any{}, a.chatFinish()), Last: true})
	if q.IncludeUsage {
		list = append(list, event{Text: chunk([]any{}, a.Usage), Last: true})
	}
	return append(list, event{Text: "data: [DONE]\n\n", Last: true})
}

// problem is an error in the form of OpenAI's APIs.
func (chat) problem(r refusal, used *usage) any { return openAIProblem(r, used) }

func openAIProblem(r refusal, used *usage) any {
	doc := map[string]any{"error": map[string]any{"message": r.Why, "type": "stub_error", "param": nil, "code": r.Code}}
	if used != nil {
		doc["usage"] = used
	}
	return doc
}
