package http

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"recourse/saga"
	"recourse/saga/expr"
)

const (
	codeSecretMissing = saga.CodeSecretMissing
	// minRedacted is the shortest secret that is redacted from answers. Shorter ones occur in
	// innocent data.
	minRedacted = 6
	redacted    = "***"
)

// unsealer inserts secrets into a request and records which.
type unsealer struct {
	secret func(name string) (string, error)
	names  []string
	values []string
	failed *refusal

	headersOf []string // the headers that contain them
}

// text unseals one piece. quote encodes a value for its place; nil leaves it as it is.
func (u *unsealer) text(sealed string, quote func(string) string) (string, error) {
	if !strings.Contains(sealed, "${") {
		return sealed, nil
	}
	if quote == nil {
		quote = func(s string) string { return s }
	}
	out, err := expr.Unseal(sealed, u.resolve, quote)
	switch {
	case u.failed != nil:
		return "", u.failed
	case err != nil:
		return "", &refusal{CodeRequestInvalid, "the request's secret references cannot be read"}
	}
	return out, nil
}

func (u *unsealer) resolve(name string) (string, error) {
	value, err := u.secret(name)
	switch {
	case err != nil:
		u.failed = &refusal{codeSecretMissing, "the secret " + name + " cannot be had: " + clip(printable(err.Error()), 300)}
	case value == "":
		u.failed = &refusal{codeSecretMissing, "the secret " + name + " is empty: provide RECOURSE_SECRET_" + name + " or a file " + name + " in --secret-dir"}
	case !utf8.ValidString(value):
		u.failed = &refusal{codeSecretMissing, "the secret " + name + " is not UTF-8 text: provide it as text, in base64 for example"}
	default:
		u.names, u.values = append(u.names, name), append(u.values, value)
		return value, nil
	}
	return "", u.failed
}

// Redactor removes the values of secrets from an answer, so that a service that echoes a header, or
// returns a token, does not write it into a journal.
type Redactor struct{ values []string } // longest first

// NewRedactor returns a Redactor for these values. It ignores values of less than six bytes.
func NewRedactor(values []string) *Redactor {
	r := &Redactor{}
	for _, v := range values {
		escaped := jsonEscape(v) // as in JSON inside text, and with \/, as PHP writes it
		for _, form := range []string{v, percentEncode(v), escaped, strings.ReplaceAll(escaped, "/", `\/`)} {
			if len(v) >= minRedacted && !slices.Contains(r.values, form) {
				r.values = append(r.values, form)
			}
		}
	}
	slices.SortFunc(r.values, func(a, b string) int { return len(b) - len(a) })
	return r
}

// Text redacts text.
func (r *Redactor) Text(s string) string {
	for _, v := range r.values {
		s = strings.ReplaceAll(s, v, redacted)
	}
	return s
}

// maxDetail is the most bytes of a failed call's description.
const maxDetail = 480

// Detail redacts the description of a failed call, and then shortens it. In the other order, a part
// of a secret could remain.
func (r *Redactor) Detail(s string) string { return clip(r.Text(s), maxDetail) }

// JSON redacts the strings of a valid JSON document, including names. Numbers and all other strings
// stay byte for byte.
func (r *Redactor) JSON(doc json.RawMessage) json.RawMessage {
	if len(r.values) == 0 {
		return doc
	}
	var out bytes.Buffer
	for i := 0; i < len(doc); {
		if doc[i] != '"' {
			out.WriteByte(doc[i])
			i++
			continue
		}
		end := stringEnd(doc, i)
		out.Write(r.literal(doc[i:end]))
		i = end
	}
	return out.Bytes()
}

func (r *Redactor) literal(quoted []byte) []byte {
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return quoted
	}
	clean := r.Text(s)
	if clean == s {
		return quoted
	}
	return []byte(`"` + jsonEscape(clean) + `"`)
}

// percentEncode encodes all characters except RFC 3986's unreserved ones, so that a value is one
// path segment or one query value wherever it is inserted.
func percentEncode(s string) string {
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

// jsonEscape escapes text for the inside of a JSON string.
func jsonEscape(s string) string {
	quoted := quoteJSON(s)
	return string(quoted[1 : len(quoted)-1])
}
