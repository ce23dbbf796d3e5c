package relay

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"recourse/saga/kinds/ask"
	"recourse/saga/kinds/llm"
)

// The events of streamed answers, each with a text before its tool call.
var streams = []struct {
	api        llm.API
	path       string
	text, call []string
}{
	{llm.OpenAIAPI, "/chat/completions",
		[]string{`{"id":"c","choices":[{"delta":{"content":"one"}}]}`, `{"id":"c","choices":[{"delta":{"content":"two"}}]}`},
		[]string{`{"choices":[{"delta":{"tool_calls":[{"function":{"name":"pay"}}]}}]}`, `{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, `[DONE]`}},
	{llm.OpenAIAPI, "/responses",
		[]string{`{"type":"response.output_item.added","item":{"type":"message"}}`, `{"type":"response.output_text.delta","delta":"one"}`},
		[]string{`{"type":"response.output_item.added","item":{"type":"function_call","name":"pay"}}`, `{"type":"response.completed","response":{"id":"r"}}`}},
	{llm.AnthropicAPI, "/v1/messages",
		[]string{`{"type":"message_start","message":{"id":"m"}}`, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"one"}}`},
		[]string{`{"type":"content_block_start","content_block":{"type":"tool_use","name":"pay"}}`, `{"type":"message_stop"}`}},
}

func written(events []string) string {
	var b strings.Builder
	for _, data := range events {
		b.WriteString("data: " + data + "\n\n")
	}
	return b.String()
}

// passed returns what of a response leaves before its end is in the journal, and what the agent
// gets in the end.
func passed(t *testing.T, api llm.API, path, response string) (early, all string) {
	t.Helper()
	route, ok := ask.Find(api, path)
	if !ok {
		t.Fatal("there is no route " + path)
	}
	r := New()
	s := r.Join("key")
	defer r.Leave("key", s)
	err := s.Copy(strings.NewReader(response), "text/event-stream", ask.NewReading(route, &ask.Question{}), func(raw []byte, _ bool) ([]byte, bool) {
		all += string(raw)
		return raw, true
	})
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	part, _, _ := s.Next(ctx, 0)
	return string(part), all
}

// TestCopy: wherever a response is cut, its texts leave at once, and no byte of the event that
// begins a tool call, or of what follows, leaves.
func TestCopy(t *testing.T) {
	for _, tt := range streams {
		text := written(tt.text)
		response := text + written(tt.call)
		for n := range len(response) + 1 {
			early, all := passed(t, tt.api, tt.path, response[:n])
			if all != response[:n] {
				t.Fatalf("%s cut after %d bytes: the agent gets %q", tt.path, n, all)
			}
			if !strings.HasPrefix(text+"data: ", early) { // a line that ends before its data has none
				t.Errorf("%s cut after %d bytes: %q leaves", tt.path, n, early)
			}
			if n >= len(text) && !strings.HasPrefix(early, text) {
				t.Errorf("%s cut after %d bytes: only %q leaves", tt.path, n, early)
			}
		}
	}
}

// TestCopyUnknown: an event that cannot be read may have a tool call, so it is held back, with all
// that follows. A comment, which keeps the connection open, is not.
func TestCopyUnknown(t *testing.T) {
	for _, tt := range streams {
		text := written(tt.text[:1])
		for _, odd := range []string{`{"id":7,"type":["x"],` + tt.call[0][1:], `pay`, `[1]`} {
			if early, _ := passed(t, tt.api, tt.path, text+": ping\n\n"+written([]string{odd})+written(tt.text[1:])); early != text+": ping\n\n" {
				t.Errorf("%s: %q leaves before the outcome of a response with the event %s", tt.path, early, odd)
			}
		}
	}
}
