// Package transcript reads requests to language models and their answers as conversations. It knows
// the forms of the providers whose requests a session's journal has: OpenAI's chat completions and
// responses, and Anthropic's messages. All of it was written by agents, models and tools, so
// nothing in it is trusted, and what has another form is shown as JSON.
package transcript

import (
	"encoding/json"
	"slices"
	"strings"
)

// Message is one message of a conversation.
type Message struct {
	Role  string // user, assistant, system, tool …; for other items their type
	Parts []Part
}

// Part is a part of a message.
type Part struct {
	Kind Kind
	Name string // of the tool that is called
	Text string // a text, or JSON
}

// Kind says what a part is.
type Kind string

// The kinds of a part.
const (
	Text   Kind = "text"
	Call   Kind = "call"   // the model calls a tool, with Text as its arguments
	Result Kind = "result" // what a tool has returned
	JSON   Kind = "json"   // anything else
)

// Prompt reads the body of a request. rest is the body without its conversation. ok is false if the
// body has none.
func Prompt(body json.RawMessage) (messages []Message, rest json.RawMessage, ok bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return nil, nil, false
	}
	for _, name := range []string{"system", "instructions"} {
		if fields[name] != nil {
			messages = append(messages, Message{"system", partsOf(fields[name])})
			delete(fields, name)
		}
	}
	for _, name := range []string{"messages", "input"} {
		if fields[name] == nil {
			continue
		}
		ok = true
		var items []json.RawMessage
		if json.Unmarshal(fields[name], &items) != nil {
			messages = append(messages, Message{"user", partsOf(fields[name])})
		}
		for _, item := range items {
			messages = append(messages, messageOf(item))
		}
		delete(fields, name)
	}
	if rest, _ = json.Marshal(fields); len(fields) == 0 {
		rest = nil
	}
	return messages, rest, ok
}

// Answer reads an answer; nil if it has another form.
func Answer(contentType, text string) []Message {
	if strings.HasPrefix(contentType, "text/event-stream") {
		return streamed(text)
	}
	return whole(json.RawMessage(text))
}

// whole reads an answer that is one document.
func whole(doc json.RawMessage) (list []Message) {
	var d struct {
		Choices []struct{ Message json.RawMessage }
		Output  []json.RawMessage
		Role    string
		Content json.RawMessage
	}
	if json.Unmarshal(doc, &d) != nil {
		return nil
	}
	for _, c := range d.Choices {
		list = append(list, messageOf(c.Message))
	}
	for _, item := range d.Output {
		list = append(list, messageOf(item))
	}
	if d.Content != nil && d.Role != "" {
		list = append(list, Message{d.Role, partsOf(d.Content)})
	}
	return list
}

// item is an item of a conversation, in any of the forms.
type item struct {
	Role, Type, Name string
	Content          json.RawMessage
	ToolCalls        []toolCall `json:"tool_calls"`
	Arguments        string
	Output           json.RawMessage
}

type toolCall struct {
	Index    int
	Function struct{ Name, Arguments string }
}

func messageOf(doc json.RawMessage) Message {
	var i item
	if json.Unmarshal(doc, &i) != nil {
		return Message{Parts: []Part{{Kind: JSON, Text: string(doc)}}}
	}
	m := Message{Role: i.Role}
	if m.Role == "" {
		m.Role = strings.ReplaceAll(i.Type, "_", " ")
	}
	switch {
	case i.Type == "function_call":
		m.Role, m.Parts = "assistant", []Part{{Call, i.Name, i.Arguments}}
	case i.Type == "function_call_output":
		m.Role, m.Parts = "tool", results(i.Output)
	case i.Role == "tool":
		m.Parts = results(i.Content)
	default:
		m.Parts = partsOf(i.Content)
	}
	for _, c := range i.ToolCalls {
		m.Parts = append(m.Parts, Part{Call, c.Function.Name, c.Function.Arguments})
	}
	if m.Parts == nil {
		m.Parts = []Part{{Kind: JSON, Text: string(doc)}}
	}
	return m
}

