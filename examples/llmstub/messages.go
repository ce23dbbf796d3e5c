package llmstub

import (
	"encoding/json"
	"net/http"
)

// messages is Anthropic's Messages API.
type messages struct{}

// usePrefix is that of the ids of tool calls in Anthropic's API.
const usePrefix = "toolu_"

type messagesRequest struct {
	Model     string
	MaxTokens int `json:"max_tokens"`
	System    json.RawMessage
	Messages  []struct {
		Role    string
		Content json.RawMessage
	}
	Tools []struct {
		Name        string
		InputSchema json.RawMessage `json:"input_schema"`
	}
	ToolChoice struct {
		Type, Name string
		Single     bool `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
	Stream       bool
	OutputConfig struct {
		Format struct {
			Type   string
			Schema json.RawMessage
		}
	} `json:"output_config"`
}

// messagesBlock is a block of a message's content.
type messagesBlock struct {
	Type    string
	Text    string
	ID      string
	Name    string
	Input   json.RawMessage
	Content json.RawMessage
}

func (messages) parse(h http.Header, body []byte, _ *memory) (*question, *refusal) {
	q, r, why := messagesQuestion(h, body)
	if why == nil && r.MaxTokens < 1 {
		return nil, invalid("max_tokens: Field required")
	}
	return q, why
}

func messagesQuestion(h http.Header, body []byte) (*question, messagesRequest, *refusal) {
	var r messagesRequest
	if json.Unmarshal(body, &r) != nil || len(r.Messages) == 0 {
		return nil, r, invalid("send a message request: {model, max_tokens, messages}")
	}
	if h.Get("anthropic-version") == "" {
		return nil, r, invalid("anthropic-version: header is required")
	}
	q := &question{Model: r.Model, Most: r.MaxTokens, Stream: r.Stream, JSON: r.OutputConfig.Format.Type == "json_schema", Schema: r.OutputConfig.Format.Schema,
		Choice: map[string]string{"any": anyTool, "none": noTool, "tool": r.ToolChoice.Name}[r.ToolChoice.Type], Single: r.ToolChoice.Single}
	if s := text(r.System); s != "" {
		q.Messages = append(q.Messages, message{Role: "system", Text: s})
	}
	for _, m := range r.Messages {
		q.Messages = append(q.Messages, messagesContent(m.Role, m.Content)...)
	}
	for _, t := range r.Tools {
		q.Tools = append(q.Tools, tool{t.Name, t.InputSchema})
	}
	return q, r, nil
}

// messagesContent divides a message into what it says, and the results of tools that it has.
func messagesContent(role string, raw json.RawMessage) (list []message) {
	said := message{Role: role}
	var blocks []messagesBlock
	if json.Unmarshal(raw, &blocks) != nil {
		said.Text = text(raw)
	}
	for _, b := range blocks {
		switch b.Type {
		case "text":
			said.Text += b.Text
		case "tool_use":
			said.Calls = append(said.Calls, toolCall{ID: b.ID, Name: b.Name, Arguments: string(b.Input)})
		case "tool_result":
			list = append(list, message{Role: toolRole, Text: text(b.Content)})
		}
	}
	if said.Text != "" || len(said.Calls) > 0 || len(list) == 0 {
		list = append(list, said)
	}
	return list
}

func (a reply) messagesStop() string {
	switch {
	case a.Truncated:
		return "max_tokens"
	case a.Refusal != "":
		return "refusal"
	case len(a.Calls) > 0:
		return "tool_use"
	}
	return "end_turn"
}

func (messages) document(q *question, a reply) any {
	content := []any{}
	for _, b := range messagesBlocks(a) {
		content = append(content, b.block(b.whole))
	}
	doc := messagesHead(q, a, a.Usage.Output)
	doc["content"], doc["stop_reason"] = content, a.messagesStop()
	return doc
}

func messagesHead(q *question, a reply, out int) map[string]any {
	return map[string]any{"id": messagePrefix + a.ID, "type": "message", "role": assistantRole, "model": q.Model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": messagesUsage(a.Usage.Input, out)}
}

func messagesUsage(in, out int) map[string]any {
	return map[string]any{"input_tokens": in, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": out}
}

// outputBlock is a block of the response.
type outputBlock struct {
	whole string
	block func(content string) any
	delta func(piece string) any
	first []string // deltas before the content's
}

func messagesBlocks(a reply) (list []outputBlock) {
	if said := a.Text + a.Refusal; said != "" {
		list = append(list, outputBlock{whole: said,
			block: func(content string) any { return map[string]any{"type": "text", "text": content} },
			delta: func(piece string) any { return map[string]any{"type": "text_delta", "text": piece} }})
	}
	for _, c := range a.Calls {
		list = append(list, outputBlock{whole: c.Arguments, first: []string{""},
			block: func(content string) any {
				if content == "" {
					content = "{}"
				}
				return map[string]any{"type": "tool_use", "id": usePrefix + c.ID, "name": c.Name, "input": json.RawMessage(content)}
			},
			delta: func(piece string) any { return map[string]any{"type": "input_json_delta", "partial_json": piece} }})
	}
	return list
}

func (messages) events(q *question, a reply, _ Fault) (list []event) {
	add := func(kind string, doc map[string]any, e event) {
		doc["type"] = kind
		e.Text = "event: " + kind + "\ndata: " + string(encode(doc)) + "\n\n"
		list = append(list, e)
	}
	add("message_start", map[string]any{"message": messagesHead(q, a, 1)}, event{})
	for i, b := range messagesBlocks(a) {
		add("content_block_start", map[string]any{"index": i, "content_block": b.block("")}, event{})
		if i == 0 {
			add("ping", map[string]any{}, event{})
		}
		for _, piece := range append(b.first, pieces(b.whole)...) {
			add("content_block_delta", map[string]any{"index": i, "delta": b.delta(piece)}, event{Part: true})
		}
		add("content_block_stop", map[string]any{"index": i}, event{})
	}
	add("message_delta", map[string]any{"delta": map[string]any{"stop_reason": a.messagesStop(), "stop_sequence": nil},
		"usage": messagesUsage(a.Usage.Input, a.Usage.Output)}, event{Last: true})
	add("message_stop", map[string]any{}, event{Last: true})
	return list
}

// messagesErrors are the types of errors.
var messagesErrors = map[int]string{400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
	413: "request_too_large", 422: "invalid_request_error", 429: "rate_limit_error", 529: "overloaded_error"}

func (messages) problem(r refusal, _ *usage) any {
	kind := messagesErrors[r.Status]
	if kind == "" {
		kind = "api_error"
	}
	return map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": r.Why}, "request_id": nil}
}

// counts is the route that counts the tokens of a message request.
type counts struct{ messages }

func (counts) parse(h http.Header, body []byte, _ *memory) (*question, *refusal) {
	q, _, why := messagesQuestion(h, body)
	if why == nil {
		q.Stream, q.Uncounted, q.Free = false, true, true
	}
	return q, why
}

func (counts) document(_ *question, a reply) any {
	return map[string]any{"input_tokens": a.Usage.Input}
}
