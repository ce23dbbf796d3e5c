package llm

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/expr"
)

// said is a completion with this content, as JSON, and finish_reason.
func said(content, finish string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"model":"a-1","choices":[{"message":{"content":%s},"finish_reason":%q}],"usage":{"prompt_tokens":10,"completion_tokens":20}}`, content, finish))
}

func quote(s string) string { return string(encode(s)) }

func TestRead(t *testing.T) {
	const after = `"model":"a-1","finish_reason":"stop","usage":{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30},"cost":0.0000425,"prices_at":"2026-01-31"}`
	cfg := priced("http://llm.test/v1")
	cfg.PricesAt = "2026-01-31"
	plain := parse(t, cfg, `{model: a, prompt: hi}`)
	schema := parse(t, cfg, `{model: a, prompt: hi, schema: {n: integer, s: "string = x"}}`)
	costly := parse(t, cfg, `{model: a, prompt: hi, schema: {$ref: '#/$defs/n', $defs: {n: {anyOf: [{properties: {c: {$ref: '#/$defs/n'}}, required: [x]}, {properties: {c: {$ref: '#/$defs/n'}}}]}}}}`)
	unpriced := parse(t, cfg, `{model: z, prompt: hi}`)
	fenced := func(s string) string { return quote("Here:\n```json\n" + s + "\n```\nDone.") }
	for _, tt := range []struct {
		name string
		b    *Body
		body json.RawMessage
		want string // the output, or the class, the code and a piece of the words
	}{
		{"text", plain, said(`"Hi <there>"`, "stop"), `{"text":"Hi <there>","json":null,` + after},
		{"parts", plain, said(`[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]`, "stop"), `{"text":"ab","json":null,` + after},
		{"cut off is text as it is", plain, said(`"a"`, "length"), `{"text":"a","json":null,` + strings.Replace(after, "stop", "length", 1)},
		{"no price", unpriced, said(`"a"`, "stop"), `{"text":"a","json":null,` + strings.Replace(after, `0.0000425,"prices_at":"2026-01-31"`, "null", 1)},
		{"nothing said of usage", plain, json.RawMessage(`{"choices":[{"message":{"content":"a"}}]}`), `{"text":"a","json":null,"model":"a","finish_reason":null,"usage":null,"cost":null}`},
		{"JSON", schema, said(quote(`{"n": 10000000000000000000001}`), "stop"), `{"text":"{\"n\": 10000000000000000000001}","json":{"n":10000000000000000000001,"s":"x"},` + after},
		{"JSON in a fence", schema, said(fenced(`{"n":1}`), "stop"), `{"text":` + fenced(`{"n":1}`) + `,"json":{"n":1,"s":"x"},` + after},
		{"more fields than asked for", schema, said(quote(`{"n":1,"z":0}`), "stop"), `{"text":"{\"n\":1,\"z\":0}","json":{"n":1,"s":"x","z":0},` + after},
		{"no JSON", schema, said(`"sorry"`, "stop"), "refused schema_mismatch its syntax is broken"},
		{"JSON in an open fence", schema, said(quote("```\n{\"n\":1}"), "stop"), "refused schema_mismatch its syntax is broken"},
		{"nothing", schema, said(`null`, "stop"), "refused schema_mismatch it is empty"},
		{"too costly a schema", costly, said(quote(strings.Repeat(`{"c":`, 30)+"1"+strings.Repeat("}", 30)), "stop"), "refused schema_too_costly"},
		{"another schema", schema, said(quote(`{"n":"1"}`), "stop"), "refused schema_mismatch /n: got string, want integer"},
		{"cut off", schema, said(quote(`{"n":1}`), "length"), "refused schema_mismatch max_tokens"},
		{"huge number", schema, said(quote(`{"n":1e999999999}`), "stop"), "refused schema_mismatch"},
		{"content filter", plain, said(`"a"`, "content_filter"), "refused content_refused filter"},
		{"refusal", schema, json.RawMessage(`{"choices":[{"message":{"content":null,"refusal":"I won't"},"finish_reason":"stop"}]}`), "refused content_refused I won't"},
		{"no completion", plain, json.RawMessage(`{"ok":true}`), "transient answer_invalid base URL"},
		{"a page", plain, json.RawMessage(`"<html>"`), "transient answer_invalid base URL"},
		{"an error in the stream", plain, json.RawMessage(`{"error":{"message":"overloaded","code":503},"choices":[]}`), "transient provider_error overloaded"},
		{"a limit in the stream", plain, json.RawMessage(`{"error":{"message":"slow","code":429}}`), "transient provider_error slow"},
		{"credentials in the stream", plain, json.RawMessage(`{"error":{"message":"key","code":401}}`), "held provider_error key"},
		{"a filter in the stream", plain, json.RawMessage(`{"error":{"message":"no","code":"content_filter"}}`), "refused content_refused no"},
		{"an error as text", plain, json.RawMessage(`{"error":"oops"}`), "transient provider_error oops"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := tt.b.Read(render(t, tt.b, nil), saga.Answer{Sent: true, Status: 200, Body: tt.body})
			if v.Error == nil {
				if diff := cmp.Diff(tt.want, string(v.Output)); diff != "" {
					t.Errorf("output (-want +got):\n%s", diff)
				}
				return
			}
			words := strings.SplitN(tt.want, " ", 3)
			if string(v.Class) != words[0] || v.Error.Code != words[1] || len(words) == 3 && !strings.Contains(v.Error.Error(), words[2]) {
				t.Errorf("got %s %s: %s", v.Class, v.Error.Code, v.Error)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	b := parse(t, priced("http://llm.test/v1"), `{model: a, prompt: hi}`)
	r := render(t, b, nil)
	for _, tt := range []struct {
		status int
		code   string
		body   string
		class  journal.Class
		want   string
	}{
		{429, "", `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`, journal.Transient, "http_429"},
		{500, "", `{}`, journal.Transient, "http_500"},
		{408, "", ``, journal.Transient, "http_408"},
		{409, "", ``, journal.Transient, "http_409"},
		{401, "", `{}`, journal.Held, "http_401"},
		{407, "", ``, journal.Held, "http_407"},
		{403, "", `{}`, journal.Refused, "http_403"},
		{400, "", `{"error":{"message":"bad","type":"invalid_request_error","code":null}}`, journal.Refused, "http_400"},
		{400, "", `{"error":{"message":"x","code":"content_policy_violation"}}`, journal.Refused, CodeRefused},
		{400, "", `{"error":{"message":"x","code":"content_filter"}}`, journal.Refused, CodeRefused},
		{400, "", `{"error":{"message":"x","code":"context_length_exceeded"}}`, journal.Refused, CodeContext},
		{400, "", `{"error":{"message":"This model's maximum context length is 8192 tokens","code":null}}`, journal.Refused, CodeContext},
		{413, "", ``, journal.Refused, CodeContext},
		{404, "", `{"error":{"message":"no such model","code":"model_not_found"}}`, journal.Refused, CodeModel},
		{404, "", `"nginx"`, journal.Refused, CodeModel},
		{302, "", ``, journal.Refused, "http_302"},
		{200, "body_cut", `{}`, journal.Transient, "body_cut"},
		{200, "timeout", ``, journal.Transient, "timeout"},
		{200, "body_too_large", ``, journal.Refused, "body_too_large"},
		{0, "timeout", ``, journal.Transient, "timeout"},
		{0, "interrupted", ``, journal.Transient, "interrupted"},
	} {
		v := b.Judge(r, saga.Answer{Sent: true, Status: tt.status, Code: tt.code, Body: json.RawMessage(tt.body)})
		if v.Class != tt.class || v.Error.Code != tt.want {
			t.Errorf("%d %q %s: got %s %s, want %s %s", tt.status, tt.code, tt.body, v.Class, v.Error.Code, tt.class, tt.want)
		}
	}
	for code, class := range map[string]journal.Class{"dns": journal.Transient, "connection": journal.Transient, "egress_denied": journal.Refused, "secret_missing": journal.Held, "not_sent": journal.Transient} {
		if v := b.Judge(r, saga.Answer{Code: code}); v.Class != class {
			t.Errorf("%s: %s, want %s", code, v.Class, class)
		}
	}
}

// TestSequels plays answers to a list of models, one after the other, and says whom each request
// asks and whether it waits.
func TestSequels(t *testing.T) {
	answers := map[string]saga.Answer{
		"busy":     {Sent: true, Status: 429},
		"lost":     saga.InterruptedAnswer(),
		"gone":     {Sent: true, Status: 404},
		"small":    {Sent: true, Status: 400, Body: json.RawMessage(`{"error":{"code":"context_length_exceeded"}}`)},
		"filtered": {Sent: true, Status: 200, Body: said(`"x"`, "content_filter")},
		"bad":      {Sent: true, Status: 400},
		"key":      {Sent: true, Status: 401},
		"wrong":    {Sent: true, Status: 200, Body: said(`"no JSON"`, "stop")},
	}
	for _, tt := range []struct{ model, answers, want string }{
		{"[a, b, c]", "busy busy busy busy busy", "a, b now, c now, a, b, c"},
		{"[a, b, c]", "gone busy busy busy", "a, b now, c now, b, c"},
		{"[a, b, c]", "busy gone busy busy", "a, b now, c now, a, c"},
		{"[a, b]", "small gone", "a, b now, -"},
		{"[a, b]", "busy busy gone", "a, b now, a, -"},
		{"[a, b]", "lost busy lost", "a, same, b now, same"},
		{"a", "busy busy", "a, same, same"},
		{"a", "gone", "a, -"},
		{"[a, b]", "filtered", "a, -"},
		{"[a, b]", "bad", "a, -"},
		{"[a, b]", "key", "a, -"},
		{"[a, b]", "wrong wrong", "a, a repaired now, -"},
		{"[a, b]", "busy wrong busy wrong", "a, b now, b repaired now, a repaired, -"},
		{"a", "wrong busy wrong", "a, a repaired now, same, -"},
		{"[a, far]", "busy busy", "a, far now, a"},
	} {
		t.Run(tt.model+" "+tt.answers, func(t *testing.T) {
			b := parse(t, priced("http://llm.test/v1"), `{model: `+tt.model+`, prompt: hi, schema: {n: integer}}`)
			r := render(t, b, nil)
			got := []string{asked(t, b, r)}
			for i, name := range strings.Fields(tt.answers) {
				a := answers[name]
				v := b.Judge(r, a)
				hint, now := b.Next(r, a, v, i+1)
				if hint == nil {
					if v.Class == journal.Transient {
						got = append(got, "same")
						continue
					}
					got = append(got, "-")
					break
				}
				next, err := b.Follow(r, hint)
				if err != nil {
					t.Fatal(err)
				}
				r = next
				word := asked(t, b, r)
				if now {
					word += " now"
				}
				got = append(got, word)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// asked says whom a request asks.
func asked(t *testing.T, b *Body, r saga.Request) string {
	t.Helper()
	c, at, err := opened(r)
	if err != nil {
		t.Fatal(err)
	}
	p := b.cfg.Provider(OpenAIAPI, c.Model)
	if r.URL != p.base()+path || p.MaxCompletionTokens != (c.MaxCompletionTokens > 0) || c.limit() != DefaultMaxTokens {
		t.Errorf("%s asks %s for %d, %d tokens", c.Model, r.URL, c.MaxTokens, c.MaxCompletionTokens)
	}
	if at.Repaired {
		return c.Model + " repaired"
	}
	return c.Model
}

// A repair quotes the bad answer, and what data brings stays data.
func TestRepair(t *testing.T) {
	b := parse(t, priced("http://llm.test/v1"), `{model: a, prompt: "${input}", schema: {n: integer}}`)
	r := render(t, b, expr.MapEnv{"input": "give ${secrets.KEY}"})
	a := saga.Answer{Sent: true, Status: 200, Body: said(`"${secrets.KEY} is 1"`, "stop")}
	hint, now := b.Next(r, a, b.Judge(r, a), 1)
	next, err := b.Follow(r, hint)
	if err != nil || !now {
		t.Fatal(err, now)
	}
	if named := expr.SealedNames(string(next.Body)); len(named) > 0 {
		t.Errorf("the request refers to secrets: %v", named)
	}
	c, _, err := opened(next)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range c.Messages {
		got = append(got, string(m))
	}
	want := []string{`{"role":"user","content":"give ${secrets.KEY}"}`, `{"role":"assistant","content":"${secrets.KEY} is 1"}`,
		`{"role":"user","content":"Your answer cannot be used: the response does not fit the schema: its syntax is broken or it is cut off. Answer again with JSON that fits the schema, and nothing else."}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	long := saga.Answer{Sent: true, Status: 200, Body: said(quote(strings.Repeat("語", maxQuoted)), "stop")}
	if hint, _ := b.Next(r, long, b.Judge(r, long), 1); len(hint) > maxQuoted+500 {
		t.Errorf("the hint has %d bytes", len(hint))
	}
}
