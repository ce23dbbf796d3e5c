package httptext

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestEncodeBody(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	const asJSON = "application/json"
	tests := []struct {
		name, contentType, body, want, code string
	}{
		{"nothing", asJSON, "", "", ""},
		{"white space", asJSON, " \r\n", "", ""},
		{"compacted", asJSON, "{ \"a\" : [ 1 , \" \" ] }\n", `{"a":[1," "]}`, ""},
		{"numbers as they are", asJSON, `[9007199254740993, 19.10, 1e400, -0, 1E+2]`, `[9007199254740993,19.10,1e400,-0,1E+2]`, ""},
		{"duplicate names", asJSON, `{"a":1,"a":2}`, `{"a":1,"a":2}`, ""},
		{"escapes as they are", asJSON, `"\u0000\u00e9\ud83d\ude00 < \/ \\u"`, `"\u0000\u00e9\ud83d\ude00 < \/ \\u"`, ""},
		{"problem+json", "Application/Problem+JSON; charset=utf-8", ` {} `, `{}`, ""},
		{"text/json", "text/json", ` 1 `, `1`, ""},
		{"a byte order mark", asJSON, "\xef\xbb\xbf{}", `{}`, ""},
		{"a high surrogate alone", asJSON, `"\ud83d"`, "", "body_invalid"},
		{"a high surrogate before text", asJSON, `"\ud83dxxxxxx"`, "", "body_invalid"},
		{"a low surrogate alone", asJSON, `"\uDE00"`, "", "body_invalid"},
		{"two high surrogates", asJSON, `"\ud83d\ud83d\ude00"`, "", "body_invalid"},
		{"a surrogate in a name", asJSON, `{"\ud83d":1}`, "", "body_invalid"},
		{"an escaped backslash is no surrogate", asJSON, `"\\ud83d"`, `"\\ud83d"`, ""},
		{"bad UTF-8", asJSON, "\"\xff\"", "", "body_invalid"},
		{"two documents", asJSON, `{} {}`, "", "body_invalid"},
		{"NaN", asJSON, `NaN`, "", "body_invalid"},
		{"a bare control character", asJSON, "\"\x01\"", "", "body_invalid"},
		{"an unclosed string", asJSON, `["`, "", "body_invalid"},
		{"an unclosed escape", asJSON, `["\`, "", "body_invalid"},
		{"depth 512", asJSON, nested(512), nested(512), ""},
		{"depth 513", asJSON, nested(513), "", "body_invalid"},
		{"depth 5 million", asJSON, strings.Repeat("[", 5_000_000), "", "body_invalid"},
		{"brackets in a string", asJSON, `"` + nested(600) + `"`, `"` + nested(600) + `"`, ""},
		{"no type, JSON", "", `{"a": 1}`, `{"a":1}`, ""},
		{"no type, not JSON", "", `{"a": `, `"{\"a\": "`, ""},
		{"text that looks like JSON", "text/plain", `{"a":1}`, `"{\"a\":1}"`, ""},
		{"text with markup and NUL", "text/html; charset=utf-8", "<p>\x00&é", `"<p>\u0000&é"`, ""},
		{"bytes", "application/octet-stream", "\x00\xff", `{"base64":"AP8="}`, ""},
		{"text in another charset", "text/plain; charset=latin1", "\xe9", `{"base64":"6Q=="}`, ""},
		{"an unreadable type", ";;;", "x", `"x"`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, code, why := EncodeBody(tt.contentType, []byte(tt.body), nil)
			if string(got) != tt.want || code != tt.code || (why == "") != (code == "") {
				t.Errorf("encodeBody = %.80s, %q, %q; want %.80s, %q", got, code, why, tt.want, tt.code)
			}
		})
	}
}

func TestKeptHeaders(t *testing.T) {
	h := map[string][]string{"Location": {"/x"}, "X-Latin": {"caf\xe9"}, "Set-Cookie": {"a"}, "Authentication-Info": {"b"},
		"X-Big": {strings.Repeat("b", 9000)}, "X-Half": {strings.Repeat("h", 5000)}, "X-Half2": {strings.Repeat("h", 5000)}}
	want := map[string]string{"location": "/x", "x-latin": "caf\uFFFD", "x-half": strings.Repeat("h", 5000)}
	if diff := cmp.Diff(want, KeptHeaders(h, nil)); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

// FuzzBody: whatever comes, the answer's body is nil or valid JSON that holds
// the same text, and a secret is not in it.
func FuzzBody(f *testing.F) {
	for _, contentType := range []string{"application/json", "", "text/plain", "a/b+json"} {
		for _, body := range []string{"", "{}", `{"a":[1e400,"\ud83d\ude00"]}`, `"\ud83d"`, "\xff", `["`, `"\`, `"canary-1"`, "canary-1", `"\u0063anary-1"`, `[{"a":"b`} {
			f.Add(contentType, []byte(body))
		}
	}
	redact := NewRedactor([]string{"canary-1"})
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		doc, code, _ := EncodeBody(contentType, body, redact)
		if plain := EncodeText(body, redact); plain != nil && !json.Valid(plain) {
			t.Fatalf("EncodeText is not JSON: %q", plain)
		}
		if code != "" && code != "body_invalid" {
			t.Fatalf("code %q", code)
		}
		if doc == nil {
			return
		}
		if !json.Valid(doc) || !utf8.Valid(doc) {
			t.Fatalf("not JSON: %q", doc)
		}
		if containsText(doc, "canary-1") {
			t.Fatalf("a secret is in %q", doc)
		}
		if again, code, _ := EncodeBody("application/json", doc, redact); code != "" || string(again) != string(doc) {
			t.Fatalf("encoding %q again gives %q, %q", doc, again, code)
		}
	})
}

// containsText looks for text in every string of a document, and in bytes in base64.
func containsText(doc json.RawMessage, text string) bool {
	for i := 0; i < len(doc); i++ {
		if doc[i] != '"' {
			continue
		}
		end := stringEnd(doc, i)
		var s string
		if json.Unmarshal(doc[i:end], &s) == nil {
			raw, _ := base64.StdEncoding.DecodeString(s)
			if strings.Contains(s, text) || strings.HasPrefix(string(doc), `{"base64":"`) && strings.Contains(string(raw), text) {
				return true
			}
		}
		i = end - 1
	}
	return false
}
