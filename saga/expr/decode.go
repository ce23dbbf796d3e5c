package expr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

var (
	errNotUTF8  = errors.New("the text is not valid UTF-8")
	errTrailing = errors.New("there is more text after the JSON value")
	errNotJSON  = errors.New("not a JSON document")
)

// Decode parses one JSON document the way expressions see it: nil, bool,
// string, json.Number, []any, map[string]any. It refuses invalid UTF-8 (which
// encoding/json would replace) and anything after the document.
func Decode(raw []byte) (any, error) {
	if !utf8.Valid(raw) {
		return nil, errNotUTF8
	}
	if v, ok := plainScalar(raw); ok {
		return v, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errTrailing
	}
	return v, nil
}

// plainScalar decodes a number, or a string without escapes, which are most of the values that
// expressions read.
func plainScalar(raw []byte) (v any, ok bool) {
	if n := len(raw); n >= 2 && raw[0] == '"' && raw[n-1] == '"' {
		text := raw[1 : n-1]
		if bytes.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' }) {
			return nil, false
		}
		return string(text), true
	}
	if len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return nil, false
	}
	n := json.Number(raw)
	return n, isLiteral(string(n))
}

// skipSpace gives the index of the first byte at or after i that is not JSON
// white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString gives the index after the string that starts at b[i].
func skipString(b []byte, i int) (int, error) {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1, nil
		}
	}
	return 0, errNotJSON
}

// skipValue returns the index after the value that starts at b[i]. It only finds the end: the value
// is validated when it is decoded or copied, so a document is not validated once per level.
func skipValue(b []byte, i int) (int, error) {
	depth, start := 0, i
	for i < len(b) {
		switch b[i] {
		case '"':
			end, err := skipString(b, i)
			if err != nil || depth == 0 {
				return end, err
			}
			i = end
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i, emptyIf(i == start)
			}
			if depth--; depth == 0 {
				return i + 1, nil
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i, emptyIf(i == start)
			}
		}
		i++
	}
	if depth > 0 {
		return 0, errNotJSON
	}
	return i, emptyIf(i == start)
}

func emptyIf(empty bool) error {
	if empty {
		return errNotJSON
	}
	return nil
}

// Each calls visit for every member of an object, with its name, or every item of a list. It does
// not validate them.
func (r Raw) Each(visit func(name string, v Raw)) error { return eachRaw(r, visit) }

// eachRaw calls visit for every child of the object or list b, with its key
// ("" in a list). The values alias b.
func eachRaw(b []byte, visit func(key string, v Raw)) error {
	i := skipSpace(b, 0)
	if i == len(b) || (b[i] != '{' && b[i] != '[') {
		return errNotJSON
	}
	object, closing := b[i] == '{', b[i]+2 // '{'+2 is '}', '['+2 is ']'
	if i = skipSpace(b, i+1); i < len(b) && b[i] == closing {
		return nil
	}
	for i < len(b) {
		key := ""
		if object {
			var err error
			if key, i, err = rawKey(b, i); err != nil {
				return err
			}
		}
		i = skipSpace(b, i)
		end, err := skipValue(b, i)
		if err != nil {
			return err
		}
		visit(key, Raw(b[i:end:end]))
		if i = skipSpace(b, end); i == len(b) || (b[i] != ',' && b[i] != closing) {
			return errNotJSON
		}
		if b[i] == closing {
			return nil
		}
		i = skipSpace(b, i+1)
	}
	return errNotJSON
}

// rawKey reads the key and colon at b[i] and gives the index after the colon.
func rawKey(b []byte, i int) (string, int, error) {
	if b[i] != '"' {
		return "", 0, errNotJSON
	}
	end, err := skipString(b, i)
	if err != nil {
		return "", 0, err
	}
	key := string(b[i+1 : end-1])
	if bytes.IndexByte(b[i:end], '\\') >= 0 || !utf8.ValidString(key) {
		v, err := Decode(b[i:end])
		if err != nil {
			return "", 0, err
		}
		key = v.(string) // a document that starts with a quote is a string
	}
	if i = skipSpace(b, end); i == len(b) || b[i] != ':' {
		return "", 0, errNotJSON
	}
	return key, i + 1, nil
}
