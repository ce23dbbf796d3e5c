package client

import (
	"strings"
	"testing"

	"recourse/examples/llmstub"
	"recourse/internal/egress"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
	"recourse/saga/kinds/llm"
)

// canary is the API key that no output may hold.
const canary = "sk-canary-5f20c1"

// priced is a configuration of two providers.
func priced(base string) llm.Config {
	return llm.Config{
		Providers: []llm.Provider{
			{Name: "main", BaseURL: base, APIKey: canary},
			{Name: "other", BaseURL: "https://other.example/v1/", Models: []string{"far"}, MaxCompletionTokens: true},
		},
		Prices: map[string]llm.Price{"a": {Input: "0.25", Output: "2.00"}, "b": {Input: "10", Output: "30"}},
	}
}

// parse compiles the body of one step.
func parse(t testing.TB, cfg llm.Config, own string) *llm.Body {
	t.Helper()
	def, errs := dsl.Parse("step.yaml", []byte("saga: x\nsteps:\n  - {id: it, llm: "+own+"}\n"), dsl.Options{Kinds: []dsl.Kind{llm.Kind(cfg)}})
	if errs != nil {
		t.Fatal(errs)
	}
	return def.ByID["it"].Body.(*llm.Body)
}

func render(t testing.TB, b *llm.Body, env expr.MapEnv) saga.Request {
	t.Helper()
	r, err := b.Request(env)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func start(t testing.TB, cfg llmstub.Config) *llmstub.Server {
	t.Helper()
	s, err := llmstub.New(cfg).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// caller may reach loopback addresses.
func caller(t testing.TB, cfg llm.Config) *Caller {
	t.Helper()
	guard, err := egress.NewGuard([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{LLM: cfg, Egress: egress.Config{Guard: guard}})
}

func mustNotHold(t testing.TB, what, text string) {
	t.Helper()
	if strings.Contains(text, canary) {
		t.Errorf("the API key is in %s: %s", what, text)
	}
}
