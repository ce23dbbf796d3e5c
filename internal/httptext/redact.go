package httptext

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

const (
	// minRedacted is the shortest secret that is redacted from answers. Shorter ones occur in
	// innocent data.
	minRedacted = 6
	redacted    = "***"
)

// Redactor removes the values of secrets from an answer, so that a service that echoes a header, or
// returns a token, does not write it into a journal. A nil Redactor redacts nothing.
type Redactor struct{ values []string } // longest first

// NewRedactor returns a Redactor for these values. It ignores values of less than six bytes.
func NewRedactor(values []string) *Redactor {
	r := &Redactor{}
	for _, v := range values {
		escaped := EscapeJSON(v) // as in JSON inside text, and with \/, as PHP writes it
		for _, form := range []string{v, PercentEncode(v), escaped, strings.ReplaceAll(escaped, "/", `\/`)} {
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
	if r == nil {
		return s
	}
	for _, v := range r.values {
		s = strings.ReplaceAll(s, v, redacted)
	}
	return s
}

// Part redacts text that may be a part of a longer one: also what may be the end of a secret at its
// beginning, and the beginning of one at its end.
func (r *Redactor) Part(s string) string {
	if r == nil {
		return s
	}
	s = r.Text(s)
	before, after := 0, 0 // the bytes of the longest such parts
	for _, v := range r.values {
		if len(s) >= minRedacted && strings.Contains(v, s) {
			return redacted
		}
		for n := min(len(v), len(s)); n >= minRedacted; n-- {
			if n > before && strings.HasPrefix(s, v[len(v)-n:]) {
				before = n
			}
			if n > after && strings.HasSuffix(s, v[:n]) {
				after = n
			}
		}
	}
	if before+after > len(s) {
		return redacted
	}
	if after > 0 {
		s = s[:len(s)-after] + redacted
	}
	if before > 0 {
		s = redacted + s[before:]
	}
	return s
}

// maxDetail is the most bytes of a failed call's description.
const maxDetail = 480

// Detail redacts the description of a failed call, makes it one line, and then shortens it. In
// another order, a part of a secret could remain.
func (r *Redactor) Detail(s string) string { return Clip(Printable(r.Text(s)), maxDetail) }

// JSON redacts the strings of a valid JSON document, including names. Numbers and all other strings
// stay byte for byte.
func (r *Redactor) JSON(doc json.RawMessage) json.RawMessage {
	if r == nil || len(r.values) == 0 {
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
	return []byte(`"` + EscapeJSON(clean) + `"`)
}
