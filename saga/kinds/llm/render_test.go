package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/saga"
	"recourse/saga/expr"
)

func TestRequest(t *testing.T) {
	env := expr.MapEnv{
		"input": expr.Raw(`{"topic": "tea & <b>", "n": 3}`),
		"vars":  map[string]any{"fast": []any{"a", "b"}, "said": []any{map[string]any{"role": "user", "content": "hi"}}},
	}
	const post, stream = "POST http://llm.test/v1/chat/completions\n", `"stream":true,"stream_options":{"include_usage":true}}`
	for _, tt := range []struct{ own, want string }{
		{`{model: a, prompt: "On ${input.topic}"}`,
			post + `{"model":"a","messages":[{"role":"user","content":"On tea & <b>"}],"max_tokens":1024,` + stream},
		{`{model: "${vars.fast}", system: Be brief., prompt: "${input.n}", max_tokens: 50, temperature: 0.70}`,
			post + `X-Recourse-Course: {"next":["b"],"fresh":1}` + "\n" +
				`{"model":"a","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"3"}],"max_tokens":50,"temperature":0.70,` + stream},
		{`{model: far-1, messages: "${vars.said}", schema: {n: integer}}`,
			"POST https://other.example/v1/chat/completions\n" + `{"model":"far-1","messages":[{"content":"hi","role":"user"}],"max_completion_tokens":1024,` +
				`"response_format":{"json_schema":{"name":"answer","schema":{"additionalProperties":false,"properties":{"n":{"type":"integer"}},"required":["n"],"type":"object"}},"type":"json_schema"},` + stream},
		{`{model: a, prompt: "$${secrets.KEY} costs"}`, // data that looks like a secret
			post + `{"model":"a","messages":[{"role":"user","content":"$${secrets.KEY} costs"}],"max_tokens":1024,` + stream},
	} {
		t.Run(tt.own, func(t *testing.T) {
			r := render(t, parse(t, priced("http://llm.test/v1"), tt.own), env)
			got := r.Method + " " + r.URL + "\n"
			if c, ok := r.Headers[courseHeader]; ok {
				got += courseHeader + ": " + c + "\n"
			}
			if diff := cmp.Diff(tt.want, got+string(r.Body)); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
			mustNotHold(t, "the request", fmt.Sprint(r))
		})
	}
}

func TestUnsendable(t *testing.T) {
	cfg := priced("http://llm.test/v1")
	cfg.Providers[0].Models = []string{"a"}
	env := expr.MapEnv{"input": expr.Raw(`{"bad": "x y", "list": [], "n": 0, "text": "0.5", "obj": {}}`)}
	for _, own := range []string{
		`{model: "${input.bad}", prompt: hi}`, `{model: "${input.list}", prompt: hi}`, `{model: zzz, prompt: hi}`,
		`{model: a, prompt: hi, max_tokens: "${input.n}"}`, `{model: a, prompt: hi, temperature: "${input.text}"}`,
		`{model: a, messages: "${input.list}"}`, `{model: a, messages: [{role: user, content: "${input.obj.none}"}]}`, `{model: a, prompt: "${input.obj}"}`,
	} {
		r, err := parse(t, cfg, own).Request(env)
		var f *saga.Failure
		var e *expr.EvalError
		if !errors.As(err, &f) && !errors.As(err, &e) {
			t.Errorf("%s: %v, %v", own, r, err)
		}
	}
}

