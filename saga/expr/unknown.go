package expr

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
)

// Partial is an [Env] in which some values are unknown, as in a plan of a saga that has not run. An
// unknown value is a placeholder: text that [Placeholder] made. It is an ordinary JSON string, so
// it can be recorded and read again. Expressions pass it on: a field of it, text that contains it,
// a list or an object that contains it. An operation that needs its value, such as an operator or a
// condition, gives a placeholder of its own, or [ErrUnknown].
type Partial interface {
	Env
	Partial() bool
}

// ErrUnknown says that a value depends on an unknown one. Only evaluations in a [Partial]
// environment return it.
var ErrUnknown = errors.New("the value is not known before the saga runs")

// The marks around the name in a placeholder. Unicode reserves these two code points for use within
// a program (noncharacters, chapter 23.7 of the standard), so data has no reason to contain them.
// Outside a Partial environment they have no meaning.
const (
	markOpen  = "\uFDD0"
	markClose = "\uFDD1"
)

// IsPartial reports whether values of env may be placeholders.
func IsPartial(env Env) bool {
	p, ok := env.(Partial)
	return ok && p.Partial()
}

// Placeholder returns the value for an unknown one. name is its name for people, such as flight.id.
func Placeholder(name string) string { return markOpen + name + markClose }

// HasPlaceholder reports whether there is a placeholder in a text or JSON document.
func HasPlaceholder[T ~string | ~[]byte](text T) bool {
	return bytes.Contains([]byte(text), []byte(markOpen))
}

// ShowPlaceholders writes the placeholders in a text or JSON document for people: ‹flight.id›.
func ShowPlaceholders[T ~string | ~[]byte](text T) T {
	return T(strings.NewReplacer(markOpen, "‹", markClose, "›").Replace(string(text)))
}

// Unknown reports whether a rendered JSON value is, or contains, an unknown text, and returns the
// text. It is always false outside a [Partial] environment.
func Unknown(env Env, doc json.RawMessage) (text string, ok bool) {
	if !IsPartial(env) {
		return "", false
	}
	return unknown(Raw(doc))
}

// EncodeKnown applies encode to a text, except to the placeholders in it.
func EncodeKnown(text string, encode func(string) string) string {
	var b strings.Builder
	for {
		from := strings.Index(text, markOpen)
		if from < 0 {
			b.WriteString(encode(text))
			return b.String()
		}
		to := strings.Index(text[from:], markClose)
		if to < 0 {
			to = len(text)
		} else {
			to += from + len(markClose)
		}
		b.WriteString(encode(text[:from]) + text[from:to])
		text = text[to:]
	}
}

// unknown returns the text of a value that is unknown, or partly unknown.
func unknown(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, strings.Contains(v, markOpen)
	case encoded:
		return string(v), strings.Contains(string(v), markOpen)
	case Raw:
		if rawKind(v) != "string" || !bytes.Contains(v, []byte(markOpen)) {
			return "", false
		}
		var text string
		err := json.Unmarshal(v, &text)
		return text, err == nil
	}
	return "", false
}

// look returns ErrUnknown for an unknown value.
func (s *state) look(v any) error {
	if !s.partial {
		return nil
	}
	if _, ok := unknown(v); ok {
		return ErrUnknown
	}
	return nil
}

// child returns the placeholder of a field or an element of a placeholder.
func child(text string, key any) (any, error) {
	name, single := strings.CutPrefix(text, markOpen)
	name, closed := strings.CutSuffix(name, markClose)
	if !single || !closed || strings.Contains(name, markOpen) {
		return nil, ErrUnknown // a text with a placeholder in it has no fields
	}
	if field, ok := key.(string); ok {
		return Placeholder(name + "." + field), nil
	}
	if i, err := smallInt(key, "an index"); err == nil {
		return Placeholder(name + "[" + itoa(i) + "]"), nil
	}
	return nil, ErrUnknown
}

// part evaluates a part of a larger value. If the part is unknown, the rest of the value is kept.
func (s *state) part(n node) (any, error) {
	lets, elems := len(s.lets), len(s.elems)
	v, err := n.eval(s)
	if s.partial && errors.Is(err, ErrUnknown) {
		s.lets, s.elems = s.lets[:lets], s.elems[:elems]
		return Placeholder(sourceName(s.src)), nil
	}
	return v, err
}

var stepOutput = regexp.MustCompile(`\bsteps\??\.([a-z][a-z0-9_]*)\??\.output\b`)

// maxName is the longest placeholder of a computed value, in bytes.
const maxName = 120

// sourceName names a computed value by its expression.
func sourceName(src string) string {
	name := stepOutput.ReplaceAllString(strings.Join(strings.Fields(src), " "), "$1")
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "") + "…"
	}
	return name
}
