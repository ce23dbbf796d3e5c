package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/examples/llmstub"
	"recourse/internal/cli"
	"recourse/saga/kinds/llm"
)

func TestLLMFlags(t *testing.T) {
	t.Parallel()
	own := llm.Provider{Name: "own", BaseURL: "http://own.test/v1", Models: []string{"own-"}}
	rest := llm.Provider{Name: "rest", BaseURL: "http://rest.test/v1"}
	open := llm.Provider{Name: "default", BaseURL: llm.OpenAI, APIKey: "k", MaxCompletionTokens: true}
	other := llm.Provider{Name: "default", BaseURL: "http://x.test/v1", APIKey: "k"}
	for _, tt := range []struct {
		name  string
		flags llmFlags
		file  []llm.Provider
		want  []llm.Provider
	}{
		{"nothing", llmFlags{}, nil, nil},
		{"a key", llmFlags{LLMAPIKey: "k"}, nil, []llm.Provider{open}},
		{"both", llmFlags{LLMBaseURL: "http://x.test/v1", LLMAPIKey: "k"}, nil, []llm.Provider{other}},
		{"beside the file's", llmFlags{LLMAPIKey: "k"}, []llm.Provider{own}, []llm.Provider{own, open}},
		{"for the file's default", llmFlags{LLMBaseURL: "http://x.test/v1", LLMAPIKey: "k"}, []llm.Provider{rest, own}, []llm.Provider{other, own}},
		{"a key is for its own base URL", llmFlags{LLMAPIKey: "k"}, []llm.Provider{rest}, []llm.Provider{rest}},
		{"which the file may name", llmFlags{LLMAPIKey: "k"}, []llm.Provider{{Name: "o", BaseURL: llm.OpenAI}}, []llm.Provider{{Name: "o", BaseURL: llm.OpenAI, APIKey: "k"}}},
	} {
		got, err := tt.flags.config(llm.Config{Providers: tt.file})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got.Providers); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestLLMConfigFile(t *testing.T) {
	t.Parallel()
	got, err := readLLM([]byte(`
listen: 127.0.0.1:0
llm:
  currency: EUR
  prices_at: 2026-01-31
  providers:
    - {name: a, base_url: "http://a.test/v1", api_key: sk-1, models: [gpt-], max_completion_tokens: true}
  prices:
    gpt-5-mini: {input: 0.250, output: 2.00}
`))
	want := llm.Config{Currency: "EUR", PricesAt: "2026-01-31", Prices: map[string]llm.Price{"gpt-5-mini": {Input: "0.250", Output: "2.00"}},
		Providers: []llm.Provider{{Name: "a", BaseURL: "http://a.test/v1", APIKey: "sk-1", Models: []string{"gpt-"}, MaxCompletionTokens: true}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for content, says := range map[string]string{
		"llm: {provider: []}": "provider",
		"llm: [a]":            "llm",
		"llm: {prices: {m: {input: -1, output: 2}}}":                       "price of m",
		"llm: {providers: [{name: p, base_url: nowhere}]}":                 `provider "p"`,
		"llm: {providers: [{name: p, base_url: \"http://a\", secret: x}]}": "secret",
	} {
		r := run(t, nil, "serve", "--config", file(t, "c.yaml", content))
		if r.code != cli.Usage || !strings.Contains(r.errOut, says) {
			t.Errorf("%s: exit %d, %s", content, r.code, r.errOut)
		}
	}
}

// A saga uses the provider of OpenAI's own variables, and the key appears nowhere.
func TestRunAsksAModel(t *testing.T) {
	t.Parallel()
	const key = "sk-canary-9d1"
	s, err := llmstub.New(llmstub.Config{APIKey: key}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	def := file(t, "ask.yaml", "saga: ask\nsteps:\n  - {id: a, llm: {model: any, prompt: Say something}}\n")
	r := run(t, []string{"OPENAI_BASE_URL=" + s.URL + "/v1", "OPENAI_API_KEY=" + key}, "run", def, "-o", "json")
	bills := s.Bills()
	if r.code != cli.OK || len(bills) != 1 || bills[0].Key == "" || !strings.Contains(r.out, "A stub's answer to: Say something") {
		t.Errorf("exit %d: %s\n%s\n%+v", r.code, r.out, r.errOut, bills)
	}
	if strings.Contains(fmt.Sprint(r), key) {
		t.Errorf("the key is in %v", r)
	}
}
