package http_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
	httpkind "recourse/saga/kinds/http"
)

// call compiles an http step, given as its keys.
func call(tb testing.TB, keys ...string) saga.Call {
	tb.Helper()
	return parse(tb, keys...).ByID["a"].Body.(saga.Call)
}

func parse(tb testing.TB, keys ...string) *saga.Definition {
	tb.Helper()
	src := "saga: x\nsecrets: [KEY, PIN]\nsteps:\n  - id: a\n    " + strings.Join(keys, "\n    ") + "\n"
	def, errs := dsl.Parse("t", []byte(src), dsl.Options{Kinds: []dsl.Kind{httpkind.Kind()}})
	if errs != nil {
		tb.Fatalf("%s\n%v", src, errs)
	}
	return def
}

func env(input string) expr.MapEnv {
	return expr.MapEnv{"input": expr.Raw(input), "vars": map[string]any{"pay": "https://pay.example/v1", "bare": "pay.example", "user": "https://u:p@pay.example", "slash": "https:/", "open": "https://"},
		"key": "0190-key", "saga": map[string]any{"id": "s-1"}}
}

const post = "http: POST https://a.example/x"

func TestRequest(t *testing.T) {
	jsonHeaders := map[string]string{"Accept": "application/json", "Content-Type": "application/json"}
	accept := map[string]string{"Accept": "application/json"}
	tests := []struct {
		name  string
		keys  []string
		input string
		want  saga.Request
	}{
		{"a body keeps its numbers and order", []string{post, `body: {z: "${input.n}", a: 9007199254740993, m: "<&>${input.s}"}`}, `{"n": 19.10, "s": "é"}`,
			saga.Request{Method: "POST", URL: "https://a.example/x", Headers: jsonHeaders, Body: json.RawMessage(`{"z":19.10,"a":9007199254740993,"m":"<&>é"}`)}},
		{"no body", []string{"http: DELETE ${vars.pay}/c/${input.id}?k=${key}"}, `{"id": 7}`,
			saga.Request{Method: "DELETE", URL: "https://pay.example/v1/c/7?k=0190-key", Headers: accept}},
		{"query", []string{"http: GET https://a.example/x", `query: {"a b": "c&d=é", n: "${input.n}", l: "${input.l}", none: "${input.z}", t: true, m: [1, "${input.n}", ~]}`}, `{"n": 1.50, "l": ["x", 2], "z": null}`,
			saga.Request{Method: "GET", URL: "https://a.example/x?a%20b=c%26d%3D%C3%A9&n=1.50&l=x&l=2&t=true&m=1&m=1.50", Headers: accept}},
		{"query after a query", []string{"http: GET https://a.example/x?y=1", "query: {a: 1}"}, `{}`,
			saga.Request{Method: "GET", URL: "https://a.example/x?y=1&a=1", Headers: accept}},
		{"secrets stay references", []string{post, `auth: ${secrets.KEY}`, `query: {k: "a ${secrets.PIN}"}`, `headers: {x-sig: "v1 ${secrets.PIN}"}`, `body: {pin: "${secrets.PIN}"}`}, `{}`,
			saga.Request{Method: "POST", URL: "https://a.example/x?k=a%20${secrets.PIN}",
				Headers: map[string]string{"Accept": "application/json", "Content-Type": "application/json", "Authorization": "Bearer ${secrets.KEY}", "X-Sig": "v1 ${secrets.PIN}"},
				Body:    json.RawMessage(`{"pin":"${secrets.PIN}"}`)}},
		{"data does not forge references", []string{post, `query: {k: "${input.s}"}`, `headers: {x: "${input.s}"}`, `body: "${input}"`}, `{"s": "${secrets.KEY}"}`,
			saga.Request{Method: "POST", URL: "https://a.example/x?k=%24%7Bsecrets.KEY%7D",
				Headers: map[string]string{"Accept": "application/json", "Content-Type": "application/json", "X": "$${secrets.KEY}"}, Body: json.RawMessage(`{"s":"$${secrets.KEY}"}`)}},
		{"bearer", []string{"http: GET https://a.example/", "auth: {bearer: abc}", "headers: {accept: text/csv}"}, `{}`,
			saga.Request{Method: "GET", URL: "https://a.example/", Headers: map[string]string{"Accept": "text/csv", "Authorization": "Bearer abc"}}},
		{"another auth header", []string{"http: GET https://a.example/", `auth: {header: x-api-key, value: "${secrets.KEY}"}`}, `{}`,
			saga.Request{Method: "GET", URL: "https://a.example/", Headers: map[string]string{"Accept": "application/json", "X-Api-Key": "${secrets.KEY}"}}},
		{"a form", []string{post, "headers: {content-type: application/x-www-form-urlencoded}", `body: {a: "x y&${input.n}", l: [1, 2], no: ~, "k k": "${secrets.KEY}", d: "$${x}"}`}, `{"n": 1.50}`,
			saga.Request{Method: "POST", URL: "https://a.example/x", Headers: map[string]string{"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"},
				Body: json.RawMessage(`"a=x%20y%261.50&l=1&l=2&k%20k=${secrets.KEY}&d=%24%7Bx%7D"`)}},
		{"a form of what is nested, as Stripe reads it", []string{post, "headers: {content-type: application/x-www-form-urlencoded}",
			`body: {amount: 1999, metadata: {order: "${input.n}", "a b": "x&y", none: ~, deep: {er: true}}, "expand[]": [customer, card], items: [{price: p_1, quantity: 2}, {price: p_2, tags: [u, "${secrets.KEY}"]}], "x[]": [[1]], empty: {}}`}, `{"n": 1.50}`,
			saga.Request{Method: "POST", URL: "https://a.example/x", Headers: map[string]string{"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"},
				Body: json.RawMessage(`"amount=1999&metadata%5Border%5D=1.50&metadata%5Ba%20b%5D=x%26y&metadata%5Bdeep%5D%5Ber%5D=true&expand%5B%5D=customer&expand%5B%5D=card&` +
					`items%5B0%5D%5Bprice%5D=p_1&items%5B0%5D%5Bquantity%5D=2&items%5B1%5D%5Bprice%5D=p_2&items%5B1%5D%5Btags%5D%5B%5D=u&items%5B1%5D%5Btags%5D%5B%5D=${secrets.KEY}&x%5B0%5D%5B%5D=1"`)}},
		{"basic", []string{"http: GET https://a.example/", `auth: {basic: {user: "${input.u}", password: "${secrets.KEY}:x"}}`}, `{"u": "ada"}`,
			saga.Request{Method: "GET", URL: "https://a.example/", Headers: map[string]string{"Accept": "application/json", "Authorization": "Basic base64(ada:${secrets.KEY}:x)"}}},
		{"basic without a password", []string{"http: GET https://a.example/", `auth: {basic: {user: "${secrets.KEY}"}}`}, `{}`,
			saga.Request{Method: "GET", URL: "https://a.example/", Headers: map[string]string{"Accept": "application/json", "Authorization": "Basic base64(${secrets.KEY}:)"}}},
		{"text", []string{post, "headers: {Content-Type: text/plain}", `body: "a\nb ${input.n}"`}, `{"n": 1.50}`,
			saga.Request{Method: "POST", URL: "https://a.example/x", Headers: map[string]string{"Accept": "application/json", "Content-Type": "text/plain"}, Body: json.RawMessage(`"a\nb 1.50"`)}},
		{"a JSON type of its own", []string{"http: PATCH https://a.example/x", "headers: {Content-Type: application/merge-patch+json}", "body: [1.0]"}, `{}`,
			saga.Request{Method: "PATCH", URL: "https://a.example/x", Headers: map[string]string{"Accept": "application/json", "Content-Type": "application/merge-patch+json"}, Body: json.RawMessage(`[1.0]`)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := call(t, tt.keys...).Request(env(tt.input))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Request (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnsendable holds the rendering to refusing what data made of a request,
// without showing the data.
func TestUnsendable(t *testing.T) {
	const get = "http: GET https://a.example/x/${input}/y"
	tests := []struct {
		name, keys, input string
	}{
		{"line break", get, `"hidden\r\nHost: b"`}, {"NUL", get, `"hidden\u0000"`},
		{"..", get, `".."`}, {".", get, `"."`}, {"encoded ..", get, `"%2e%2E"`}, {".. within", get, `"hidden/../b"`},
		{"null", get, `null`}, {"an object", get, `{"a": "hidden"}`},
		{"a user in a variable", "http: GET ${vars.user}/x", `1`}, {"a variable without scheme", "http: GET ${vars.bare}/x", `1`},
		{"a variable that ends within the scheme", "http: GET ${vars.slash}/${input}/x", `"hidden.example"`},
		{"a variable that ends within the host", "http: GET ${vars.open}/x/${input}", `"hidden"`},
		{"a header with a line break", post + "\n    headers: {x: \"${input}\"}", `"hidden\r\nX-Evil: 1"`},
		{"a header with NUL", post + "\n    headers: {x: \"${input}\"}", `"hidden\u0000"`},
		{"auth with a line break", post + "\n    auth: ${input}", `"hidden\nX: 1"`},
		{"an object in the query", post + "\n    query: {a: \"${input}\"}", `{"a": "hidden"}`},
		{"a list as a form", post + "\n    headers: {Content-Type: application/x-www-form-urlencoded}\n    body: ${input}", `["hidden"]`},
		{"a user with a colon", post + "\n    auth: {basic: {user: \"${input}\"}}", `"hidden:x"`},
		{"a user with a line break", post + "\n    auth: {basic: {user: \"${input}\"}}", `"hidden\nx"`},
		{"a list as text", post + "\n    headers: {Content-Type: text/plain}\n    body: ${input}", `["hidden"]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := call(t, tt.keys).Request(env(tt.input))
			if err == nil {
				t.Fatalf("Request gives %+v", got)
			}
			var f *saga.Failure
			var e *expr.EvalError
			if !errors.As(err, &f) && !errors.As(err, &e) {
				t.Errorf("the error is a %T", err)
			}
			if strings.Contains(err.Error(), "hidden") {
				t.Errorf("the error shows the data: %v", err)
			}
		})
	}
}

// TestQueryCarriesAnyText holds the query to giving the remote service what was written,
// secrets put in, whatever the text.
func TestQueryCarriesAnyText(t *testing.T) {
	c := call(t, "http: GET https://a.example/x", `query: {a: "${input}", b: "${input}/${secrets.KEY}"}`)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`([$]{0,3}[{]?(secrets[.]KEY)?[}]?){0,4}`)).Draw(t, "text")
		doc, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Request(env(string(doc)))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(r.URL, "${"); n != 1 || !strings.HasSuffix(r.URL, "${secrets.KEY}") {
			t.Fatalf("the URL has %d references: %s", n, r.URL)
		}
	})
}

type counting struct {
	expr.Env
	asked map[string]int
}

func (c *counting) Root(name string) (any, bool) {
	c.asked[name]++
	return c.Env.Root(name)
}

func TestEachRootIsAskedOnce(t *testing.T) {
	c := &counting{env(`{"a": 1}`), map[string]int{}}
	if _, err := call(t, "http: POST ${vars.pay}/${input.a}", `body: ["${input.a}", "${input.a}", "${key}"]`, `query: {k: "${key}"}`).Request(c); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"input": 1, "vars": 1, "key": 1}, c.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}
