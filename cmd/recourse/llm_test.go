package main

import (
	"fmt"
	"strings"
	"testing"

	"recourse/examples/llmstub"
	"recourse/internal/cli"
)

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

func TestBadLLMSections(t *testing.T) {
	t.Parallel()
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
