package expr

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// asText returns a value as it appears in text: strings as they are, numbers and bools as literals.
func (s *state) asText(v any) (string, error) {
	if s.partial {
		if text, ok := unknown(v); ok {
			return text, nil
		}
	}
	v, err := s.open(v)
	if err != nil {
		return "", err
	}
	switch v := v.(type) {
	case string:
		if !utf8.ValidString(v) {
			return "", notJSON(errNotUTF8)
		}
		return v, s.burnBytes(len(v))
	case json.Number:
		if err := checkLiteral(v); err != nil {
			return "", err
		}
		return string(v), s.burnBytes(len(v))
	case bool:
		if v {
			return "true", nil
		}
		return "false", nil
	}
	return "", fail(CodeNotText, "%s cannot stand inside text; use json(x), or x ?? \"\" for what may be null", kind(v))
}

// mapped applies f to the first argument, a string, and pays for the result.
func mapped(c *call, f func(string) string) (any, error) {
	t, err := c.text(0)
	if err != nil {
		return nil, err
	}
	if err := c.burnBytes(len(t)); err != nil {
		return nil, err
	}
	out := f(t)
	return out, c.burnBytes(len(out))
}

func fnLower(c *call) (any, error) { return mapped(c, strings.ToLower) }
func fnUpper(c *call) (any, error) { return mapped(c, strings.ToUpper) }
func fnTrim(c *call) (any, error)  { return mapped(c, strings.TrimSpace) }

func fnBase64(c *call) (any, error) {
	return mapped(c, func(t string) string { return base64.StdEncoding.EncodeToString([]byte(t)) })
}

func fnSHA256(c *call) (any, error) {
	return mapped(c, func(t string) string {
		sum := sha256.Sum256([]byte(t))
		return hex.EncodeToString(sum[:])
	})
}

func fnUnbase64(c *call) (any, error) {
	t, err := c.text(0)
	if err != nil {
		return nil, err
	}
	if err := c.burnBytes(len(t)); err != nil {
		return nil, err
	}
	out, err := base64.StdEncoding.DecodeString(t)
	if err != nil {
		return nil, fail(CodeBadValue, "unbase64: the text is not standard base64 (RFC 4648 §4, with padding)")
	}
	if !utf8.Valid(out) {
		return nil, fail(CodeBadValue, "unbase64: the bytes are not UTF-8 text")
	}
	return string(out), nil
}

// fnURLEncode percent-encodes everything but RFC 3986's unreserved characters.
func fnURLEncode(c *call) (any, error) { return c.percentEncoded("") }

// fnPath is fnURLEncode, except that slashes stay: its value is any number of segments of a path.
func fnPath(c *call) (any, error) { return c.percentEncoded("/") }

// percentEncoded encodes the first argument, but for unreserved characters and those to keep.
func (c *call) percentEncoded(keep string) (any, error) {
	t, err := c.asText(c.args[0])
	if err != nil {
		return nil, err
	}
	if c.partial && HasPlaceholder(t) {
		return encoded(t), nil
	}
	out := make([]byte, 0, len(t)+16)
	for i := range len(t) {
		b := t[i]
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9',
			b == '-', b == '.', b == '_', b == '~', strings.IndexByte(keep, b) >= 0:
			out = append(out, b)
		default:
			out = append(out, '%', upperHex(b>>4), upperHex(b&15))
		}
	}
	return encoded(out), c.burnBytes(len(out))
}

func upperHex(nibble byte) byte { return "0123456789ABCDEF"[nibble] }

func fnString(c *call) (any, error) { return c.asText(c.args[0]) }

func fnReplace(c *call) (any, error) {
	var t [3]string
	for i := range t {
		var err error
		if t[i], err = c.text(i); err != nil {
			return nil, err
		}
	}
	if t[1] == "" {
		return nil, fail(CodeBadValue, "replace: the text to look for is empty")
	}
	if err := c.burnBytes(len(t[0])); err != nil {
		return nil, err
	}
	size := len(t[0]) + strings.Count(t[0], t[1])*max(0, len(t[2])-len(t[1]))
	if err := c.burnBytes(size); err != nil {
		return nil, err
	}
	return strings.ReplaceAll(t[0], t[1], t[2]), nil
}

func fnSplit(c *call) (any, error) {
	t, err := c.text(0)
	if err != nil {
		return nil, err
	}
	sep, err := c.text(1)
	if err != nil {
		return nil, err
	}
	if sep == "" {
		return nil, fail(CodeBadValue, "split: the separator is empty")
	}
	if err := c.burn(len(t)/unitProduced + strings.Count(t, sep) + 1); err != nil {
		return nil, err
	}
	parts := strings.Split(t, sep)
	list := make([]any, len(parts))
	for i, part := range parts {
		list[i] = part
	}
	return list, nil
}

func fnJoin(c *call) (any, error) {
	list, err := c.list(0)
	if err != nil {
		return nil, err
	}
	sep, err := c.text(1)
	if err != nil {
		return nil, err
	}
	if err := c.burn(len(list)); err != nil {
		return nil, err
	}
	if err := c.burn(len(list) * len(sep) / unitProduced); err != nil {
		return nil, err
	}
	parts := make([]string, len(list))
	for i, item := range list {
		if parts[i], err = c.asText(item); err != nil {
			return nil, err
		}
	}
	return strings.Join(parts, sep), nil
}

func fnJSON(c *call) (any, error) {
	buf, err := c.encode(nil, c.args[0])
	if err != nil {
		return nil, err
	}
	return string(buf), nil
}

// fnParseJSON returns the document undecoded, so that its key order is kept.
func fnParseJSON(c *call) (any, error) {
	t, err := c.text(0)
	if err != nil {
		return nil, err
	}
	if err := c.burnBytes(len(t)); err != nil {
		return nil, err
	}
	if !json.Valid([]byte(t)) || !utf8.ValidString(t) {
		return nil, fail(CodeBadValue, "parse_json: the text is not a JSON document")
	}
	return Raw(t), nil
}

func fnType(c *call) (any, error) { return kind(c.args[0]), c.look(c.args[0]) }

func fnBool(c *call) (any, error) {
	v, err := c.open(c.args[0])
	if err != nil {
		return nil, err
	}
	switch v {
	case true, "true":
		return true, nil
	case false, "false":
		return false, nil
	}
	return nil, fail(CodeBadValue, `bool: the text is neither "true" nor "false"`)
}
