package invariant

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	"recourse/examples/world"
	"recourse/saga"
)

// likeness is what a request and its intent have in common.
type likeness struct{ key, method, uri, sum string }

// likenessOf returns what the remote service sees of a request. A part that contains a secret,
// which the journal has as a reference, is "".
func likenessOf(key string, r *saga.Request) likeness {
	p := likeness{key: key, method: r.Method}
	if u, err := url.Parse(r.URL); err == nil && !sealed(r.URL) {
		p.uri = u.RequestURI()
	}
	if !sealed(string(r.Body)) {
		sum := sha256.Sum256(r.Body)
		p.sum = hex.EncodeToString(sum[:])
	}
	return p
}

// sealed reports whether a text may contain a reference to a secret.
func sealed(s string) bool { return strings.Contains(s, "${") || strings.Contains(s, "%7B") }

// matches reports whether the entry may be the request of p. Fields that the ledger leaves out are
// not compared.
func (p *likeness) matches(e *world.Entry) bool {
	return (p.key == e.Key || e.Key == "") && (e.Method == "" || p.method == e.Method) && (p.uri == "" || e.Path == "" || p.uri == e.Path) &&
		(p.sum == "" || e.BodySHA256 == "" || p.sum == e.BodySHA256)
}

// effectful reports whether requests with a method can have an effect.
func effectful(method string) bool { return method != "GET" && method != "HEAD" }
