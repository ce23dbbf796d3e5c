package expr

import (
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"
)

// Costs, in units of fuel. A node visited or an element produced costs one unit, and so does every
// unitProduced bytes written or unitScanned bytes read.
const (
	unitProduced = 64
	unitScanned  = 1024
)

// state is one evaluation or one rendering of a template.
type state struct {
	env     Env
	src     string // of the program that runs
	fuel    int
	roots   []root    // the roots that were read
	lets    []any     // values of let, innermost last
	elems   []element // elements of the predicates being run, innermost last
	randoms int       // random values used so far

	partial bool // values may be placeholders
	trial   bool // the typer tries out a condition; see typer.canHold
}

type root struct {
	name  string
	value any
}

type element struct {
	value any
	index int
}

func newState(env Env) *state {
	if env == nil {
		env = MapEnv(nil)
	}
	return &state{env: env, fuel: DefaultFuel, partial: IsPartial(env)}
}

func (s *state) burn(n int) error {
	if n < 0 || n > s.fuel {
		s.fuel = 0
		return fail(CodeOutOfFuel, "the evaluation needs more than %d units of work; do less in one expression (take() fewer elements, or split it over steps)", DefaultFuel)
	}
	s.fuel -= n
	return nil
}

func (s *state) burnBytes(n int) error { return s.burn(1 + n/unitProduced) }

// root returns the value of a root. The environment is asked for each root only once.
func (s *state) root(name string) (any, error) {
	for _, r := range s.roots { // there are only a few
		if r.name == name {
			return r.value, nil
		}
	}
	v, ok := s.env.Root(name)
	if !ok {
		return nil, fail(CodeNotAvailable, "%s is not available here", name)
	}
	v, err := normalize(v)
	if err != nil {
		return nil, err
	}
	s.roots = append(s.roots, root{name, v})
	return v, nil
}

// normalize converts a value of an Env or Object to the evaluator's types.
func normalize(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, string, json.Number, []any, map[string]any, Raw, Object, encoded:
		return v, nil
	case json.RawMessage:
		return Raw(v), nil
	case int:
		return json.Number(strconv.Itoa(v)), nil
	case int64:
		return json.Number(strconv.FormatInt(v, 10)), nil
	}
	return nil, fail(CodeBadValue, "a value of the Go type %T is not a JSON value; give it as JSON", v)
}

// open returns v with its first level parsed. It is never a Raw, but its children may be.
func (s *state) open(v any) (any, error) {
	v, err := normalize(v)
	if err != nil {
		return nil, err
	}
	if err := s.look(v); err != nil {
		return nil, err
	}
	if text, ok := v.(encoded); ok {
		return string(text), nil
	}
	raw, ok := v.(Raw)
	if !ok {
		return v, nil
	}
	if err := s.burn(1 + len(raw)/unitScanned); err != nil {
		return nil, err
	}
	i := skipSpace(raw, 0)
	if i == len(raw) {
		return nil, notJSON(errNotJSON)
	}
	switch raw[i] {
	case '{':
		m := map[string]any{}
		if err = eachRaw(raw, func(key string, v Raw) { m[key] = v }); err == nil {
			return m, s.burn(len(m))
		}
	case '[':
		list := []any{}
		if err = eachRaw(raw, func(_ string, v Raw) { list = append(list, v) }); err == nil {
			return list, s.burn(len(list))
		}
	default:
		var scalar any
		if scalar, err = Decode(raw); err == nil {
			return scalar, s.burn(len(raw) / unitProduced)
		}
	}
	return nil, notJSON(err)
}

func notJSON(err error) *EvalError {
	return fail(CodeBadValue, "the value is not valid JSON (%s)", reason(err))
}

// reason returns why decoding failed, without the data.
func reason(err error) string {
	for _, known := range []error{errNotUTF8, errTrailing, errNotJSON} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "syntax error"
}

// plain decodes v all the way down. It pays for the length of each text and number, as encode does:
// the same value may be in many places, and the caller writes out each of them.
func (s *state) plain(v any) (any, error) {
	if err := s.burn(1); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case json.RawMessage:
		return s.plain(Raw(v))
	case Raw:
		if err := s.burnBytes(len(v)); err != nil {
			return nil, err
		}
		out, err := Decode(v)
		if err != nil {
			return nil, notJSON(err)
		}
		return out, nil
	case []any:
		return s.plainList(v)
	case map[string]any:
		return s.plainMap(v)
	case Object:
		raw, err := objectJSON(v)
		if err != nil {
			return nil, err
		}
		return s.plain(raw)
	case string:
		if !utf8.ValidString(v) {
			return nil, notJSON(errNotUTF8)
		}
		return v, s.burn(len(v) / unitProduced)
	case encoded:
		return string(v), s.burn(len(v) / unitProduced)
	case json.Number:
		if err := s.burn(len(v) / unitProduced); err != nil {
			return nil, err
		}
		return v, checkLiteral(v)
	case Secret:
		return v, nil
	}
	return normalize(v)
}

func (s *state) plainList(list []any) (any, error) {
	if err := s.burn(len(list)); err != nil {
		return nil, err
	}
	out := make([]any, len(list))
	for i, item := range list {
		p, err := s.plain(item)
		if err != nil {
			return nil, err
		}
		out[i] = p
	}
	return out, nil
}

func (s *state) plainMap(m map[string]any) (any, error) {
	if err := s.burn(len(m)); err != nil {
		return nil, err
	}
	out := make(map[string]any, len(m))
	for _, key := range sortedKeys(m) {
		if err := s.burn(len(key) / unitProduced); err != nil {
			return nil, err
		}
		p, err := s.plain(m[key])
		if err != nil {
			return nil, err
		}
		out[key] = p
	}
	return out, nil
}

// objectJSON writes out an Object that supports it.
func objectJSON(o Object) (Raw, error) {
	j, ok := o.(JSONObject)
	if !ok {
		return nil, fail(CodeWrongType, "this object cannot be used whole; name one of its fields")
	}
	raw, err := j.JSON()
	if err != nil {
		return nil, fail(CodeBadValue, "this object cannot be written as JSON: %v", err)
	}
	return Raw(raw), nil
}
