package idempotency

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"
)

// Fingerprint returns the first 128 bits of the SHA-256, in unpadded base64url (RFC 4648), of the
// method, the path and the body, separated by newlines. It distinguishes different requests that
// arrive with the same key. A JSON body counts by its content: white space and the order of fields
// make no difference, the digits of a number do. Any other body counts by its bytes.
func Fingerprint(method, path string, body []byte) string {
	h := sha256.New()
	h.Write([]byte(method + "\n" + path + "\n"))
	h.Write(canonical(body))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

// canonical returns body as Marshal would write it, with the fields of its objects sorted, if it is
// one JSON value.
func canonical(body []byte) []byte {
	if unaltered(body) {
		return body
	}
	return rewritten(body)
}

func rewritten(body []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return body
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return body
	}
	b, err := json.Marshal(v)
	if err != nil {
		return body
	}
	return b
}

// unaltered reports whether Marshal would write text unchanged, if it is JSON at all: it has no
// white space, the fields of every object are sorted, and its strings contain only characters that
// are never escaped. Most texts of programs are like that. They need no decoding, and text that is
// not JSON counts by its bytes anyway.
func unaltered(text []byte) bool {
	var room [16][]byte // deeper texts are not reported as unaltered
	latest := room[:0]  // the latest field of each open object, nil before its first
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case ' ', '\t', '\r', '\n':
			return false
		case '{':
			if len(latest) == len(room) {
				return false
			}
			latest = append(latest, nil)
		case '}':
			if len(latest) == 0 {
				return false
			}
			latest = latest[:len(latest)-1]
		case '"':
			end := at + 1 + plain(text[at+1:])
			if end == len(text) || text[end] != '"' {
				return false
			}
			if end+1 < len(text) && text[end+1] == ':' && len(latest) > 0 {
				field, before := text[at+1:end], &latest[len(latest)-1]
				if *before != nil && bytes.Compare(*before, field) >= 0 {
					return false
				}
				*before = field
			}
			at = end
		}
	}
	return true
}

// plain returns the number of bytes before a quote, or before a character that Marshal may escape.
func plain(text []byte) int {
	for i, c := range text {
		switch {
		case c < ' ', c >= utf8.RuneSelf, c == '"', c == '\\', c == '<', c == '>', c == '&':
			return i
		}
	}
	return len(text)
}
