package idempotency

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"
)

// Fingerprint tells two requests that come in under one key apart: the SHA-256,
// in hex, of the method, the path and the body, a newline between them. A JSON
// body counts by its content: white space and the order of fields make no
// difference, the digits of a number do. Any other body counts by its bytes.
func Fingerprint(method, path string, body []byte) string {
	h := sha256.New()
	h.Write([]byte(method + "\n" + path + "\n"))
	h.Write(canonical(body))
	return hex.EncodeToString(h.Sum(nil))
}

// canonical is body as Marshal would write it, the fields of its objects in order, if it is one
// JSON value.
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

// unaltered reports that Marshal would write text as it stands, if it is JSON at
// all: there is no white space in it, every object's fields are in order, and
// strings are of characters that are never escaped. Programs mostly write such texts.
// They need no decoding, and what is no JSON counts by its bytes anyway.
func unaltered(text []byte) bool {
	var room [16][]byte // of deeper texts nothing is said
	latest := room[:0]  // the latest field of each object that is open, nil before its first
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

// plain is how much of text comes before a quote, or a character that Marshal may write otherwise.
func plain(text []byte) int {
	for i, c := range text {
		switch {
		case c < ' ', c >= utf8.RuneSelf, c == '"', c == '\\', c == '<', c == '>', c == '&':
			return i
		}
	}
	return len(text)
}
