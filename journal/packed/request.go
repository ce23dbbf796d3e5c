package packed

import (
	"bytes"
	"crypto/sha256"
)

// maxHashed is the longest request whose hash is left out. The hash of a longer one is a small part
// of its row, and costs more to compute.
const maxHashed = 4 << 10

// requestHash returns the hash of the HTTP request in the data of an intent, of which it gets what
// comes before the hash. ok is false if there is no such request, or if its method or URL has
// characters that JSON escapes.
//
// It must stay as it is, because rows depend on it. It may return a wrong hash for data that it
// does not understand: a row leaves out only a hash that this function returns.
func requestHash(data []byte) (hash [hashLen]byte, ok bool) {
	if len(data) > maxHashed {
		return hash, false
	}
	rest, ok := bytes.CutSuffix(data, []byte(`},"request_hash":"`))
	if !ok {
		return hash, false
	}
	method, rest, ok := cutText(rest, `{"request":{"method":"`)
	if !ok {
		return hash, false
	}
	url, rest, ok := cutText(rest, `,"url":"`)
	if !ok {
		return hash, false
	}
	if headers, found := bytes.CutPrefix(rest, []byte(`,"headers":{`)); found {
		rest = afterObject(headers)
	}
	body, _ := bytes.CutPrefix(rest, []byte(`,"body":`))
	text := make([]byte, 0, 512)
	text = append(append(text, method...), '\n')
	text = append(append(text, url...), '\n')
	return sha256.Sum256(append(text, body...)), true
}

// cutText returns the JSON string after a prefix that ends with its quotation mark, and the rest
// after the string.
func cutText(data []byte, prefix string) (text, rest []byte, ok bool) {
	if rest, ok = bytes.CutPrefix(data, []byte(prefix)); !ok {
		return nil, nil, false
	}
	text, rest, ok = bytes.Cut(rest, []byte{'"'})
	return text, rest, ok && bytes.IndexByte(text, '\\') < 0
}

// afterObject returns what comes after the end of a JSON object of strings, which began before
// data.
func afterObject(data []byte) []byte {
	inText := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '\\':
			i++
		case c == '"':
			inText = !inText
		case c == '}' && !inText:
			return data[i+1:]
		}
	}
	return nil
}
