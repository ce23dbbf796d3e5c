package invariant

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	"recourse/examples/world"
	"recourse/saga"
)

// keyless are the world's services that take no notice of keys.
var keyless = map[string]bool{"mail": true}

// ledger is what the other side saw, sorted for look-ups.
type ledger struct {
	all     world.Ledger
	effects map[string]world.Ledger // by key
	undos   map[string]world.Ledger // by the key of the request that undid
	undoneB map[string]world.Entry  // the undo of an effect, by the effect's id
}

func newLedger(all world.Ledger) *ledger {
	l := &ledger{all: all, effects: make(map[string]world.Ledger), undos: make(map[string]world.Ledger), undoneB: make(map[string]world.Entry)}
	for _, e := range all {
		switch e.Kind {
		case world.Effect:
			l.effects[e.Key] = append(l.effects[e.Key], e)
		case world.Undo:
			l.undos[e.Key] = append(l.undos[e.Key], e)
			l.undoneB[e.Undoes] = e
		}
	}
	return l
}

// made counts what requests with these keys did: effects, or undos where undoing is what the step is for.
func (l *ledger) made(keys []string) int {
	n, other := 0, 0
	for _, k := range keys {
		n += len(l.effects[k])
		other += len(l.undos[k])
	}
	if n == 0 {
		return other
	}
	return n
}

// undone counts how many of the effects under the keys were undone.
func (l *ledger) undone(keys []string) int {
	n := 0
	for _, k := range keys {
		for _, e := range l.effects[k] {
			if _, ok := l.undoneB[e.EffectID]; ok {
				n++
			}
		}
	}
	return n
}

// seen reports whether a request with one of the keys arrived.
func (l *ledger) seen(keys []string) bool {
	for _, e := range l.all {
		if e.Kind != world.Request {
			continue
		}
		for _, k := range keys {
			if e.Key == k {
				return true
			}
		}
	}
	return false
}

// likeness is what a request and its intent have in common.
type likeness struct{ key, method, uri, sum string }

// likenessOf returns what the request will look like on the other side. Where it
// holds a secret, which the journal has as a reference, that part is "".
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

// sealed reports whether a text may hold a reference to a secret.
func sealed(s string) bool { return strings.Contains(s, "${") || strings.Contains(s, "%7B") }

// matches reports whether the entry is of a request that looks like p.
func (p likeness) matches(e world.Entry) bool {
	return (p.key == e.Key || e.Key == "") && p.method == e.Method && (p.uri == "" || p.uri == e.Path) && (p.sum == "" || p.sum == e.BodySHA256)
}

// effectful reports whether a method can leave an effect.
func effectful(method string) bool { return method != "GET" && method != "HEAD" }
