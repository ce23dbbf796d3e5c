package compare

import (
	"encoding/json"
	"strings"

	"recourse/saga"
	"recourse/saga/expr"
)

// Difference is the first place at which two values differ, in the order of their fields' names.
type Difference struct {
	Pointer string          `json:"pointer"`       // RFC 6901; "" is the whole value
	Was     json.RawMessage `json:"was,omitempty"` // nil: there is no value
	Now     json.RawMessage `json:"now,omitempty"`
}

// Values compares two decoded values of package expr. nil means that they are equal. A long value
// in the result is cut to a text.
func Values(was, now any) *Difference {
	at, differ := saga.Difference(was, now)
	if !differ {
		return nil
	}
	d := At(was, now, at)
	return &d
}

// At returns the difference of two values at a pointer.
func At(was, now any, pointer string) Difference {
	return Difference{Pointer: pointer, Was: valueAt(was, pointer), Now: valueAt(now, pointer)}
}

// Request returns a request as a decoded value that can be compared. It lacks the ids of child
// sagas, which depend on the time at which they start, and what a server says about a tool.
func Request(q saga.Request) map[string]any {
	q = *q.Childless()
	if q.Tool != nil {
		tool := *q.Tool
		tool.Hint = ""
		q.Tool = &tool
	}
	v, _ := expr.Decode(saga.Encode(q)) // Encode writes valid JSON
	m, _ := v.(map[string]any)
	return m
}

// maxValue limits the bytes of a value in a result.
const maxValue = 1 << 10

// valueAt returns the value at a pointer as JSON; nil if there is none. A long value is cut to a
// text.
func valueAt(v any, pointer string) json.RawMessage {
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		switch in := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = in[expr.TokenName(token)]; !ok {
				return nil
			}
		case []any:
			i := index(token)
			if i < 0 || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	doc := saga.Encode(v)
	if len(doc) > maxValue {
		return saga.Encode(strings.ToValidUTF8(string(doc[:maxValue]), "") + "…")
	}
	return doc
}

func index(token string) int {
	n := 0
	for _, c := range token {
		if c < '0' || c > '9' || n > 1<<20 {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}
