package tracing_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"recourse/examples/llmstub"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/kinds/llm"
)

// Attempts of llm steps follow the conventions for generative AI.
func TestChat(t *testing.T) {
	var mu sync.Mutex
	var parents []string
	stub, err := llmstub.New(llmstub.Config{APIKey: "k3y-canary", Fault: func(call llmstub.Call) llmstub.Fault {
		mu.Lock()
		defer mu.Unlock()
		parents = append(parents, call.Header.Get("Traceparent"))
		if call.Number == 1 {
			return llmstub.Fault{Status: 500}
		}
		return llmstub.Fault{}
	}}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stub.Close() })
	c := newReceiver(t)
	r := newRig(t, llm.Config{Providers: []llm.Provider{{Name: "local", BaseURL: stub.URL + "/v1", APIKey: "k3y-canary"}}, Prices: map[string]llm.Price{"m-1": {Input: "1", Output: "2"}}},
		"saga: ask\nsteps:\n  - {id: it, llm: {model: m-1, prompt: Say something, max_tokens: 50, temperature: 0.2}, retry: {initial: 1ms}}\n")
	n := r.node(c)
	id := n.start("ask", "null", "")
	spans := c.await(t, id)
	if d := cmp.Diff("ask\n  it (waiting) (woke)\n    chat m-1 http_500 !\n    chat m-1\n", tree(spans, "error.type")); d != "" {
		t.Error(d)
	}
	trace := saga.NewTrace(id, saga.StartedData{})
	s := spanOf(t, spans, trace.Attempt("it", journal.Do, 0, 2))
	m, err := r.machine(id)
	if err != nil {
		t.Fatal(err)
	}
	used := m.Cost().Tokens
	if used.Input == 0 || used.Output == 0 {
		t.Fatalf("the stub has used nothing: %+v", used)
	}
	got := map[string]string{}
	for _, kv := range s.Attributes {
		got[kv.Key] = show(kv.Value)
	}
	want := map[string]string{"gen_ai.operation.name": "chat", "gen_ai.provider.name": "local", "gen_ai.request.model": "m-1", "gen_ai.request.stream": "true", "gen_ai.request.max_tokens": "50",
		"gen_ai.request.temperature": "0.2", "gen_ai.output.type": "text", "gen_ai.response.model": "m-1", "gen_ai.response.finish_reasons": "stop", "server.address": "127.0.0.1",
		"gen_ai.usage.input_tokens": itoa(used.Input), "gen_ai.usage.output_tokens": itoa(used.Output), "url.full": stub.URL + "/v1/chat/completions"}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s is %q, want %q", key, got[key], value)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if sent := []string{trace.At(trace.Attempt("it", journal.Do, 0, 1)), trace.At(trace.Attempt("it", journal.Do, 0, 2))}; !slices.Equal(sent, parents) {
		t.Errorf("the provider got the traceparents %q, want %q", parents, sent)
	}
}

// Long texts of a provider or a client are cut, so that a collector does not refuse the spans.
func TestLongTexts(t *testing.T) {
	long := strings.Repeat("é", 7_000)
	choice := map[string]any{"finish_reason": long, "message": map[string]string{"content": "yes"}}
	body, err := json.Marshal(map[string]any{"id": long, "model": long, "choices": slices.Repeat([]any{choice}, 60), "usage": map[string]int{"prompt_tokens": 1, "completion_tokens": 1}})
	if err != nil {
		t.Fatal(err)
	}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}))
	t.Cleanup(provider.Close)
	c := newReceiver(t)
	r := newRig(t, llm.Config{Providers: []llm.Provider{{Name: "local", BaseURL: provider.URL + "/v1"}}},
		"saga: ask\nsteps:\n  - {id: it, llm: {model: m-1, prompt: Say something, max_tokens: 50}}\n  - {id: no, fail: '${input}'}\n")
	id := r.node(c).start("ask", `"`+long+`"`, "")
	spans := c.await(t, id)
	if d := cmp.Diff("ask (compensating)\n  it\n    chat m-1\n  no failed !\n", tree(spans, "error.type")); d != "" {
		t.Error(d)
	}
	for _, s := range spans {
		if n := proto.Size(s); n > 200_000 {
			t.Errorf("the span %s has %d bytes", s.Name, n)
		}
	}
}
