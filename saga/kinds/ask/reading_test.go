package ask_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/saga/kinds/ask"
	"recourse/saga/kinds/llm"
)

// The use in a stream is known once the provider reports the final one. Until then it may report a
// part.
func TestReadFinalUsage(t *testing.T) {
	const (
		begun   = `{"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 7, "cache_read_input_tokens": 2, "output_tokens": 1}}}`
		cut     = `{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}`
		ended   = `{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 90}}`
		counted = `{"choices": [{"index": 0, "delta": {"content": "a"}}], "usage": {"prompt_tokens": 7, "completion_tokens": 1}}`
		stop    = `{"choices": [{"index": 0, "finish_reason": "stop"}]}`
		total   = `{"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 90}}`
	)
	for _, tt := range []struct {
		api    llm.API
		path   string
		events []string
		want   *llm.Tokens
	}{
		{llm.AnthropicAPI, "/v1/messages", []string{begun}, nil},
		{llm.AnthropicAPI, "/v1/messages", []string{begun, cut}, nil},
		{llm.AnthropicAPI, "/v1/messages", []string{begun, `{"type": "message_delta", "delta": {"stop_reason": null}, "usage": {"output_tokens": 40}}`}, nil},
		{llm.AnthropicAPI, "/v1/messages", []string{begun, `{"type": "message_stop"}`}, nil},
		{llm.AnthropicAPI, "/v1/messages", []string{begun, ended}, &llm.Tokens{Input: 9, Output: 90, Cached: 2}},
		{llm.AnthropicAPI, "/v1/messages", []string{begun, ended, cut}, &llm.Tokens{Input: 9, Output: 90, Cached: 2}},
		{llm.OpenAIAPI, "/chat/completions", []string{counted}, nil},
		{llm.OpenAIAPI, "/chat/completions", []string{counted, stop}, nil},
		{llm.OpenAIAPI, "/chat/completions", []string{counted, stop, total}, &llm.Tokens{Input: 7, Output: 90}},
		{llm.OpenAIAPI, "/chat/completions", []string{stop, total, "[DONE]"}, &llm.Tokens{Input: 7, Output: 90}},
		{llm.OpenAIAPI, "/chat/completions", []string{counted, "[DONE]"}, &llm.Tokens{Input: 7, Output: 1}},
		{llm.OpenAIAPI, "/chat/completions", []string{`{"choices": [{"index": 0, "finish_reason": "stop"}], "usage": {"prompt_tokens": 7, "completion_tokens": 90}}`}, &llm.Tokens{Input: 7, Output: 90}},
		{llm.OpenAIAPI, "/responses", []string{`{"type": "response.created", "response": {"usage": {"input_tokens": 7, "output_tokens": 0}}}`, `{"type": "error", "message": "Overloaded"}`}, nil},
		{llm.OpenAIAPI, "/responses", []string{`{"type": "response.failed", "response": {"usage": {"input_tokens": 7, "output_tokens": 90}}}`}, &llm.Tokens{Input: 7, Output: 90}},
	} {
		route, ok := ask.Find(tt.api, tt.path)
		if !ok {
			t.Fatal(tt.path)
		}
		r := ask.NewReading(route, &ask.Question{})
		for _, data := range tt.events {
			r.Event([]byte(data))
		}
		if d := cmp.Diff(tt.want, r.Tokens); d != "" {
			t.Errorf("%q: (-want +got)\n%s", tt.events, d)
		}
	}
}
