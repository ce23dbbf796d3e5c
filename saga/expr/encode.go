package expr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

func sortedKeys(m map[string]any) []string {
	return slices.Sorted(maps.Keys(m))
}

// encode appends v as compact JSON: map keys sorted, numbers as their
// literals, no HTML escapes; Raw is copied verbatim, compacted.
func (s *state) encode(buf []byte, v any) ([]byte, error) {
	if err := s.burn(1); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return append(buf, "null"...), nil
	case bool:
		if v {
			return append(buf, "true"...), nil
		}
		return append(buf, "false"...), nil
	case json.Number:
		if err := s.burn(len(v) / unitProduced); err != nil {
			return nil, err
		}
		return append(buf, v...), checkLiteral(v)
	case string:
		return s.encodeString(buf, v)
	case encoded:
		return s.encodeString(buf, string(v))
	case Raw:
		return s.encodeRaw(buf, v)
	case []any:
		return s.encodeList(buf, v)
	case map[string]any:
		return s.encodeMap(buf, v)
	case Secret:
		return nil, errPlainSecret(v.Name)
	case Object:
		raw, err := objectJSON(v)
		if err != nil {
			return nil, err
		}
		return s.encodeRaw(buf, raw)
	}
	n, err := normalize(v)
	if err != nil {
		return nil, err
	}
	return s.encode(buf, n)
}

func (s *state) encodeList(buf []byte, list []any) ([]byte, error) {
	buf = append(buf, '[')
	var err error
	for i, item := range list {
		if i > 0 {
			buf = append(buf, ',')
		}
		if buf, err = s.encode(buf, item); err != nil {
			return nil, err
		}
	}
	return append(buf, ']'), nil
}

func (s *state) encodeMap(buf []byte, m map[string]any) ([]byte, error) {
	if err := s.burn(len(m)); err != nil {
		return nil, err
	}
	buf = append(buf, '{')
	var err error
	for i, key := range sortedKeys(m) {
		if i > 0 {
			buf = append(buf, ',')
		}
		if buf, err = s.encodeString(buf, key); err != nil {
			return nil, err
		}
		if buf, err = s.encode(append(buf, ':'), m[key]); err != nil {
			return nil, err
		}
	}
	return append(buf, '}'), nil
}

func (s *state) encodeRaw(buf []byte, raw Raw) ([]byte, error) {
	if err := s.burnBytes(len(raw)); err != nil {
		return nil, err
	}
	if !utf8.Valid(raw) {
		return nil, notJSON(errNotUTF8)
	}
	w := bytes.NewBuffer(buf)
	if err := json.Compact(w, raw); err != nil {
		return nil, notJSON(err)
	}
	return w.Bytes(), nil
}

func (s *state) encodeString(buf []byte, text string) ([]byte, error) {
	if err := s.burnBytes(len(text)); err != nil {
		return nil, err
	}
	if !utf8.ValidString(text) {
		return nil, notJSON(errNotUTF8)
	}
	buf = append(buf, '"')
	buf = appendEscaped(buf, text)
	return append(buf, '"'), nil
}

// appendEscaped appends text with what RFC 8259 §7 requires escaped, and
// nothing else.
func appendEscaped(buf []byte, text string) []byte {
	from := 0 // what is copied next
	for i := range len(text) {
		c := text[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		buf = append(buf, text[from:i]...)
		from = i + 1
		switch {
		case c == '"' || c == '\\':
			buf = append(buf, '\\', c)
		case c == '\n':
			buf = append(buf, `\n`...)
		case c == '\r':
			buf = append(buf, `\r`...)
		case c == '\t':
			buf = append(buf, `\t`...)
		default:
			buf = append(buf, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(buf, text[from:]...)
}

// AppendJSON appends a document as [Decode] returns it, in the form that templates have, too:
// compact, with sorted keys, and with the digits of its numbers.
func AppendJSON(buf []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(buf, "null"...)
	case bool:
		return strconv.AppendBool(buf, v)
	case json.Number:
		return append(buf, v...)
	case string:
		return append(appendEscaped(append(buf, '"'), v), '"')
	case []any:
		buf = append(buf, '[')
		for i, item := range v {
			if i > 0 {
				buf = append(buf, ',')
			}
			buf = AppendJSON(buf, item)
		}
		return append(buf, ']')
	case map[string]any:
		buf = append(buf, '{')
		for i, key := range sortedKeys(v) {
			if i > 0 {
				buf = append(buf, ',')
			}
			buf = AppendJSON(append(appendEscaped(append(buf, '"'), key), `":`...), v[key])
		}
		return append(buf, '}')
	}
	panic(fmt.Sprintf("expr: %T in a document", v))
}

// AppendCompact appends a document that is known to be JSON, without spaces between its tokens.
func (r Raw) AppendCompact(buf []byte) []byte {
	from := 0 // what is copied next
	for i := 0; i < len(r); {
		switch r[i] {
		case '"':
			end, err := skipString(r, i)
			if err != nil {
				end = len(r)
			}
			i = end
		case ' ', '\t', '\r', '\n':
			buf = append(buf, r[from:i]...)
			i = skipSpace(r, i)
			from = i
		default:
			i++
		}
	}
	return append(buf, r[from:]...)
}

func errPlainSecret(name string) *EvalError {
	return fail(CodeSecretInPlain, "secrets.%s is only rendered into a request (query, headers, auth, body)", name)
}
