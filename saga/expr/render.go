package expr

import (
	"bytes"
	"strings"
)

// single returns the program of a scalar that is exactly one ${…}.
func (t *Template) single() *Program {
	if len(t.parts) == 1 {
		return t.parts[0].Program
	}
	return nil
}

func (t *Template) value(s *state) (any, error) {
	if t == nil {
		return nil, nil
	}
	switch t.form {
	case formConst:
		return s.plain(Raw(t.raw))
	case formList:
		list := make([]any, len(t.items))
		for i, item := range t.items {
			v, err := item.value(s)
			if err != nil {
				return nil, err
			}
			list[i] = v
		}
		return list, s.burn(len(list))
	case formMap:
		m := make(map[string]any, len(t.fields))
		for _, f := range t.fields {
			v, err := f.Value.value(s)
			if err != nil {
				return nil, err
			}
			m[f.Name] = v
		}
		return m, s.burn(len(m))
	case formText:
		return t.scalar(s)
	}
	return nil, nil
}

func (t *Template) scalar(s *state) (any, error) {
	p := t.single()
	if p == nil {
		return t.text(s, false)
	}
	v, err := p.run(s)
	if err != nil {
		return nil, err
	}
	if secret, ok := v.(Secret); ok {
		return nil, p.located(errPlainSecret(secret.Name))
	}
	v, err = s.plain(v)
	return v, p.located(err)
}

// text renders a scalar as text.
func (t *Template) text(s *state, sealed bool) (string, error) {
	if t == nil {
		t = &Template{}
	}
	pieces := []piece{{}}
	var err error
	switch t.form {
	case formText:
		pieces, err = t.pieces(s)
	case formConst:
		pieces[0].text, err = s.asText(Raw(t.raw))
	case formList:
		err = fail(CodeNotText, "a list cannot stand inside text; use json()")
	case formMap:
		err = fail(CodeNotText, "an object cannot stand inside text; use json()")
	default:
		err = fail(CodeNotText, "null cannot stand inside text")
	}
	if err != nil {
		return "", err
	}
	return join(pieces, sealed, func(text string) string { return text })
}

func (t *Template) appendJSON(s *state, buf []byte, sealed bool) ([]byte, error) {
	if t == nil {
		return append(buf, "null"...), nil
	}
	switch t.form {
	case formConst:
		return s.leaf(buf, Raw(t.raw), sealed)
	case formList:
		return t.appendList(s, buf, sealed)
	case formMap:
		return t.appendMap(s, buf, sealed)
	case formText:
		return t.appendScalar(s, buf, sealed)
	}
	return append(buf, "null"...), nil
}

func (t *Template) appendList(s *state, buf []byte, sealed bool) ([]byte, error) {
	buf = append(buf, '[')
	var err error
	for i, item := range t.items {
		if i > 0 {
			buf = append(buf, ',')
		}
		if buf, err = item.appendJSON(s, buf, sealed); err != nil {
			return nil, err
		}
	}
	return append(buf, ']'), s.burn(len(t.items))
}

func (t *Template) appendMap(s *state, buf []byte, sealed bool) ([]byte, error) {
	buf = append(buf, '{')
	var err error
	for i, f := range t.fields {
		if i > 0 {
			buf = append(buf, ',')
		}
		if buf, err = s.leaf(buf, f.Name, sealed); err != nil {
			return nil, err
		}
		if buf, err = f.Value.appendJSON(s, append(buf, ':'), sealed); err != nil {
			return nil, err
		}
	}
	return append(buf, '}'), s.burn(len(t.fields))
}

func (t *Template) appendScalar(s *state, buf []byte, sealed bool) ([]byte, error) {
	if p := t.single(); p != nil {
		v, err := p.run(s)
		if err != nil {
			return nil, err
		}
		if _, secret := v.(Secret); !secret {
			buf, err = s.leaf(buf, v, sealed)
			return buf, p.located(err)
		}
	}
	pieces, err := t.pieces(s)
	if err != nil {
		return nil, err
	}
	text, err := join(pieces, sealed, escaped)
	if err != nil {
		return nil, err
	}
	buf = append(buf, '"')
	buf = append(buf, text...)
	return append(buf, '"'), s.burnBytes(len(text))
}

func escaped(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r == '"' || r == '\\' }) {
		return text
	}
	return string(appendEscaped(make([]byte, 0, len(text)+8), text))
}

// leaf appends a value without secrets. $ and { occur only in strings, where JSON does not escape
// them, so the encoded text can be sealed.
func (s *state) leaf(buf []byte, v any, sealed bool) ([]byte, error) {
	if !sealed {
		return s.encode(buf, v)
	}
	from := len(buf)
	buf, err := s.encode(buf, v)
	if err != nil || !bytes.Contains(buf[from:], []byte("${")) {
		return buf, err
	}
	return append(buf[:from], bytes.ReplaceAll(buf[from:], []byte("${"), []byte("$${"))...), nil
}
