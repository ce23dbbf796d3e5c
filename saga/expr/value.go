package expr

import (
	"encoding/json"
)

// Env gives an evaluation the values of its roots.
//
// Root returns the value of a root such as input or steps. ok is false when
// the root has no value here; naming it is then an error ("… is not available
// here"). A value is one of nil, bool, string, json.Number, []any,
// map[string]any, [Raw] (or json.RawMessage), [Object], or an int or int64,
// which reads as a number. Root is called at most once per name and evaluation.
type Env interface {
	Root(name string) (v any, ok bool)
}

// MapEnv is an [Env] held in a map from root name to value.
type MapEnv map[string]any

// Root implements [Env].
func (m MapEnv) Root(name string) (any, bool) {
	v, ok := m[name]
	return v, ok
}

// Object is a lazy mapping: member access asks it for one field at a time, so
// that a root like steps need not be materialised.
//
// Names lists the fields there are, sorted; it feeds "did you mean". Encoding
// an Object as JSON is an error unless it also implements [JSONObject].
type Object interface {
	Field(name string) (v any, ok bool)
	Names() []string
}

// JSONObject is an [Object] that can be written out whole.
type JSONObject interface {
	Object
	JSON() (json.RawMessage, error)
}

// Raw is a JSON document not parsed yet. The evaluator opens it level by
// level, on first need; a bare path to it (or into it) copies its bytes
// verbatim, compacted, with its keys in their order and its numbers as written.
type Raw json.RawMessage

// encoded is text from path() or urlencode(), which is fit for a URL as it is. It reads as a
// string; only [Template.Pieces] tells it from one.
type encoded string

// Secret is what the root secrets gives: a reference by name, never the value.
type Secret struct{ Name string }
