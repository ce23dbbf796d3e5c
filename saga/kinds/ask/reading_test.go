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

// A use is known if all its numbers are, however the provider writes them. A use that is not known
// is not zero, and does not make the response another one.
func TestReadUsage(t *testing.T) {
	known := &llm.Tokens{Input: 12, Output: 100}
	for _, tt := range []struct {
		path, usage string
		want        *llm.Tokens
	}{
		{"/embeddings", `{"prompt_tokens": 12, "total_tokens": 12}`, &llm.Tokens{Input: 12}},
		{"/embeddings", `{"total_tokens": 900}`, nil},
		{"/embeddings", `{}`, nil},
		{"/embeddings", `null`, nil},
		{"/embeddings", `"12"`, nil},
		{"/embeddings", `{"prompt_tokens": 1000000001}`, nil},
		{"/embeddings", `{"prompt_tokens": 1e999}`, nil},
		{"/embeddings", `{"prompt_tokens": -1}`, nil},
		{"/embeddings", `{"prompt_tokens": 12.5}`, nil},
		{"/embeddings", `{"prompt_tokens": "12"}`, nil},
		{"/embeddings", `{"prompt_tokens": null}`, nil},
		{"/chat/completions", `{"prompt_tokens": 12, "completion_tokens": 100}`, known},
		{"/chat/completions", `{"prompt_tokens": 12, "completion_tokens": 100, "prompt_tokens_details": null}`, known},
		{"/chat/completions", `{"prompt_tokens": 12.0, "completion_tokens": 1e2}`, nil},
		{"/chat/completions", `{"prompt_tokens": 12, "completion_tokens": 100, "prompt_tokens_details": "none"}`, known},
		{"/chat/completions", `{"prompt_tokens": 12, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 13}}`, &llm.Tokens{Input: 12, Output: 100, Cached: 12}},
		{"/chat/completions", `{"prompt_tokens": 12}`, nil},
		{"/chat/completions", `{"completion_tokens": 100}`, nil},
		{"/chat/completions", `{"prompt_tokens": 12, "completion_tokens": -1}`, nil},
	} {
		route, ok := ask.Find(llm.OpenAIAPI, tt.path)
		if !ok {
			t.Fatal(tt.path)
		}
		doc := `{"id": "c", "choices": [{"index": 0, "finish_reason": "stop"}], "usage": ` + tt.usage + `}`
		whole, streamed := ask.NewReading(route, &ask.Question{}), ask.NewReading(route, &ask.Question{})
		whole.Document([]byte(doc))
		if d := cmp.Diff(tt.want, whole.Tokens); d != "" || !whole.Whole || whole.Fault != "" {
			t.Errorf("%s %s: whole %v, fault %q, (-want +got)\n%s", tt.path, tt.usage, whole.Whole, whole.Fault, d)
		}
		streamed.Event([]byte(doc))
		if d := cmp.Diff(tt.want, streamed.Tokens); d != "" {
			t.Errorf("%s %s in a stream: (-want +got)\n%s", tt.path, tt.usage, d)
		}
	}
	for usage, want := range map[string]*llm.Tokens{
		`{"input_tokens": 5, "cache_read_input_tokens": 4, "cache_creation_input_tokens": null, "output_tokens": 2}`: {Input: 9, Output: 2, Cached: 4},
		`{"input_tokens": 5, "cache_read_input_tokens": -4, "output_tokens": 2}`:                                     nil,
	} {
		route, _ := ask.Find(llm.AnthropicAPI, "/v1/messages")
		r := ask.NewReading(route, &ask.Question{})
		r.Document([]byte(`{"id": "m", "stop_reason": "end_turn", "usage": ` + usage + `}`))
		if d := cmp.Diff(want, r.Tokens); d != "" {
			t.Errorf("%s: (-want +got)\n%s", usage, d)
		}
	}
}
