package llm

import (
	"strings"
	"testing"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

// canary is the API key that no output may hold.
const canary = "sk-canary-5f20c1"

// priced is a configuration of two providers.
func priced(base string) Config {
	return Config{
		Providers: []Provider{
			{Name: "main", BaseURL: base, APIKey: canary},
			{Name: "other", BaseURL: "https://other.example/v1/", Models: []string{"far"}, MaxCompletionTokens: true},
		},
		Prices: map[string]Price{"a": {Input: "0.25", Output: "2.00"}, "b": {Input: "10", Output: "30"}},
	}
}

// parse compiles the body of one step.
func parse(t testing.TB, cfg Config, own string) *Body {
	t.Helper()
	def, errs := dsl.Parse("step.yaml", []byte("saga: x\nsteps:\n  - {id: it, llm: "+own+"}\n"), dsl.Options{Kinds: []dsl.Kind{Kind(cfg)}})
	if errs != nil {
		t.Fatal(errs)
	}
	return def.ByID["it"].Body.(*Body)
}

func render(t testing.TB, b *Body, env expr.MapEnv) saga.Request {
	t.Helper()
	r, err := b.Request(env)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustNotHold(t testing.TB, what, text string) {
	t.Helper()
	if strings.Contains(text, canary) {
		t.Errorf("the API key is in %s: %s", what, text)
	}
}
