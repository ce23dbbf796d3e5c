package llmstub

import (
	"encoding/json"
	"net/http"
)

// responses is OpenAI's Responses API.
type responses struct{}

const (
	responsePrefix = "resp_"
	messagePrefix  = "msg_"
	itemPrefix     = "fc_" // of the items that call a function; their calls have callPrefix
)

type responsesRequest struct {
	Model              string
	Input              json.RawMessage
	Instructions       string
	PreviousResponseID string `json:"previous_response_id"`
	Tools              []struct {
		Type, Name string
		Parameters json.RawMessage
	}
	ToolChoice        json.RawMessage `json:"tool_choice"`
	ParallelToolCalls *bool           `json:"parallel_tool_calls"`
	MaxOutputTokens   int             `json:"max_output_tokens"`
	Stream            bool
	Store             *bool
	Text              struct {
		Format struct {
			Type   string
			Schema json.RawMessage
		}
	}
}

// responsesItem is an item of the input.
type responsesItem struct {
	Type, Role      string
	ID              string
	Content         json.RawMessage
	Name, Arguments string
	CallID          string `json:"call_id"`
	Output          json.RawMessage
}

func (responses) parse(_ http.Header, body []byte, known *memory) (*question, *refusal) {
	var r responsesRequest
	if json.Unmarshal(body, &r) != nil {
		return nil, invalid("send a request for a response: {model, input}")
	}
	q := &question{Model: r.Model, Most: r.MaxOutputTokens, Stream: r.Stream, JSON: r.Text.Format.Type == "json_schema", Schema: r.Text.Format.Schema,
		Choice: openAIChoice(r.ToolChoice), Single: r.ParallelToolCalls != nil && !*r.ParallelToolCalls, Stored: r.Store == nil || *r.Store}
	if r.PreviousResponseID != "" {
		before, ok := known.conversation(r.PreviousResponseID)
		if !ok {
			return nil, &refusal{http.StatusBadRequest, "previous_response_not_found", "there is no stored response " + r.PreviousResponseID}
		}
		q.Messages = append(q.Messages, before...)
	}
	if r.Instructions != "" {
		q.Messages = append(q.Messages, message{Role: "system", Text: r.Instructions})
	}
	input, why := responsesInput(r.Input, known)
	if why != nil {
		return nil, why
	}
	if q.Messages = append(q.Messages, input...); len(q.Messages) == 0 {
		return nil, invalid("input has no message")
	}
	for _, t := range r.Tools {
		if t.Type == "function" {
			q.Tools = append(q.Tools, tool{t.Name, t.Parameters})
		}
	}
	return q, nil
}

// responsesInput reads the input: a text, or a list of items.
func responsesInput(raw json.RawMessage, known *memory) (list []message, why *refusal) {
	var only string
	if json.Unmarshal(raw, &only) == nil {
		return []message{{Role: userRole, Text: only}}, nil
	}
	var items []responsesItem
	if json.Unmarshal(raw, &items) != nil || len(items) == 0 {
		return nil, invalid("input must be a text or a list of items")
	}
	for _, it := range items {
		switch it.Type {
		case "", "message":
			list = append(list, message{Role: it.Role, Text: text(it.Content)})
		case "function_call":
			list = append(list, message{Role: assistantRole, Calls: []toolCall{{ID: it.CallID, Name: it.Name, Arguments: it.Arguments}}})
		case "function_call_output":
			list = append(list, message{Role: toolRole, Text: text(it.Output)})
		case "item_reference":
			one, ok := known.message(it.ID)
			if !ok {
				return nil, &refusal{http.StatusNotFound, "item_not_found", "there is no stored item " + it.ID}
			}
			list = append(list, one)
		}
	}
	return list, nil
}

// responsesUsage is the token usage in the form of this API.
func responsesUsage(u *usage) any {
	return map[string]any{"input_tokens": u.Input, "input_tokens_details": map[string]any{"cached_tokens": 0},
		"output_tokens": u.Output, "output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": u.Total}
}

func (responses) document(q *question, a reply) any {
	status := "completed"
	if a.Truncated {
		status = "incomplete"
	}
	output := []any{}
	for _, it := range responsesOutput(a) {
		output = append(output, it.item(it.whole, status))
	}
	doc := responsesHead(q, a, status, output)
	if a.Truncated {
		doc["incomplete_details"] = map[string]any{"reason": "max_output_tokens"}
	}
	doc["usage"] = responsesUsage(a.Usage)
	return doc
}

