package httptext

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// maxDepth limits the nesting of a JSON body, because its readers are recursive.
const maxDepth = 512

// EncodeBody converts a complete body to JSON: JSON is compacted, with its numbers unchanged; text
// becomes a string; other bytes become {"base64": …}; an empty body becomes nil. If the type says
// JSON and the body is not JSON, the code is body_invalid.
func EncodeBody(contentType string, body []byte, redact *Redactor) (doc json.RawMessage, code, why string) {
	media := MediaType(contentType)
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")) // RFC 8259, section 8.1: a byte order mark may be ignored
	if IsJSON(media) && len(bytes.Trim(body, " \t\r\n")) == 0 {
		return nil, "", ""
	}
	if !IsJSON(media) && media != "" {
		return EncodeText(body, redact), "", ""
	}
	doc, err := compactJSON(body)
	switch {
	case err == nil:
		return redact.JSON(doc), "", ""
	case media == "":
		return EncodeText(body, redact), "", ""
	}
	return nil, "body_invalid", "the body says it is JSON and is not: " + err.Error()
}

// EncodeText returns the JSON form of a body that is not JSON: see [EncodeBody].
func EncodeText(body []byte, redact *Redactor) json.RawMessage {
	switch {
	case len(body) == 0:
		return nil
	case utf8.Valid(body):
		return QuoteJSON(redact.Text(string(body)))
	}
	clean := redact.Text(string(body))
	return json.RawMessage(`{"base64":"` + base64.StdEncoding.EncodeToString([]byte(clean)) + `"}`)
}

// compactJSON validates a document more strictly than encoding/json, which silently replaces
// invalid UTF-8 and lone surrogates, and removes white space. Duplicate names are kept.
func compactJSON(body []byte) (json.RawMessage, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("it is not UTF-8")
	}
	if err := checkDepth(body); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Compact(&out, body); err != nil {
		return nil, errors.New("its syntax is broken or it is cut off")
	}
	doc := out.Bytes()
	for i := 0; i < len(doc); i++ {
		if doc[i] != '"' {
			continue
		}
		end := stringEnd(doc, i)
		if hasLoneSurrogate(doc[i:end]) {
			return nil, errors.New("a string has half of a surrogate pair")
		}
		i = end - 1
	}
	return doc, nil
}

func checkDepth(body []byte) error {
	depth := 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			i = stringEnd(body, i) - 1
		case '[', '{':
			if depth++; depth > maxDepth {
				return errors.New("it is nested deeper than 512")
			}
		case ']', '}':
			depth--
		}
	}
	return nil
}

// stringEnd returns the index after the string literal that begins at i, or
// the document's end if it is not closed.
func stringEnd(doc []byte, i int) int {
	for i++; i < len(doc); i++ {
		switch doc[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(doc)
}

// hasLoneSurrogate reports whether a valid string literal escapes half of a
// UTF-16 pair: such a string has no text.
func hasLoneSurrogate(literal []byte) bool {
	for i := 0; i < len(literal); i++ {
		if literal[i] != '\\' {
			continue
		}
		switch unit := escapedUnit(literal[i:]); {
		case unit < 0:
			i++
		case unit >= 0xDC00 && unit <= 0xDFFF:
			return true
		case unit >= 0xD800 && unit <= 0xDBFF:
			low := escapedUnit(literal[i+6:])
			if low < 0xDC00 || low > 0xDFFF {
				return true
			}
			i += 11
		default:
			i += 5
		}
	}
	return false
}

// escapedUnit reads a \uXXXX at the start of s, or returns -1.
func escapedUnit(s []byte) int {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	unit := 0
	for _, c := range s[2:6] {
		switch {
		case c >= '0' && c <= '9':
			unit = unit<<4 | int(c-'0')
		default:
			unit = unit<<4 | int(c|0x20-'a'+10)
		}
	}
	return unit
}
