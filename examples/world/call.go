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

// maxBody is the most a request's body may hold, in bytes.
const maxBody = 16 * mib

// call is a request, read.
type call struct {
	op       *operation
	method   string
	path     string // without the query
	uri      string // with the query
	query    url.Values
	id       string // the {id} or {name} of the path
	body     []byte
	sum      string // SHA-256 of the body, in hex
	key      string
	token    string  // of Authorization: Bearer
	fault    string  // for the ledger
	replayed bool    // for the ledger
	entries  []int64 // of the ledger: the request, then its effects
}

// readCall reads the request. The call is good for the ledger also when there is an error, which is
// about the body.
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

// keyInBody is the string under field; empty where there is none.
func keyInBody(body []byte, field string) string {
	var f fields
	var key string
	if json.Unmarshal(body, &f) != nil || json.Unmarshal(f[field], &key) != nil {
		return ""
	}
	return key
}

// scope is where the call's key counts. It is empty where the operation takes no keys.
func (c *call) scope() scope {
	if !c.op.write || c.op.ignoresKeys {
		return scope{}
	}
	return scope{c.op.service, c.key}
}

// print tells apart two requests under one key.
func (c *call) print() string { return c.method + " " + c.uri + " " + c.sum }

// again is the call as the network delivers it a second time.
func (c *call) again() *call {
	d := *c
	d.fault, d.replayed, d.entries = Duplicate, false, nil
	return &d
}

func (c *call) entry(k Kind) Entry {
	return Entry{Kind: k, Service: c.op.service, Op: c.op.name, Method: c.method, Path: c.uri, Key: c.key,
		BodySHA256: c.sum, Fault: c.fault}
}

// fields is a JSON object with its values as they came in, so that a number stays the literal it
// was.
type fields map[string]json.RawMessage

// errBody is wrapped by what fields reads refuse.
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

// needs refuses a missing or null field.
func (f fields) needs(names ...string) error {
	for _, name := range names {
		if v, ok := f[name]; !ok || string(v) == "null" {
			return fmt.Errorf("%w: field %q is missing", errBody, name)
		}
	}
	return nil
}

// amount refuses a field that is no plain amount: a number, or a string that holds one, that is not
// negative.
func (f fields) amount(name string) error {
	var n json.Number
	if err := json.Unmarshal(f[name], &n); err != nil || n == "" || strings.HasPrefix(n.String(), "-") {
		return fmt.Errorf("%w: field %q must be an amount that is not negative, such as 19.10", errBody, name)
	}
	return nil
}
