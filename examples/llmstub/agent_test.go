package llmstub_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/examples/llmstub"
	"recourse/internal/test/golden"
)

// The routes of the APIs.
const (
	chatPath      = "/v1/chat/completions"
	responsesPath = "/v1/responses"
	messagesPath  = "/v1/messages"
)

type object = map[string]any

// called is a call of a tool in a response.
type called struct{ ID, Name, Arguments string }

// answered is a response as an agent reads it.
type answered struct {
	Text  string
	Calls []called
	Ended string // the reason
	In    int    // tokens
	Out   int
}

// talk is a conversation by one of the APIs.
type talk interface {
	path() string
	request(stream bool) object
	// read takes a response apart and adds it to the conversation, with a result for each call.
	read(t *testing.T, body []byte) answered
	// join makes the body of the same response in one piece from the data of the events of a
	// stream.
	join(t *testing.T, events []object) []byte
}

func tools(form func(name string, schema object) object) (list []object) {
	for _, name := range []string{"look", "refund", "mail"} {
		list = append(list, form(name, object{"type": "object", "properties": object{
			"order": object{"type": "string"}, "amount": object{"type": "integer"}, "to": object{"type": "string"}, "text": object{"type": "string"}}}))
	}
	return list
}

type chatTalk struct{ messages []any }

func (*chatTalk) path() string { return chatPath }

func (c *chatTalk) request(stream bool) object {
	r := object{"model": "m", "messages": c.messages, "stream": stream,
		"tools": tools(func(name string, schema object) object {
			return object{"type": "function", "function": object{"name": name, "parameters": schema}}
		})}
	if stream {
		r["stream_options"] = object{"include_usage": true}
	}
	return r
}

