package httptext

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsToken reports whether s is a token of RFC 9110, section 5.6.2.
func IsToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// HasControl reports whether s has a control character other than a tab. No header value may have
// one.
func HasControl(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return true
		}
	}
	return false
}

// Printable replaces control characters and invalid UTF-8, so that s is one line that a terminal
// can show.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
}

// Clip shortens s to n bytes, without cutting a character.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// PercentEncode encodes all characters except RFC 3986's unreserved ones, so that a value is one
// path segment or one query value wherever it is inserted.
func PercentEncode(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteString("%" + string(hex[c>>4]) + string(hex[c&15]))
	}
	return b.String()
}

// EscapeJSON escapes text for the inside of a JSON string.
func EscapeJSON(s string) string {
	quoted := QuoteJSON(s)
	return string(quoted[1 : len(quoted)-1])
}

// QuoteJSON writes a JSON string with as few escapes as possible.
func QuoteJSON(s string) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // strings can always be encoded
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