// results returns the parts of a tool's result.
func results(content json.RawMessage) []Part {
	parts := partsOf(content)
	for i := range parts {
		if parts[i].Kind == Text {
			parts[i].Kind = Result
		}
	}
	return parts
}

// partsOf reads the content of a message: a text, or a list of parts.
func partsOf(content json.RawMessage) (parts []Part) {
	var text string
	if json.Unmarshal(content, &text) == nil {
		if text == "" {
			return nil // also null
		}
		return []Part{{Kind: Text, Text: text}}
	}
	var list []json.RawMessage
	if json.Unmarshal(content, &list) != nil {
		if len(content) == 0 {
			return nil
		}
		return []Part{{Kind: JSON, Text: string(content)}}
	}
	for _, doc := range list {
		var p struct {
			Type, Name     string
			Text           *string
			Input, Content json.RawMessage
		}
		_ = json.Unmarshal(doc, &p) // a part of another form is JSON
		switch {
		case p.Text != nil:
			parts = append(parts, Part{Kind: Text, Text: *p.Text})
		case p.Type == "tool_use":
			parts = append(parts, Part{Call, p.Name, string(p.Input)})
		case p.Type == "tool_result":
			parts = append(parts, results(p.Content)...)
		default:
			parts = append(parts, Part{Kind: JSON, Text: string(doc)})
		}
	}
	return parts
}

// event is an event of a streamed answer, in any of the forms.
type event struct {
	Type     string
	Response json.RawMessage // the end of a stream of OpenAI's responses

	Choices []struct { // chat completions
		Index int
		Delta struct {
			Content   string
			ToolCalls []toolCall `json:"tool_calls"`
		}
	}

	Index int // messages
	Block *struct {
		Type, Name, Text string
	} `json:"content_block"`
	Delta struct {
		Text    string
		Partial string `json:"partial_json"`
	}
}

// streamed reads an answer that came as server-sent events.
func streamed(text string) []Message {
	type place struct{ choice, kind, index int } // kind: 0 for the text, 1 for calls of tools
	type growing struct {
		Part
		text strings.Builder
	}
	parts := make(map[place]*growing)
	part := func(at place, kind Kind) *growing {
		if parts[at] == nil {
			parts[at] = &growing{Part: Part{Kind: kind}}
		}
		return parts[at]
	}
	for line := range strings.Lines(text) {
		data, ok := strings.CutPrefix(line, "data:")
		var e event
		if !ok || json.Unmarshal([]byte(data), &e) != nil {
			continue
		}
		if strings.HasPrefix(e.Type, "response.") {
			if list := whole(e.Response); list != nil && e.Type != "response.created" && e.Type != "response.in_progress" {
				return list
			}
			continue
		}
		for _, c := range e.Choices {
			if c.Delta.Content != "" {
				part(place{choice: c.Index}, Text).text.WriteString(c.Delta.Content)
			}
			for _, t := range c.Delta.ToolCalls {
				p := part(place{c.Index, 1, t.Index}, Call)
				p.Name += t.Function.Name
				p.text.WriteString(t.Function.Arguments)
			}
		}
		at := place{index: e.Index}
		if b := e.Block; b != nil {
			p := part(at, Text)
			p.text.WriteString(b.Text)
			if b.Type == "tool_use" {
				p.Kind, p.Name = Call, b.Name
			}
		}
		if e.Delta.Text != "" || e.Delta.Partial != "" {
			part(at, Text).text.WriteString(e.Delta.Text + e.Delta.Partial)
		}
	}
	places := make([]place, 0, len(parts))
	for at := range parts { // any order
		places = append(places, at)
	}
	slices.SortFunc(places, func(a, b place) int {
		if a.choice != b.choice {
			return a.choice - b.choice
		}
		if a.kind != b.kind {
			return a.kind - b.kind
		}
		return a.index - b.index
	})
	var list []Message
	last := -1
	for _, at := range places {
		if at.choice != last {
			list, last = append(list, Message{Role: "assistant"}), at.choice
		}
		p := parts[at]
		p.Text = p.text.String()
		list[len(list)-1].Parts = append(list[len(list)-1].Parts, p.Part)
	}
	return list
}
