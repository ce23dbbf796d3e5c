package saga

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga/expr"
)

// Hash returns the SHA-256, in hex, of the verb, the object (see Target) and the payload, separated
// by newlines, as they are in the request: with secrets as references. For an HTTP request these
// are the method, the URL and the body.
func (r *Request) Hash() string {
	verb, object := r.Target()
	text := make([]byte, 0, 256)
	text = append(append(text, verb...), '\n')
	text = append(append(text, object...), '\n')
	sum := sha256.Sum256(append(text, r.Payload()...))
	return hex.EncodeToString(sum[:])
}

// place puts the key where the remote service expects it. A worker gets the key with its task; a
// field of the input may contain it, too.
func (r *Request) place(p idempotency.Placement, key string, plan bool) error {
	if r.Child != nil || r.Task != nil && p.In != idempotency.Body {
		return nil
	}
	escape := url.QueryEscape
	if plan {
		escape = func(text string) string { return expr.EncodeKnown(text, url.QueryEscape) }
	}
	switch p.In {
	case idempotency.Header:
		maps.DeleteFunc(r.Headers, func(name, _ string) bool { return strings.EqualFold(name, p.Name) })
		if r.Headers == nil {
			r.Headers = make(map[string]string, 1)
		}
		r.Headers[p.Name] = key
	case idempotency.Query:
		sep := "?"
		if strings.Contains(r.URL, "?") {
			sep = "&"
		}
		r.URL += sep + url.QueryEscape(p.Name) + "=" + escape(key)
	case idempotency.Body:
		payload := &r.Body
		if r.Task != nil {
			payload = &r.Task.Input
		}
		if plan && expr.HasPlaceholder(*payload) && (*payload)[0] == '"' {
			return nil // the whole body is unknown in this plan, so the field has no place yet
		}
		body, err := withField(*payload, p.Name, key)
		if err != nil {
			return err
		}
		*payload = body
	}
	return nil
}

// visible reports whether an author's key can be used everywhere: in a header, a URL, a body, and
// every store.
func visible(key string) bool {
	for _, c := range []byte(key) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return len(key) >= 1 && len(key) <= 255
}

// withField adds a field at the front of a JSON object, leaving the rest of its bytes unchanged.
func withField(body json.RawMessage, name, value string) (json.RawMessage, error) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		body = []byte("{}")
	}
	if body[0] != '{' {
		return nil, &Failure{Code: "bad_key", Title: "the idempotency key goes into the body, but the body is not an object"}
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	if _, taken := fields[name]; taken {
		return nil, &Failure{Code: "bad_key", Title: "the body has a field " + strconv.Quote(name) + " already, where the idempotency key goes"}
	}
	field, err := journal.Encode(map[string]string{name: value})
	if err != nil {
		return nil, err
	}
	if len(fields) == 0 {
		return field, nil
	}
	return append(append(field[:len(field)-1], ','), body[1:]...), nil
}

// decodeBody returns a body as a value.
func decodeBody(body json.RawMessage) (any, error) {
	if len(body) == 0 {
		return nil, nil
	}
	return expr.Decode(body)
}

func itoa(n int) string { return strconv.Itoa(n) }
