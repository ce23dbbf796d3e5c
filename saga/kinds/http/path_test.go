package http_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"recourse/saga"
)

// TestPathIsEncoded holds the contract's rule: an expression in the path is one segment, and one in
// the query one component.
func TestPathIsEncoded(t *testing.T) {
	tests := []struct{ name, target, input, want string }{
		{"a slash and a query", "DELETE https://a.example/bookings/${input}", `"a/b?x=1"`, "https://a.example/bookings/a%2Fb%3Fx%3D1"},
		{"an encoded slash stays data", "GET https://a.example/x/${input}", `"a%2Fb"`, "https://a.example/x/a%252Fb"},
		{"a fragment, spaces, a backslash", "GET https://a.example/x/${input}/y", `"a #b\\c"`, "https://a.example/x/a%20%23b%5Cc/y"},
		{"a semicolon", "GET https://a.example/x/${input}", `"a;admin=1"`, "https://a.example/x/a%3Badmin%3D1"},
		{"a number", "GET https://a.example/x/${input}", `19.10`, "https://a.example/x/19.10"},
		{"a URL as one segment", "GET https://a.example/sites/${input}", `"https://b.example/"`, "https://a.example/sites/https%3A%2F%2Fb.example%2F"},
		{"text around it", "GET https://a.example/x/re-${input}.json", `"é/2"`, "https://a.example/x/re-%C3%A9%2F2.json"},
		{"in the query", "GET https://a.example/x?a=${input}&b=1", `"1&b=2 #c"`, "https://a.example/x?a=1%26b%3D2%20%23c&b=1"},
		{"nothing in the query", "GET https://a.example/x?a=${input}", `""`, "https://a.example/x?a="},
		{"dots in the query", "GET https://a.example/x?a=${input}", `"../.."`, "https://a.example/x?a=..%2F.."},
		{"urlencode() is not encoded twice", "GET https://a.example/x/${urlencode(input)}?a=${urlencode(input)}", `"a/b c"`, "https://a.example/x/a%2Fb%20c?a=a%2Fb%20c"},
		{"path() keeps slashes", "GET https://a.example/x/${path(input)}", `"a/b c?d"`, "https://a.example/x/a/b%20c%3Fd"},
		{"path() in one branch", "'GET https://a.example/x/${input contains \"/\" ? path(input) : input}'", `"a/b"`, "https://a.example/x/a/b"},
		{"variables at the front as they are", "GET ${vars.pay}/x/${input}", `"a"`, "https://pay.example/v1/x/a"},
		{"variables after the front are segments", "GET https://a.example/${vars.bare}/${vars.slash}", `1`, "https://a.example/pay.example/https%3A%2F"},
		{"a literal reference", "GET https://a.example/$${x}/${input}", `"${secrets.KEY}"`, "https://a.example/$${x}/%24%7Bsecrets.KEY%7D"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := call(t, "http: "+tt.target).Request(env(tt.input))
			if err != nil {
				t.Fatal(err)
			}
			if r.URL != tt.want {
				t.Errorf("URL = %s, want %s", r.URL, tt.want)
			}
		})
	}
}

// TestPathRefusesAnotherRoute covers data that would lead elsewhere even when it is encoded: many
// servers and proxies decode %2F and %5C, and resolve dots and empty segments, before they route.
func TestPathRefusesAnotherRoute(t *testing.T) {
	for _, input := range []string{"../refunds/1", "..", ".", "a/../../refunds", `..\refunds`, `a\..`, "./x", "x/.", "", "/", `//\`, "a\x00", "a\r\nb", "\x7f"} {
		for _, target := range []string{"https://a.example/x/${input}", "https://a.example/x/${input}?y=1", "https://a.example/x/${urlencode(input)}/y", "https://a.example/x/${path(input)}/y"} {
			doc, err := json.Marshal(input)
			if err != nil {
				t.Fatal(err)
			}
			r, err := call(t, "http: DELETE "+target).Request(env(string(doc)))
			if f, ok := errors.AsType[*saga.Failure](err); !ok || f.Code != "bad_request" {
				t.Errorf("%q in %s gives %q, %v, want bad_request", input, target, r.URL, err)
			}
		}
	}
	for _, input := range []string{"/a", "a/", "a//b"} {
		if r, err := call(t, "http: GET https://a.example/x/${path(input)}").Request(env(`"` + input + `"`)); err == nil {
			t.Errorf("path() of %q gives %q", input, r.URL)
		}
	}
	if r, err := call(t, "http: GET https://a.example/x/${input}${input}/y").Request(env(`""`)); err == nil {
		t.Errorf("two that are empty give %q", r.URL)
	}
}

// TestDataChoosesNoRoute asks a router which route it takes and what it reads there.
func TestDataChoosesNoRoute(t *testing.T) {
	var got string
	mux := http.NewServeMux()
	mux.HandleFunc("DELETE /bookings/{id}", func(_ http.ResponseWriter, r *http.Request) { got = r.PathValue("id") })
	c := call(t, "http: DELETE https://a.example/bookings/${input}?of=${input}")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`([./\\?#%&=;:@]|%2[eEfF]|a|refunds| ){0,8}`)).Draw(t, "text")
		doc, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Request(env(string(doc)))
		if err != nil {
			return // refused, which TestPathRefusesAnotherRoute is about
		}
		req := httptest.NewRequest("DELETE", r.URL, nil)
		if _, pattern := mux.Handler(req); pattern != "DELETE /bookings/{id}" {
			t.Fatalf("%q goes to %q by %s", text, pattern, r.URL)
		}
		mux.ServeHTTP(httptest.NewRecorder(), req)
		want := strings.ToValidUTF8(text, "\uFFFD")
		if query := req.URL.Query(); got != want || query.Get("of") != want || len(query) != 1 {
			t.Fatalf("%q arrives as %q and %v", text, got, query)
		}
	})
}

// TestUndoAndQueryAreEncoded covers the other places that send: a compensation and a status check.
func TestUndoAndQueryAreEncoded(t *testing.T) {
	def := parse(t, "http: POST https://a.example/x", "in_doubt: {verify: {http: 'GET https://a.example/x/${input}', found: 'true'}}",
		"compensate: {http: 'DELETE https://a.example/x/${input}'}")
	step := def.ByID["a"]
	for name, body := range map[string]saga.Body{"compensate": step.Compensate.Body, "verify": step.InDoubt.Verify.Call.Body} {
		r, err := body.(saga.Call).Request(env(`"a/b?x=1"`))
		if u, e := url.Parse(r.URL); err != nil || e != nil || u.EscapedPath() != "/x/a%2Fb%3Fx%3D1" || u.RawQuery != "" {
			t.Errorf("%s sends %q, %v", name, r.URL, err)
		}
	}
}
