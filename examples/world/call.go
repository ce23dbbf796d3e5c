package world

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxBody is the maximum size of a request's body, in bytes.
const maxBody = 16 * mib

// call is a request that was read.
type call struct {
	op       *operation
	method   string
	path     string // without the query
	uri      string // with the query
	query    url.Values
	id       string // {id} or {name} in the path
	body     []byte
	sum      string // SHA-256 of the body, in hex
	key      string
	token    string  // the bearer token
	fault    string  // for the ledger
	replayed bool    // for the ledger
	entries  []int64 // N of the request in the ledger, then of its effects
}

// readCall reads the request. The call can be recorded in the ledger even with an error, which
// concerns the body.
func readCall(o *operation, r *http.Request) (*call, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	sum := sha256.Sum256(body)
	c := &call{
		op: o, method: r.Method, path: r.URL.Path, uri: r.URL.RequestURI(), query: r.URL.Query(),
		id: r.PathValue("id"), body: body,
		sum: hex.EncodeToString(sum[:]), key: r.Header.Get("Idempotency-Key"),
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		c.token = token
	}
	if c.key == "" && o.keyField != "" {
		c.key = keyInBody(body, o.keyField)
	}
	return c, err
}

// keyInBody returns the string in a field; "" if there is none.
func keyInBody(body []byte, field string) string {
	var f fields
	var key string
	if json.Unmarshal(body, &f) != nil || json.Unmarshal(f[field], &key) != nil {
		return ""
	}
	return key
}

// scope returns the scope of the call's key. It is empty if the operation accepts no keys.
func (c *call) scope() scope {
	if !c.op.write || c.op.ignoresKeys {
		return scope{}
	}
	return scope{c.op.service, c.key}
}

// print is the fingerprint of a request: it differs between different requests with one key.
func (c *call) print() string { return c.method + " " + c.uri + " " + c.sum }

// again returns the call as a network that duplicates requests delivers it.
func (c *call) again() *call {
	d := *c
	d.fault, d.replayed, d.entries = Duplicate, false, nil
	return &d
}

func (c *call) entry(k Kind) Entry {
	return Entry{Kind: k, Service: c.op.service, Op: c.op.name, Method: c.method, Path: c.uri, Key: c.key,
		BodySHA256: c.sum, Fault: c.fault}
}

// fields is a JSON object with undecoded values, so that numbers keep their digits.
type fields map[string]json.RawMessage

// errBody is wrapped by errors about bodies.
var errBody = errors.New("bad request body")

// object reads the body as one JSON object.
func (c *call) object() (fields, error) {
	f := fields{}
	if len(bytes.TrimSpace(c.body)) == 0 {
		return f, nil
	}
	if err := json.Unmarshal(c.body, &f); err != nil || f == nil {
		return nil, fmt.Errorf("%w: send one JSON object", errBody)
	}
	return f, nil
}

// text sets a string.
func (f fields) text(name, value string) { f[name] = bytes.TrimSpace(encode(value)) }

// needs returns an error if a field is missing or null.
func (f fields) needs(names ...string) error {
	for _, name := range names {
		if v, ok := f[name]; !ok || string(v) == "null" {
			return fmt.Errorf("%w: field %q is missing", errBody, name)
		}
	}
	return nil
}

// amount returns an error unless a field is a non-negative amount: a number, or a string with one.
func (f fields) amount(name string) error {
	var n json.Number
	if err := json.Unmarshal(f[name], &n); err != nil || n == "" || strings.HasPrefix(n.String(), "-") {
		return fmt.Errorf("%w: field %q must be an amount that is not negative, such as 19.10", errBody, name)
	}
	return nil
}
