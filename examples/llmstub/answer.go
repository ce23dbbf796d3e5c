package llmstub

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	bytesPerToken = 4
	perMessage    = 4 // tokens
	bytesPerChunk = 16
	shownWords    = 8
)

// usage is the token usage of a call.
type usage struct {
	Input  int `json:"prompt_tokens"`
	Output int `json:"completion_tokens"`
	Total  int `json:"total_tokens"`
}

// reply is a response before any network fault.
type reply struct {
	Status  int
	Model   string
	Text    string
	Refusal string
	Finish  string
	Usage   *usage
}

func tokens(s string) int { return (len(s) + bytesPerToken - 1) / bytesPerToken }

// tokens counts the tokens of the prompt.
func (q *question) tokens() int {
	sum := 0
	for _, m := range q.Messages {
		sum += perMessage + tokens(text(m.Content))
	}
	return sum
}

// answer generates the response to a question.
func (q *question) answer(f Fault) reply {
	a := reply{Status: http.StatusOK, Model: q.Model, Finish: "stop"}
	last := text(q.Messages[len(q.Messages)-1].Content)
	words := strings.Fields(last)
	switch {
	case f.Refusal:
		a.Refusal = "I cannot help with that."
	case f.BadSchema:
		a.Text = `{"not": "what was asked for"`
	case q.ResponseFormat.Type == "json_schema":
		var schema any
		_ = json.Unmarshal(q.ResponseFormat.JSONSchema.Schema, &schema) // without a schema anything is allowed
		a.Text = string(encode((&maker{root: schema}).make(schema, "text", 0)))
	default:
		a.Text = "A stub's answer to: " + strings.Join(words[:min(len(words), shownWords)], " ")
	}
	if most := q.MaxTokens + q.MaxCompletionTokens; most > 0 && tokens(a.Text) > most {
		a.Finish, a.Text = "length", strings.ToValidUTF8(a.Text[:most*bytesPerToken], "")
	}
	out := tokens(a.Text + a.Refusal)
	a.Usage = &usage{Input: q.tokens(), Output: out, Total: q.tokens() + out}
	return a
}

// document returns the response in one piece.
func (a reply) document() any {
	return map[string]any{"id": "chatcmpl-stub", "object": "chat.completion", "created": 0, "model": a.Model, "usage": a.Usage,
		"choices": []any{map[string]any{"index": 0, "finish_reason": a.Finish,
			"message": map[string]any{"role": "assistant", "content": a.Text, "refusal": optional(a.Refusal)}}}}
}

func optional(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// stream writes the response as server-sent events.
func (s *Stub) stream(rw http.ResponseWriter, r *http.Request, q *question, a reply, f Fault) {
	rw.Header().Set("Content-Type", "text/event-stream")
	rw.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(rw).Flush
	send := func(text string) {
		_, _ = io.WriteString(rw, text)
		_ = flush() // the request's context ends when the client disconnects
	}
	event := func(delta map[string]any, finish any) {
		doc := map[string]any{"id": "chatcmpl-stub", "object": "chat.completion.chunk", "created": 0, "model": a.Model,
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}}
		if f.Usage {
			doc["usage"] = a.Usage
		}
		send("data: " + string(encode(doc)) + "\n\n")
	}
	send(": the stub is thinking\n\n")
	event(map[string]any{"role": "assistant", "content": ""}, nil)
	for i, piece := range pieces(a) {
		event(piece, nil)
		if !s.wait(r.Context(), f.Pace) {
			panic(http.ErrAbortHandler)
		}
		switch n := i + 1; {
		case n == f.Cut:
			panic(http.ErrAbortHandler)
		case n == f.Silence:
			select {
			case <-r.Context().Done():
			case <-s.open.Done():
			}
			panic(http.ErrAbortHandler)
		case f.Malformed:
			send("data: {this is not JSON\n\n")
		}
	}
	if f.NoDone {
		return
	}
	event(map[string]any{}, a.Finish)
	if q.StreamOptions.IncludeUsage {
		send("data: " + string(encode(map[string]any{"id": "chatcmpl-stub", "object": "chat.completion.chunk", "created": 0, "model": a.Model,
			"choices": []any{}, "usage": a.Usage})) + "\n\n")
	}
	send("data: [DONE]\n\n")
}

// pieces returns the deltas of a response.
func pieces(a reply) []map[string]any {
	if a.Refusal != "" {
		return []map[string]any{{"refusal": a.Refusal}}
	}
	var list []map[string]any
	for rest := a.Text; rest != ""; {
		n := min(bytesPerChunk, len(rest))
		for n < len(rest) && !utf8.RuneStart(rest[n]) {
			n++
		}
		list = append(list, map[string]any{"content": rest[:n]})
		rest = rest[n:]
	}
	return list
}

// maker generates instances of a schema.
type maker struct {
	root any
	made int
}

const (
	mostMade = 10_000 // maximum of generated values; a recursive schema has no other bound
	mostDeep = 64
	items    = 4
)

// formats are instances of formatted strings.
var formats = map[string]string{"date": "2026-01-31", "date-time": "2026-01-31T09:00:00Z", "time": "09:00:00Z", "email": "stub@example.com",
	"uri": "https://stub.example/", "uuid": "00000000-0000-4000-8000-000000000000"}

// make returns an instance. name becomes part of its texts.
func (m *maker) make(schema any, name string, depth int) any {
	rules, _ := schema.(map[string]any)
	if m.made++; m.made > mostMade || depth > mostDeep {
		return nil
	}
	if v, ok := rules["const"]; ok {
		return v
	}
	if list, _ := rules["enum"].([]any); len(list) > 0 {
		return list[0]
	}
	if ref, _ := rules["$ref"].(string); ref != "" {
		return m.make(m.find(ref), name, depth+1)
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		if list, _ := rules[key].([]any); len(list) > 0 {
			return m.make(list[0], name, depth+1)
		}
	}
	switch kind(rules) {
	case "object":
		properties, _ := rules["properties"].(map[string]any)
		out := make(map[string]any, len(properties))
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			out[name] = m.make(properties[name], name, depth+1)
		}
		return out
	case "array":
		out := make([]any, items)
		for i := range out {
			out[i] = m.make(rules["items"], fmt.Sprintf("%s %d", name, i+1), depth+1)
		}
		return out
	case "integer", "number":
		return 7
	case "boolean":
		return true
	case "null":
		return nil
	}
	format, _ := rules["format"].(string)
	if v, ok := formats[format]; ok {
		return v
	}
	return name
}

// kind returns the type of a schema: the first that is not null.
func kind(rules map[string]any) string {
	switch t := rules["type"].(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if s, _ := one.(string); s != "null" {
				return s
			}
		}
		return "null"
	}
	if rules["properties"] != nil {
		return "object"
	}
	if rules["items"] != nil {
		return "array"
	}
	return ""
}

// find follows a reference within the schema: #/$defs/item.
func (m *maker) find(ref string) any {
	at := m.root
	for _, token := range strings.Split(strings.TrimPrefix(ref, "#"), "/")[1:] {
		fields, _ := at.(map[string]any)
		at = fields[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
	}
	return at
}
