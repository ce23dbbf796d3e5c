package http_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"recourse/saga"
	"recourse/saga/expr"
)

// badRequest says how a rendered request breaks the rules: data decides neither where it
// goes nor which secrets it gets, and everything in it can be sent.
func badRequest(r saga.Request, host, path string, secrets []string) error {
	text, err := expr.Unseal(r.URL, func(string) (string, error) { return "s", nil }, url.QueryEscape)
	if err != nil {
		return fmt.Errorf("URL %q: %w", r.URL, err)
	}
	u, err := url.Parse(text)
	if err != nil {
		return err
	}
	switch {
	case u.Scheme != "https" || u.Host != host || u.User != nil || u.Fragment != "":
		return fmt.Errorf("the request goes to %q", text)
	case !strings.HasPrefix(u.EscapedPath(), path) || strings.Count(u.EscapedPath(), "/") != strings.Count(path, "/"):
		return fmt.Errorf("the request goes to the path %q", u.EscapedPath())
	case u.Path == path, slices.ContainsFunc(strings.FieldsFunc(u.Path, func(c rune) bool { return c == '/' || c == '\\' }), func(s string) bool { return s == "." || s == ".." }):
		return fmt.Errorf("the request goes to the path %q where that is decoded before it is routed", u.Path)
	case strings.ContainsFunc(r.URL, func(c rune) bool { return c <= ' ' || c == 0x7f }):
		return fmt.Errorf("the URL %q cannot be sent", r.URL)
	}
	named := expr.SealedNames(r.URL)
	for name, value := range r.Headers {
		if strings.ContainsFunc(name+value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return fmt.Errorf("header %q: %q", name, value)
		}
		named = append(named, expr.SealedNames(value)...)
	}
	if r.Body != nil && (!json.Valid(r.Body) || !utf8.Valid(r.Body)) {
		return fmt.Errorf("the body is not JSON: %q", r.Body)
	}
	named = append(named, expr.SealedNames(string(r.Body))...)
	for _, name := range named {
		if !slices.Contains(secrets, name) {
			return fmt.Errorf("data made a reference to the secret %s", name)
		}
	}
	return nil
}

// FuzzRequest puts data everywhere into requests, in its place and past it.
func FuzzRequest(f *testing.F) {
	f.Add(`{"s":"x","n":19.10,"l":["a",1,null]}`)
	for _, s := range []string{"../..", "a/b", "?x=1#y", "@evil.example", "\\\\evil", "\r\nX-Evil: 1", "\u0000", "${secrets.KEY}", "$${secrets.PIN}", "%2e%2e", "é☃", "//evil", ":80"} {
		b, err := json.Marshal(map[string]any{"s": s, "l": []string{s}, "n": 1})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Add(`{"s":1e400,"n":1e-400,"l":[[[]]]}`)
	f.Add(`{"s":"\ud800"}`)
	f.Add(`{"a":1,"a":2`)
	calls := []saga.Call{
		call(f, "http: POST ${vars.pay}/c/${urlencode(input.s)}", `query: {q: "${input.s}", l: "${input.l}", k: "${secrets.KEY}"}`, `headers: {x-data: "${input.s}"}`, `body: {a: "${input}", t: "x ${input.s}"}`),
		call(f, "http: POST https://pay.example/v1/c/${input.s}", `auth: ${secrets.KEY}`, `body: "${input}"`),
	}
	f.Fuzz(func(t *testing.T, input string) {
		for _, c := range calls {
			r, err := c.Request(env(input))
			if err != nil {
				if err.Error() == "" {
					t.Error("an error that says nothing")
				}
				continue
			}
			if err := badRequest(r, "pay.example", "/v1/c/", []string{"KEY"}); err != nil {
				t.Errorf("%s: %v", input, err)
			}
		}
	})
}

func TestFuzzRequestCanFail(t *testing.T) {
	good := saga.Request{URL: "https://pay.example/v1/c/x?k=${secrets.KEY}", Headers: map[string]string{"X": "y"}, Body: json.RawMessage(`{}`)}
	if err := badRequest(good, "pay.example", "/v1/c/", []string{"KEY"}); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*saga.Request){
		"host":   func(r *saga.Request) { r.URL = "https://evil.example/v1/c/x" },
		"user":   func(r *saga.Request) { r.URL = "https://pay.example@evil.example/v1/c/x" },
		"path":   func(r *saga.Request) { r.URL = "https://pay.example/v1/c/x/y" },
		"dots":   func(r *saga.Request) { r.URL = "https://pay.example/v1/c/x%2F..%5Cd" },
		"empty":  func(r *saga.Request) { r.URL = "https://pay.example/v1/c/" },
		"space":  func(r *saga.Request) { r.URL += " " },
		"header": func(r *saga.Request) { r.Headers = map[string]string{"X": "a\r\nY: b"} },
		"body":   func(r *saga.Request) { r.Body = json.RawMessage(`{`) },
		"secret": func(r *saga.Request) { r.Body = json.RawMessage(`"${secrets.PIN}"`) },
	} {
		r := good
		spoil(&r)
		if badRequest(r, "pay.example", "/v1/c/", []string{"KEY"}) == nil {
			t.Errorf("not noticed: %s", name)
		}
	}
}
