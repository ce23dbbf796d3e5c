package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/internal/cli"
	"recourse/internal/secrets"
	"recourse/internal/test/buffer"
	"recourse/saga/kinds/llm"
)

func TestReadVars(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "vars.yaml", "pay: https://pay.example\nbig: 9007199254740993\nprice: 19.10\nlist: [1, two, null, true, \"3\"]\nmap: {b: 1, a: {c: 2}}\nover: file\n")
	got, err := ReadVars(path, map[string]string{"RECOURSE_VAR_over": "42", "RECOURSE_VAR_new": `{"a":1}`, "OTHER": "x"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]json.RawMessage{
		"pay": json.RawMessage(`"https://pay.example"`), "big": json.RawMessage(`9007199254740993`), "price": json.RawMessage(`19.10`),
		"list": json.RawMessage(`[1,"two",null,true,"3"]`), "map": json.RawMessage(`{"b":1,"a":{"c":2}}`),
		"over": json.RawMessage(`"42"`), "new": json.RawMessage(`"{\"a\":1}"`),
	}
	text := func(m map[string]json.RawMessage) map[string]string {
		out := map[string]string{}
		for k, v := range m {
			out[k] = string(v)
		}
		return out
	}
	if d := cmp.Diff(text(want), text(got)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	for _, content := range []string{"[1]", "a-b: 1", "a: &x 1\nb: *x", "a: {b: 1, b: 2}", "a: ["} {
		if _, err := ReadVars(writeFile(t, "bad.yaml", content), nil); cli.ExitCode(err) != cli.Usage || err == nil {
			t.Errorf("%q: %v", content, err)
		}
	}
	if _, err := ReadVars("", map[string]string{"RECOURSE_VAR_9x": "1"}); err == nil {
		t.Error("a name that begins with a digit was taken")
	}
}

func TestLogIsRedacted(t *testing.T) {
	t.Parallel()
	src, err := secrets.New("", []string{"RECOURSE_SECRET_TOKEN=canary-7f3a9c51"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := src.Get("TOKEN"); err != nil {
		t.Fatal(err)
	}
	var out buffer.Buffer
	log, err := NewLog(&out, "json", "info", src)
	if err != nil {
		t.Fatal(err)
	}
	log.Info("sent", "header", "Bearer canary-7f3a9c51")
	if got := out.String(); strings.Contains(got, "canary") || !strings.Contains(got, "***") {
		t.Errorf("got %s", got)
	}
}

func TestLLMFlags(t *testing.T) {
	t.Parallel()
	own := llm.Provider{Name: "own", BaseURL: "http://own.test/v1", Models: []string{"own-"}}
	rest := llm.Provider{Name: "rest", BaseURL: "http://rest.test/v1"}
	open := llm.Provider{Name: "default", BaseURL: llm.OpenAI, APIKey: "k", MaxCompletionTokens: true}
	other := llm.Provider{Name: "default", BaseURL: "http://x.test/v1", APIKey: "k"}
	for _, tt := range []struct {
		name  string
		flags LLMFlags
		file  []llm.Provider
		want  []llm.Provider
	}{
		{"nothing", LLMFlags{}, nil, nil},
		{"a key", LLMFlags{LLMAPIKey: "k"}, nil, []llm.Provider{open}},
		{"both", LLMFlags{LLMBaseURL: "http://x.test/v1", LLMAPIKey: "k"}, nil, []llm.Provider{other}},
		{"besides the file's", LLMFlags{LLMAPIKey: "k"}, []llm.Provider{own}, []llm.Provider{own, open}},
		{"for the file's default", LLMFlags{LLMBaseURL: "http://x.test/v1", LLMAPIKey: "k"}, []llm.Provider{rest, own}, []llm.Provider{other, own}},
		{"a key is for its own base URL", LLMFlags{LLMAPIKey: "k"}, []llm.Provider{rest}, []llm.Provider{rest}},
		{"which the file may name", LLMFlags{LLMAPIKey: "k"}, []llm.Provider{{Name: "o", BaseURL: llm.OpenAI}}, []llm.Provider{{Name: "o", BaseURL: llm.OpenAI, APIKey: "k"}}},
	} {
		got, err := tt.flags.Apply(llm.Config{Providers: tt.file})
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
}

// writeFile writes a file into a new directory.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