func responsesHead(q *question, a reply, status string, output []any) map[string]any {
	return map[string]any{"id": responsePrefix + a.ID, "object": "response", "created_at": 0, "status": status, "background": false, "error": nil,
		"incomplete_details": nil, "instructions": nil, "max_output_tokens": nil, "metadata": map[string]any{}, "model": q.Model, "output": output,
		"parallel_tool_calls": !q.Single, "previous_response_id": nil, "reasoning": map[string]any{"effort": nil, "summary": nil}, "store": q.Stored,
		"temperature": 1, "text": map[string]any{"format": map[string]any{"type": "text"}}, "tool_choice": "auto", "tools": []any{}, "top_p": 1,
		"truncation": "disabled", "usage": nil, "user": nil}
}

// outputItem is an item of the output.
type outputItem struct {
	whole string // its text, refusal or arguments
	item  func(content, status string) any
	part  func(content string) any // the part of a message; nil for a call
	event string                   // the name of its deltas and of their end
	field string                   // of the whole in the event at their end
	name  string                   // of the function
	id    string
}

// responsesOutput returns the items of the output: a message and the function calls.
func responsesOutput(a reply) (list []outputItem) {
	if a.Text != "" || a.Refusal != "" || len(a.Calls) == 0 {
		it := outputItem{whole: a.Text, event: "response.output_text", field: "text", id: messagePrefix + a.ID,
			part: func(content string) any {
				return map[string]any{"type": "output_text", "text": content, "annotations": []any{}, "logprobs": []any{}}
			}}
		if a.Refusal != "" {
			it.whole, it.event, it.field = a.Refusal, "response.refusal", "refusal"
			it.part = func(content string) any { return map[string]any{"type": "refusal", "refusal": content} }
		}
		it.item = func(content, status string) any {
			parts := []any{}
			if content != "" {
				parts = append(parts, it.part(content))
			}
			return map[string]any{"id": it.id, "type": "message", "status": status, "role": assistantRole, "content": parts}
		}
		list = append(list, it)
	}
	for _, c := range a.Calls {
		list = append(list, outputItem{whole: c.Arguments, event: "response.function_call_arguments", field: "arguments", name: c.Name, id: itemPrefix + c.ID,
			item: func(content, status string) any {
				return map[string]any{"id": itemPrefix + c.ID, "type": "function_call", "status": status, "call_id": callPrefix + c.ID, "name": c.Name, "arguments": content}
			}})
	}
	return list
}

func (api responses) events(q *question, a reply, _ Fault) (list []event) {
	number := 0
	add := func(kind string, doc map[string]any, e event) {
		doc["type"], doc["sequence_number"] = kind, number
		number++
		e.Text = "event: " + kind + "\ndata: " + string(encode(doc)) + "\n\n"
		list = append(list, e)
	}
	const begun = "in_progress"
	add("response.created", map[string]any{"response": responsesHead(q, a, begun, []any{})}, event{})
	add("response.in_progress", map[string]any{"response": responsesHead(q, a, begun, []any{})}, event{})
	status := "completed"
	if a.Truncated {
		status = "incomplete"
	}
	for i, it := range responsesOutput(a) {
		at := func(more map[string]any) map[string]any {
			more["item_id"], more["output_index"] = it.id, i
			if it.part != nil {
				more["content_index"] = 0
			}
			if it.field == "text" && more["part"] == nil {
				more["logprobs"] = []any{}
			}
			return more
		}
		add("response.output_item.added", map[string]any{"output_index": i, "item": it.item("", begun)}, event{})
		if it.part != nil {
			add("response.content_part.added", at(map[string]any{"part": it.part("")}), event{})
		}
		for _, piece := range pieces(it.whole) {
			add(it.event+".delta", at(map[string]any{"delta": piece}), event{Part: true})
		}
		end := at(map[string]any{it.field: it.whole})
		if it.name != "" {
			end["name"] = it.name
		}
		add(it.event+".done", end, event{})
		if it.part != nil {
			add("response.content_part.done", at(map[string]any{"part": it.part(it.whole)}), event{})
		}
		add("response.output_item.done", map[string]any{"output_index": i, "item": it.item(it.whole, status)}, event{})
	}
	add("response."+status, map[string]any{"response": api.document(q, a)}, event{Last: true})
	return list
}

func (responses) problem(r refusal, used *usage) any { return openAIProblem(r, used) }
