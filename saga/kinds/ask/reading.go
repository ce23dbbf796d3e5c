package ask

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"

	"recourse/saga/kinds/llm"
)

// Meaning is what a response says, as far as it matters here.
type Meaning struct {
	ID     string      `json:"id,omitempty"`
	Model  string      `json:"model,omitempty"` // the name that the provider reports
	Finish string      `json:"finish_reason,omitempty"`
	Tokens *llm.Tokens `json:"tokens,omitempty"` // nil: unknown
	Whole  bool        `json:"whole,omitempty"`  // it has not ended too early
	// Items are those of the output of the responses API, to which later requests may refer.
	Items []Item `json:"items,omitempty"`
	// Fault is an error within the response, as the provider words it: redact it, and then cut it.
	Fault string `json:"fault,omitempty"`
}

// Item is an item of a response's output, or of a request's conversation.
type Item struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// mostItems is how many items of a response later requests may refer to.
const mostItems = 1000

// Reading reads a response while it arrives.
type Reading struct {
	Meaning
	route    Route
	usage    bool // see Question.Usage
	held     bool
	counts   counts
	choices  int64
	finished map[int]bool // the choices that have ended
}

// NewReading returns a reading of the response to a question.
func NewReading(route Route, q *Question) *Reading {
	return &Reading{route: route, usage: q.Usage, held: q.Hold, choices: q.choices(), finished: make(map[int]bool)}
}

// packet is a part of a response: a whole one, or an event of a stream, in any of the forms.
type packet struct {
	Type  string
	ID    string
	Model string
	Error json.RawMessage
	Usage *usage

	Choices []struct { // chat completions
		Index        int
		FinishReason string `json:"finish_reason"`
		Delta        struct {
			ToolCalls    json.RawMessage `json:"tool_calls"`
			FunctionCall json.RawMessage `json:"function_call"`
		}
	}

	Status   string // responses
	Response *packet
	Item     *Item
	Output   []Item

	StopReason string                 `json:"stop_reason"` // messages
	Message    *packet                // of message_start; in an error event, the error has a text of this name
	Block      *struct{ Type string } `json:"content_block"`
	Delta      *struct {
		StopReason string `json:"stop_reason"`
	}
}

