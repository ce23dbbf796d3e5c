package idempotency

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
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

// canonical is body with the fields of its objects in order, if it is one JSON value.
func canonical(body []byte) []byte {
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
