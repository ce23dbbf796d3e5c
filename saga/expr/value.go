package expr

import (
	"encoding/json"
)

// Env provides the values of an evaluation's roots.
//
// Root returns the value of a root such as input or steps. ok is false if the root has no value
// here; using it is then an error ("… is not available here"). A value is one of nil, bool, string,
// json.Number, []any, map[string]any, [Raw] (or json.RawMessage), [Object], or an int or int64,
// which becomes a number. Root is called at most once per name and evaluation.
type Env interface {
	Root(name string) (v any, ok bool)
}

// MapEnv is an [Env] as a map from root name to value.
type MapEnv map[string]any

// Root implements [Env].
func (m MapEnv) Root(name string) (any, bool) {
	v, ok := m[name]
	return v, ok
}

// Object is a lazy mapping. Its fields are read one at a time, so that a root like steps need not
// be built completely.
//
// Names returns the existing fields, sorted, for "did you mean". Encoding an Object as JSON is an
// error unless it also implements [JSONObject].
type Object interface {
	Field(name string) (v any, ok bool)
	Names() []string
}

// JSONObject is an [Object] that can be written out completely.
type JSONObject interface {
	Object
	JSON() (json.RawMessage, error)
}

// Raw is an undecoded JSON document. The evaluator decodes it level by level, when needed. A bare
// path to it (or into it) copies its bytes, compacted, with the order of its keys and its numbers
// as written.
type Raw json.RawMessage

// encoded is text from path() or urlencode(), which can be used in a URL as it is. It behaves like
// a string; only [Template.Pieces] distinguishes them.
type encoded string

// Secret is the value of secrets.<name>: a reference by name, never the secret's value.
type Secret struct{ Name string }