// usage is the use that a provider reports, in any of the forms.
type usage struct {
	PromptTokens     count `json:"prompt_tokens"`
	CompletionTokens count `json:"completion_tokens"`
	InputTokens      count `json:"input_tokens"`
	OutputTokens     count `json:"output_tokens"`
	CacheRead        count `json:"cache_read_input_tokens"`
	CacheCreation    count `json:"cache_creation_input_tokens"`
	PromptDetails    struct {
		Cached count `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	InputDetails struct {
		Cached count `json:"cached_tokens"`
	} `json:"input_tokens_details"`
}

// count is a number of tokens that a provider reports. The zero count is not reported.
type count struct {
	n        int64
	reported bool
	wrong    bool // it is no number of tokens
}

// UnmarshalJSON reads a whole number in digits. It returns no error, because the response that has
// the number is paid for.
func (c *count) UnmarshalJSON(doc []byte) error {
	if string(doc) == "null" {
		return nil
	}
	n, err := strconv.ParseInt(string(doc), 10, 64)
	if c.reported, c.wrong = true, err != nil || n < 0 || n > llm.MaxUsage; !c.wrong {
		c.n = n
	}
	return nil
}

// counts are the parts of the use that a provider has reported so far.
type counts struct {
	input, cached, stored, output count
}

// add adds what a provider reports. A later report of a stream replaces the parts of an earlier one
// that it repeats. Nothing is settled by it.
func (r *Reading) add(u *usage) {
	if u == nil {
		return
	}
	set := func(to *count, from ...count) {
		for _, c := range from {
			if c.reported {
				*to = c
			}
		}
	}
	set(&r.counts.input, u.PromptTokens, u.InputTokens)
	set(&r.counts.output, u.CompletionTokens, u.OutputTokens)
	if r.route.form == messages {
		set(&r.counts.cached, u.CacheRead)
		set(&r.counts.stored, u.CacheCreation)
	} else {
		set(&r.counts.cached, u.PromptDetails.Cached, u.InputDetails.Cached)
	}
}

// settle makes the reported use the final one. Before the response has ended, a provider may report
// a part of it. A use with a part that is missing or wrong is unknown.
func (r *Reading) settle() {
	r.Tokens = nil
	c := &r.counts
	if !c.input.reported || !c.output.reported && r.route.Generates() || c.input.wrong || c.output.wrong || c.cached.wrong || c.stored.wrong {
		return
	}
	t := &llm.Tokens{Input: c.input.n, Output: c.output.n, Cached: c.cached.n, Stored: c.stored.n}
	if r.route.form == messages { // its input tokens are those that have to do with no cache
		t.Input += t.Cached + t.Stored
	} else {
		t.Cached = min(t.Cached, t.Input)
	}
	r.Tokens = t
}

// unmarshal reads a response, or an event of one. A member of another type than in the other forms
// is skipped. ok is false if it is no JSON object.
func unmarshal(data []byte) (p packet, ok bool) {
	err := json.Unmarshal(data, &p)
	other, typed := errors.AsType[*json.UnmarshalTypeError](err)
	return p, err == nil || typed && other.Field != ""
}

// made notes items of the output. An event may have them again.
func (r *Reading) made(items ...Item) {
	for _, item := range items {
		if item.ID != "" && len(r.Items) < mostItems && !slices.Contains(r.Items, item) {
			r.Items = append(r.Items, item)
		}
	}
}

// Event reads the data of one event of a stream. hold says that the agent must not get this event,
// and what follows, before the response is in the journal: it has, or may have, a part of a tool
// call, or it ends the response. drop says that it must not get the event at all. done: the
// response is over.
func (r *Reading) Event(data []byte) (hold, drop, done bool) {
	if string(data) == "[DONE]" {
		r.Whole, r.held = true, true
		r.settle()
		return true, false, true
	}
	if len(data) == 0 { // a comment
		return r.held, false, false
	}
	p, ok := unmarshal(data)
	if !ok {
		r.held = true // it may be the beginning of a tool call, which the connection's end has cut off
		return true, false, false
	}
	if text, ok := fault(p.Error); ok && p.Type != "response.created" {
		r.Fault, r.held = text, true
		return true, false, r.route.form != completions
	}
	switch r.route.form {
	case responses:
		done = r.responsesEvent(&p)
	case messages:
		done = r.messagesEvent(&p)
	default:
		drop = r.chunk(&p)
	}
	return r.held, drop, done
}

// chunk reads an event of chat completions. Its stream ends with [DONE], and is whole before that
// if each choice has ended.
func (r *Reading) chunk(p *packet) (drop bool) {
	r.ID = cmp.Or(p.ID, r.ID)
	r.Model = cmp.Or(p.Model, r.Model)
	r.add(p.Usage)
	for _, c := range p.Choices {
		if c.FinishReason != "" {
			r.finished[c.Index] = true
			r.Finish, r.Whole, r.held = c.FinishReason, int64(len(r.finished)) >= r.choices, true
		}
		r.held = r.held || present(c.Delta.ToolCalls) || present(c.Delta.FunctionCall)
	}
	if p.Usage != nil && r.Whole { // before that, some providers count what they have sent so far
		r.settle()
	}
	return r.usage && len(p.Choices) == 0 && p.Usage != nil
}

func (r *Reading) responsesEvent(p *packet) (done bool) {
	if p.Item != nil {
		r.made(*p.Item)
		r.held = r.held || p.Item.Type != "message" && p.Item.Type != "reasoning"
	}
	if p.Response != nil {
		r.ID = cmp.Or(p.Response.ID, r.ID)
		r.Model = cmp.Or(p.Response.Model, r.Model)
		r.counts = counts{} // the event has the response as it is now
		r.add(p.Response.Usage)
		r.made(p.Response.Output...)
	}
	switch p.Type {
	case "response.completed", "response.incomplete":
		r.Finish, r.Whole, r.held, done = p.Type[len("response."):], true, true, true
		r.settle()
	case "response.failed", "error":
		r.Fault, r.held, done = "the provider says "+p.Type, true, true
		if p.Response != nil {
			r.settle()
			if text, ok := fault(p.Response.Error); ok {
				r.Fault = text
			}
		}
	case "response.function_call_arguments.delta", "response.function_call_arguments.done":
		r.held = true
	}
	return done
}

func (r *Reading) messagesEvent(p *packet) (done bool) {
	r.add(p.Usage)
	switch p.Type {
	case "message_start":
		if p.Message != nil {
			r.ID = cmp.Or(p.Message.ID, r.ID)
			r.Model = cmp.Or(p.Message.Model, r.Model)
			if u := p.Message.Usage; u != nil {
				u.OutputTokens = count{} // of the first tokens
				r.add(u)
			}
		}
	case "content_block_start":
		if p.Block != nil && p.Block.Type != "text" && p.Block.Type != "thinking" && p.Block.Type != "redacted_thinking" {
			r.held = true
		}
	case "message_delta":
		r.held = true
		if p.Delta != nil {
			r.Finish = cmp.Or(p.Delta.StopReason, r.Finish)
		}
		if r.Finish != "" {
			r.settle()
		}
	case "message_stop":
		r.Whole, r.held, done = true, true, true
		r.settle()
	}
	return done
}

// Document reads a response that is one document.
func (r *Reading) Document(body []byte) {
	p, ok := unmarshal(body)
	if !ok {
		r.Fault = "the response is not a JSON object"
		return
	}
	if text, ok := fault(p.Error); ok {
		r.Fault = text
		return
	}
	r.ID, r.Model, r.Whole = p.ID, p.Model, true
	r.add(p.Usage)
	r.settle()
	switch r.route.form {
	case completions:
		if len(p.Choices) > 0 {
			r.Finish = p.Choices[0].FinishReason
		}
		if r.Whole = r.Finish != ""; !r.Whole {
			r.Fault = "the response is not a chat completion"
		}
	case responses:
		r.made(p.Output...)
		if r.Finish = p.Status; p.Status != "completed" && p.Status != "incomplete" {
			r.Fault, r.Whole = "the response has the status "+p.Status, false
		}
	case messages:
		if r.Finish = p.StopReason; r.Finish == "" {
			r.Fault, r.Whole = "the response is not a message", false
		}
	}
}

// fault returns the text of an error in the form of a provider; ok is false if there is none.
func fault(doc json.RawMessage) (text string, ok bool) {
	if !present(doc) {
		return "", false
	}
	var e struct{ Type, Code, Message string }
	if json.Unmarshal(doc, &e) != nil || e.Message == "" {
		return string(doc), true
	}
	return e.Message, true
}

// present reports whether a member is there and not empty.
func present(doc json.RawMessage) bool {
	text := string(doc)
	return text != "" && text != "null" && text != "[]"
}

const lineSize = 64 << 10

// Events reads server-sent events (the WHATWG's, section 9.2.6) and passes the bytes of each, and
// its data, to take, until take returns false. A part that the end of in has cut off is passed,
// too. Errors: ErrTooLarge, io.EOF at the end of in, those of in.
func Events(in io.Reader, take func(raw, data []byte) (more bool)) error {
	lines := bufio.NewReaderSize(in, lineSize)
	var raw, data []byte
	begin, total := 0, 0 // of the line in raw, and the bytes so far
	for {
		part, err := lines.ReadSlice('\n')
		raw = append(raw, part...)
		if total += len(part); total > llm.MaxBody {
			return llm.ErrTooLarge
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue // the line goes on
		}
		line := bytes.TrimRight(raw[begin:], "\r\n")
		begin = len(raw)
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		}
		if len(line) > 0 && err == nil {
			continue
		}
		if len(raw) > 0 && !take(raw, data) {
			return nil
		}
		if err != nil {
			return err
		}
		raw, data, begin = nil, nil, 0
	}
}