func (c *chatTalk) read(t *testing.T, body []byte) (a answered) {
	var doc struct {
		Choices []struct {
			Finish  string `json:"finish_reason"`
			Message json.RawMessage
		}
		Usage struct {
			In  int `json:"prompt_tokens"`
			Out int `json:"completion_tokens"`
		}
	}
	decode(t, body, &doc)
	var said struct {
		Content string
		Calls   []struct {
			ID       string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	decode(t, doc.Choices[0].Message, &said)
	c.messages = append(c.messages, doc.Choices[0].Message)
	for _, call := range said.Calls {
		a.Calls = append(a.Calls, called{call.ID, call.Function.Name, call.Function.Arguments})
		c.messages = append(c.messages, object{"role": "tool", "tool_call_id": call.ID, "content": `{"ok":true}`})
	}
	a.Text, a.Ended, a.In, a.Out = said.Content, doc.Choices[0].Finish, doc.Usage.In, doc.Usage.Out
	return a
}

func (*chatTalk) join(t *testing.T, events []object) []byte {
	text, finish := "", ""
	var calls []object
	var used any
	for _, e := range events {
		var chunk struct {
			Choices []struct {
				Finish string `json:"finish_reason"`
				Delta  struct {
					Content string
					Calls   []struct {
						Index    int
						ID       string
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
			}
		}
		decode(t, encode(t, e), &chunk)
		if len(chunk.Choices) == 0 {
			used = e["usage"]
			continue
		}
		text, finish = text+chunk.Choices[0].Delta.Content, chunk.Choices[0].Finish
		for _, d := range chunk.Choices[0].Delta.Calls {
			if d.Index == len(calls) {
				calls = append(calls, object{"id": d.ID, "function": object{"name": d.Function.Name, "arguments": ""}})
			}
			f := calls[d.Index]["function"].(object)
			f["arguments"] = f["arguments"].(string) + d.Function.Arguments
		}
	}
	return encode(t, object{"usage": used, "choices": []any{object{"finish_reason": finish, "message": object{"role": "assistant", "content": text, "tool_calls": calls}}}})
}

type responsesTalk struct{ input []any }

func (*responsesTalk) path() string { return responsesPath }

func (c *responsesTalk) request(stream bool) object {
	return object{"model": "m", "input": c.input, "stream": stream, "instructions": "You are an agent.",
		"tools": tools(func(name string, schema object) object {
			return object{"type": "function", "name": name, "parameters": schema}
		})}
}

func (c *responsesTalk) read(t *testing.T, body []byte) (a answered) {
	var doc struct {
		Status string
		Output []json.RawMessage
		Usage  struct {
			In  int `json:"input_tokens"`
			Out int `json:"output_tokens"`
		}
	}
	decode(t, body, &doc)
	for _, raw := range doc.Output {
		var it struct {
			Type, Name, Arguments string
			CallID                string `json:"call_id"`
			Content               []struct{ Text string }
		}
		decode(t, raw, &it)
		c.input = append(c.input, raw)
		if it.Type == "message" {
			a.Text += it.Content[0].Text
			continue
		}
		a.Calls = append(a.Calls, called{it.CallID, it.Name, it.Arguments})
		c.input = append(c.input, object{"type": "function_call_output", "call_id": it.CallID, "output": `{"ok":true}`})
	}
	a.Ended, a.In, a.Out = doc.Status, doc.Usage.In, doc.Usage.Out
	return a
}

// join checks that the deltas of each item are the item of the last event.
func (*responsesTalk) join(t *testing.T, events []object) []byte {
	var last struct {
		Response struct{ Output []json.RawMessage }
	}
	decode(t, encode(t, events[len(events)-1]), &last)
	deltas := make(map[string]string)
	for n, e := range events {
		if e["sequence_number"] != json.Number(fmt.Sprint(n)) {
			t.Errorf("event %d has the number %v", n, e["sequence_number"])
		}
		kind := e["type"].(string)
		if strings.HasSuffix(kind, ".delta") {
			deltas[e["item_id"].(string)] += e["delta"].(string)
		}
		if kind == "response.output_item.done" {
			it := e["item"].(object)
			whole, _ := it["arguments"].(string)
			if parts, ok := it["content"].([]any); ok {
				whole = parts[0].(object)["text"].(string)
			}
			if deltas[it["id"].(string)] != whole {
				t.Errorf("the deltas of %v are %q", it, deltas[it["id"].(string)])
			}
		}
	}
	if len(deltas) != len(last.Response.Output) {
		t.Errorf("%d items had deltas, and %d are in the response", len(deltas), len(last.Response.Output))
	}
	return encode(t, events[len(events)-1]["response"])
}

type messagesTalk struct{ messages []any }

func (*messagesTalk) path() string { return messagesPath }

func (c *messagesTalk) request(stream bool) object {
	return object{"model": "m", "messages": c.messages, "stream": stream, "max_tokens": 4096, "system": "You are an agent.",
		"tools": tools(func(name string, schema object) object { return object{"name": name, "input_schema": schema} })}
}

func (c *messagesTalk) read(t *testing.T, body []byte) (a answered) {
	var doc struct {
		Content []object
		Stop    string `json:"stop_reason"`
		Usage   struct {
			In  int `json:"input_tokens"`
			Out int `json:"output_tokens"`
		}
	}
	decode(t, body, &doc)
	c.messages = append(c.messages, object{"role": "assistant", "content": doc.Content})
	var results []any
	for _, b := range doc.Content {
		if b["type"] == "text" {
			a.Text += b["text"].(string)
			continue
		}
		id := b["id"].(string)
		a.Calls = append(a.Calls, called{id, b["name"].(string), string(encode(t, b["input"]))})
		results = append(results, object{"type": "tool_result", "tool_use_id": id, "content": []any{object{"type": "text", "text": `{"ok":true}`}}})
	}
	if results != nil {
		c.messages = append(c.messages, object{"role": "user", "content": results})
	}
	a.Ended, a.In, a.Out = doc.Stop, doc.Usage.In, doc.Usage.Out
	return a
}

func (*messagesTalk) join(t *testing.T, events []object) []byte {
	var doc object
	var blocks []object
	var inputs []string
	for _, e := range events {
		switch e["type"] {
		case "message_start":
			doc = e["message"].(object)
		case "content_block_start":
			blocks, inputs = append(blocks, e["content_block"].(object)), append(inputs, "")
		case "content_block_delta":
			i := len(blocks) - 1
			d := e["delta"].(object)
			if d["type"] == "text_delta" {
				blocks[i]["text"] = blocks[i]["text"].(string) + d["text"].(string)
			} else {
				inputs[i] += d["partial_json"].(string)
				blocks[i]["input"] = json.RawMessage(inputs[i])
			}
		case "message_delta":
			doc["stop_reason"], doc["usage"] = e["delta"].(object)["stop_reason"], e["usage"]
		}
	}
	if last := events[len(events)-1]["type"]; last != "message_stop" {
		t.Errorf("the last event is %v", last)
	}
	doc["content"] = blocks
	return encode(t, doc)
}

func decode(t *testing.T, b []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// events returns the data of a stream. The name of each event, if it has one, is its type.
func events(t *testing.T, body string) (list []object) {
	name := ""
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		if after, ok := strings.CutPrefix(line, "event: "); ok {
			name = after
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var e object
		decode(t, []byte(data), &e)
		if name != "" && e["type"] != name {
			t.Errorf("the event %s has the type %v", name, e["type"])
		}
		list = append(list, e)
	}
	return list
}

// post sends a request of any API.
func post(t *testing.T, s *llmstub.Server, path string, body any) (*http.Response, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+path, bytes.NewReader(encode(t, body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("anthropic-version", "2023-06-01")
	r.Header.Set("x-api-key", "k1")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

func turn(t *testing.T, s *llmstub.Server, c talk, stream bool) answered {
	t.Helper()
	resp, body, err := post(t, s, c.path(), c.request(stream))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v, %s", resp, err, body)
	}
	if stream {
		body = string(c.join(t, events(t, body)))
	}
	return c.read(t, []byte(body))
}

const ticket = `Please handle {this}: {"orders": [{"order": "o-1", "amount": 1910, "to": "ann@shop.example"}, {"order": "o-2", "amount": 4.50, "to": "ben@shop.example"}]}. Thanks.`

// talks begins a conversation by each API.
func talks() map[string]talk {
	first := object{"role": "user", "content": ticket}
	return map[string]talk{"chat": &chatTalk{[]any{first}}, "responses": &responsesTalk{[]any{first}}, "messages": &messagesTalk{[]any{first}}}
}

// An agent finishes its ticket by each API, streamed and not, with parallel calls and one by one,
// and the calls are those of the ticket, each once.
func TestAgents(t *testing.T) {
	want := []string{"look o-1", "look o-2", "mail o-1 ann@shop.example", "mail o-2 ben@shop.example", "refund o-1 1910", "refund o-2 4.50"}
	for _, cfg := range []llmstub.Config{{}, {OneByOne: true}, {Seed: 7}, {Seed: 8, OneByOne: true}} {
		for _, stream := range []bool{false, true} {
			for name, c := range talks() {
				t.Run(fmt.Sprintf("%s stream %v seed %d one by one %v", name, stream, cfg.Seed, cfg.OneByOne), func(t *testing.T) {
					s := start(t, cfg)
					var made []string
					asks, end := 0, ""
					for end == "" {
						a := turn(t, s, c, stream)
						asks++
						if a.In == 0 || a.Out == 0 || a.Text == "" {
							t.Errorf("text %q, %d tokens in, %d out", a.Text, a.In, a.Out)
						}
						for _, call := range a.Calls {
							made = append(made, line(t, call))
						}
						if len(a.Calls) == 0 {
							end = a.Ended
						}
						if cfg.OneByOne && len(a.Calls) > 1 {
							t.Errorf("%d calls at once", len(a.Calls))
						}
					}
					slices.Sort(made)
					if diff := cmp.Diff(want, made); diff != "" {
						t.Errorf("calls (-want +got):\n%s", diff)
					}
					wanted := map[bool]int{true: 7, false: 4}[cfg.OneByOne]
					if n := len(s.Bills()); asks != wanted || n != wanted {
						t.Errorf("%d asks, %d bills, want %d", asks, n, wanted)
					}
					if ends := map[string]string{"chat": "stop", "responses": "completed", "messages": "end_turn"}; end != ends[name] {
						t.Errorf("it ends with %q", end)
					}
				})
			}
		}
	}
}

// line shows a call by what its tool needs.
func line(t *testing.T, c called) string {
	var args object
	decode(t, []byte(c.Arguments), &args)
	needs := map[string]string{"refund": "amount", "mail": "to"}
	s := c.Name + " " + args["order"].(string)
	if name := needs[c.Name]; name != "" {
		s += " " + fmt.Sprint(args[name])
	}
	if args["text"] == "" {
		s += " without a text"
	}
	return s
}

// With a seed, the same request twice gets two responses: other ids, other words, another order.
// Without one, it gets the same.
func TestSeed(t *testing.T) {
	for name := range talks() {
		for _, seed := range []uint64{0, 7} {
			s := start(t, llmstub.Config{Seed: seed})
			var all []answered
			orders := make(map[string]bool)
			for range 8 {
				a := turn(t, s, talks()[name], true)
				orders[line(t, a.Calls[0])] = true
				all = append(all, a)
			}
			same := cmp.Equal(all[0], all[1])
			if same != (seed == 0) || (len(orders) > 1) != (seed != 0) || (all[0].Calls[0].ID == all[1].Calls[0].ID) != (seed == 0) {
				t.Errorf("%s with the seed %d: %v", name, seed, all)
			}
			for _, b := range s.Bills() {
				if b.Hash != s.Bills()[0].Hash {
					t.Errorf("%s: the same request has two hashes", name)
				}
			}
		}
	}
}

// The exact responses of each API, whole and streamed.
func TestTranscripts(t *testing.T) {
	for name, c := range talks() {
		s := start(t, llmstub.Config{OneByOne: true})
		var b strings.Builder
		for _, stream := range []bool{false, true} {
			_, body, err := post(t, s, c.path(), c.request(stream))
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString(strings.TrimSpace(body) + "\n\n")
		}
		golden.Check(t, name+".txt", b.String())
	}
}

// Requests say whether and which tool is called.
func TestToolChoice(t *testing.T) {
	s := start(t, llmstub.Config{})
	for _, tt := range []struct {
		choice map[string]any // by API
		more   object
		text   string
		want   []string
	}{
		{choice: object{"chat": "none", "responses": "none", "messages": object{"type": "none"}}, text: ticket},
		{choice: object{"chat": "required", "responses": "required", "messages": object{"type": "any"}}, text: "Hello", want: []string{"look"}},
		{choice: object{"chat": object{"type": "function", "function": object{"name": "mail"}}, "responses": object{"type": "function", "name": "mail"},
			"messages": object{"type": "tool", "name": "mail"}}, text: ticket, want: []string{"mail"}},
		{choice: object{"chat": "auto", "responses": "auto", "messages": object{"type": "auto"}}, text: "Hello"},
		{choice: object{"chat": "auto", "responses": "auto", "messages": object{"type": "auto", "disable_parallel_tool_use": true}},
			more: object{"parallel_tool_calls": false}, text: ticket, want: []string{"look"}},
	} {
		for name, c := range talks() {
			r := c.request(false)
			r["tool_choice"] = tt.choice[name]
			maps.Copy(r, tt.more)
			for _, key := range []string{"messages", "input"} {
				if r[key] != nil {
					r[key] = []any{object{"role": "user", "content": tt.text}}
				}
			}
			resp, body, err := post(t, s, c.path(), r)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%v, %v, %s", resp, err, body)
			}
			var got []string
			for _, call := range c.read(t, []byte(body)).Calls {
				got = append(got, call.Name)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s, %v: calls %v, want %v", name, tt.choice[name], got, tt.want)
			}
		}
	}
}
