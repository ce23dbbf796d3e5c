package transcript

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// brief writes messages on one line.
func brief(list []Message) string {
	var b strings.Builder
	for _, m := range list {
		b.WriteString(m.Role + ":")
		for _, p := range m.Parts {
			fmt.Fprintf(&b, " %s(%s%s)", p.Kind, p.Name, p.Text)
		}
		b.WriteString("; ")
	}
	return strings.TrimSuffix(b.String(), "; ")
}

func TestPrompt(t *testing.T) {
	for _, c := range []struct{ body, want, rest string }{
		{`{"model": "m", "messages": [{"role": "system", "content": "s"}, {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "content": "done"}]}`,
			`system: text(s); assistant: call(f{}); tool: result(done)`, `{"model":"m"}`},
		{`{"instructions": "i", "input": [{"role": "user", "content": [{"type": "input_text", "text": "u"}, {"type": "input_image", "url": "x"}]}, {"type": "function_call", "name": "f", "arguments": "{}"}, {"type": "function_call_output", "output": "r"}, {"type": "reasoning", "id": "1"}]}`,
			`system: text(i); user: text(u) json({"type": "input_image", "url": "x"}); assistant: call(f{}); tool: result(r); reasoning: json({"type": "reasoning", "id": "1"})`, ``},
		{`{"input": "u"}`, `user: text(u)`, ``},
		{`{"system": [{"type": "text", "text": "s"}], "messages": [{"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "r"}]}]}, {"role": "assistant", "content": [{"type": "tool_use", "name": "f", "input": {"a": 1}}]}]}`,
			`system: text(s); user: result(r); assistant: call(f{"a": 1})`, ``},
		{`{"messages": [1, "x", {"role": 7}, {"role": "user", "content": {"odd": true}}]}`, `: json(1); : json("x"); : json({"role": 7}); user: json({"odd": true})`, ``},
	} {
		messages, rest, ok := Prompt(json.RawMessage(c.body))
		if got := brief(messages); !ok || got != c.want || string(rest) != c.rest {
			t.Errorf("%s\nis  %s, %s\nnot %s, %s", c.body, got, rest, c.want, c.rest)
		}
	}
	for _, body := range []string{``, `[]`, `{"model": "m"}`, `"x"`} {
		if _, _, ok := Prompt(json.RawMessage(body)); ok {
			t.Errorf("%s has a conversation", body)
		}
	}
}

func TestAnswer(t *testing.T) {
	const stream = "text/event-stream; charset=utf-8"
	events := func(list ...string) string { return "data: " + strings.Join(list, "\n\ndata: ") + "\n\n" }
	for _, c := range []struct{ kind, text, want string }{
		{"application/json", `{"choices": [{"message": {"role": "assistant", "content": "a"}}, {"message": {"role": "assistant", "content": "b"}}]}`, `assistant: text(a); assistant: text(b)`},
		{"application/json", `{"output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}]}`, `assistant: text(a)`},
		{"application/json", `{"role": "assistant", "content": [{"type": "text", "text": "a"}]}`, `assistant: text(a)`},
		{"application/json", `{"data": [{"embedding": [1]}]}`, ``},
		{"application/json", `not JSON`, ``},
		{stream, events(`{"choices": [{"delta": {"content": "a"}}]}`, `{"choices": [{"delta": {"content": "b", "tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{"}}]}}]}`,
			`{"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}, {"index": 1, "function": {"name": "g", "arguments": "1"}}]}}]}`, `[DONE]`), `assistant: text(ab) call(f{}) call(g1)`},
		{stream, events(`{"type": "response.created", "response": {"output": [{"role": "assistant", "content": "x"}]}}`, `{"type": "response.completed", "response": {"output": [{"role": "assistant", "content": "a"}]}}`), `assistant: text(a)`},
		{stream, events(`{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}`, `{"type": "content_block_delta", "index": 0, "delta": {"text": "a"}}`,
			`{"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "name": "f"}}`, `{"type": "content_block_delta", "index": 1, "delta": {"partial_json": "{}"}}`), `assistant: text(a) call(f{})`},
		{stream, "odd", ``},
	} {
		if got := brief(Answer(c.kind, c.text)); got != c.want {
			t.Errorf("%s\nis  %s\nnot %s", c.text, got, c.want)
		}
	}
}

// The parts of a stream are many, and they are added up in linear time.
func TestLongStream(t *testing.T) {
	list := Answer("text/event-stream", strings.Repeat(`data: {"choices": [{"delta": {"content": "0123456789"}}]}`+"\n\n", 50_000))
	if len(list) != 1 || len(list[0].Parts[0].Text) != 500_000 {
		t.Errorf("%d messages", len(list))
	}
}

func FuzzTranscript(f *testing.F) {
	f.Add(`{"messages": [{"role": "user", "content": "x"}]}`)
	f.Add("data: {\"choices\": [{\"index\": -1}]}\n")
	f.Fuzz(func(_ *testing.T, text string) {
		Prompt(json.RawMessage(text))
		Answer("text/event-stream", text)
		Answer("", text)
	})
}