func TestPrices(t *testing.T) {
	b := parse(t, priced("http://llm.test/v1"), `{model: [a, zzz], prompt: "${input}", max_tokens: 100}`)
	for _, tt := range []struct {
		text  string
		input int64
		cost  string
	}{
		{"", 24, "0.000206"},
		{strings.Repeat("x", 300), 124, "0.000231"},
		{strings.Repeat("語", 100), 124, "0.000231"},
		{"${", 25, "0.00020625"}, // one token, however it is written in the journal
	} {
		r := render(t, b, expr.MapEnv{"input": tt.text})
		u := b.Reserve(r)
		if u.Input != tt.input || u.Output != 100 || u.Cost.String() != tt.cost+" USD" {
			t.Errorf("Reserve(%.10q) = %d, %d, %s; want %d, 100, %s USD", tt.text, u.Input, u.Output, u.Cost, tt.input, tt.cost)
		}
	}
	if diff := cmp.Diff([]string{"zzz"}, b.Unpriced()); diff != "" {
		t.Errorf("Unpriced (-want +got):\n%s", diff)
	}
	r := render(t, b, expr.MapEnv{"input": "hi"})
	for _, tt := range []struct {
		answer saga.Answer
		want   string
	}{
		{saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(`{"usage":{"prompt_tokens":1,"completion_tokens":1}}`)}, "1 1 0.00000225 true"},
		{saga.Answer{Sent: true, Status: 500, Body: json.RawMessage(`{"error":{"usage":{"prompt_tokens":1000000}}}`)}, "1000000 0 0.25 true"},
		{saga.Answer{Sent: true, Status: 200, Code: "body_cut", Body: json.RawMessage(`{"usage":{"prompt_tokens":1000000000,"completion_tokens":1000000000}}`)}, "1000000000 1000000000 2250 true"},
		{saga.Answer{Code: "dns"}, "0 0 0 true"},
		{saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(`{"usage":null}`)}, "0 0 0 false"},
		{saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(`{"usage":{"prompt_tokens":-1,"completion_tokens":1}}`)}, "0 0 0 false"},
		{saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(`{"usage":{"prompt_tokens":1e99}}`)}, "0 0 0 false"},
		{saga.Answer{Sent: true, Code: "timeout"}, "0 0 0 false"},
	} {
		u, ok := b.Used(r, tt.answer)
		if got := fmt.Sprintln(u.Input, u.Output, u.Cost.Decimal(), ok); got != tt.want+"\n" {
			t.Errorf("Used(%s) = %s, want %s", tt.answer.Body, got, tt.want)
		}
	}
}

// What a model may cost at most is what money can hold.
func TestDearest(t *testing.T) {
	cfg := Config{Prices: map[string]Price{"a": {Input: "999999.999999999999", Output: "1000000"}}}
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	NewTariff(cfg).cost("a", MaxUsage, MaxUsage) // does not panic
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		cfg  Config
		says []string
	}{
		{Config{}, nil},
		{priced("https://a.example/v1"), nil},
		{Config{Providers: []Provider{{Name: "p", BaseURL: "ftp://x"}, {BaseURL: "https://u:p@x/"}, {Name: "q", BaseURL: "https://x/?a=1", Models: []string{"m"}}}},
			[]string{`provider "p": the base URL`, "provider 2: the base URL", `provider "q": the base URL`, "2 providers have no models"}},
		{Config{Providers: []Provider{{Name: "p", BaseURL: "https://x/v1"}, {Name: "q", BaseURL: "https://x/v1/", Models: []string{"m"}, APIKey: canary + "\n"}}},
			[]string{`provider "q": another provider has the same base URL`, `provider "q": the API key`}},
		{Config{Prices: map[string]Price{"m": {Input: "-1", Output: "2"}, "n": {Input: "1"}, "o": {Input: "1", Output: "1000000.1"}}},
			[]string{"price of m", "price of n", "price of o", "no more than"}},
		{Config{Currency: "dollars", Prices: map[string]Price{"m": {Input: "1", Output: "2"}}}, []string{"price of m"}},
	} {
		err := tt.cfg.Check()
		if (err == nil) != (tt.says == nil) {
			t.Errorf("%v: %v", tt.cfg, err)
		}
		for _, says := range tt.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%q is not in %v", says, err)
			}
		}
		mustNotHold(t, "the error", fmt.Sprint(err))
	}
}

// However a configuration is printed or encoded, its keys do not show.
func TestSecretDoesNotShow(t *testing.T) {
	cfg := priced("https://a.example/v1")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		mustNotHold(t, verb, fmt.Sprintf(verb, cfg))
		if text := fmt.Sprintf(verb, cfg.Providers[0].APIKey); text != masked {
			t.Errorf("%s gives %s", verb, text)
		}
	}
	doc, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	mustNotHold(t, "JSON", string(doc))
}

func TestProviders(t *testing.T) {
	cfg := Config{Providers: []Provider{
		{Name: "gpt", Models: []string{"gpt-", "o"}}, {Name: "rest"}, {Name: "mini", Models: []string{"gpt-5-mini"}},
	}}
	for model, want := range map[string]string{"gpt-5": "gpt", "gpt-5-mini": "mini", "o3": "gpt", "claude": "rest"} {
		if p := cfg.Provider(OpenAIAPI, model); p == nil || p.Name != want {
			t.Errorf("%s goes to %v, want %s", model, p, want)
		}
	}
}
