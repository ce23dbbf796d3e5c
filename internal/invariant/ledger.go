package invariant

import (
	"time"

	"recourse/examples/world"
)

// Ledger is what the remote service recorded, and how complete that is.
type Ledger struct {
	Entries world.Ledger // in the order in which they happened, as N says
	// Complete says that every request in it belongs to the checked sagas. Otherwise, unrelated
	// requests are counted and ignored.
	Complete bool
	// RequestsOnly says that it records requests, but not their effects.
	RequestsOnly bool
	// Keyless names services that ignore keys. There, a second send is the choice of the
	// definition's author.
	Keyless map[string]bool
	// Covers reports whether requests to a URL are in the ledger. Nil: all are.
	Covers func(url string) bool
	// Skew is how much later the database's clock may be than the remote service's.
	Skew time.Duration
	// Until is when the ledger was written. Effects of sagas that continued later may be missing in
	// it. Zero: none is missing.
	Until time.Time
}

// OfWorld makes a complete Ledger from that of package world.
func OfWorld(entries world.Ledger) *Ledger {
	return &Ledger{Entries: entries, Complete: true, Keyless: map[string]bool{"mail": true}}
}

// ledger is a Ledger, indexed.
type ledger struct {
	*Ledger
	keyed  map[string]*underKey
	undone map[string]bool     // ids of effects
	by     map[string][]string // the keys of the requests that have undone an effect, by its id
}

// underKey has the entries of one key.
type underKey struct {
	requests, effects, undos []*world.Entry
}

var nothing = &underKey{}

func newLedger(from *Ledger) *ledger {
	l := &ledger{Ledger: from, keyed: make(map[string]*underKey), undone: make(map[string]bool), by: make(map[string][]string)}
	for i := range from.Entries {
		e := &from.Entries[i]
		k := l.keyed[e.Key]
		if k == nil {
			k = &underKey{}
			l.keyed[e.Key] = k
		}
		switch e.Kind {
		case world.Request:
			k.requests = append(k.requests, e)
		case world.Effect:
			k.effects = append(k.effects, e)
		case world.Undo:
			k.undos = append(k.undos, e)
			l.undone[e.Undoes] = true
			l.by[e.Undoes] = append(l.by[e.Undoes], e.Key)
		}
	}
	return l
}

// of returns the entries of a key.
func (l *ledger) of(key string) *underKey {
	if k := l.keyed[key]; k != nil {
		return k
	}
	return nothing
}

// made counts the effects of requests with these keys; if there are none, it counts undos, for
// steps whose purpose is to undo.
func (l *ledger) made(keys []string) int {
	n, other := 0, 0
	for _, key := range keys {
		k := l.of(key)
		n += len(k.effects)
		other += len(k.undos)
	}
	if n == 0 {
		return other
	}
	return n
}

// taken counts the effects of the keys that were undone.
func (l *ledger) taken(keys []string) int {
	n := 0
	for _, key := range keys {
		for _, e := range l.of(key).effects {
			if l.undone[e.EffectID] {
				n++
			}
		}
	}
	return n
}

// seen reports whether a request with one of the keys arrived.
func (l *ledger) seen(keys []string) bool {
	for _, key := range keys {
		if len(l.of(key).requests) > 0 {
			return true
		}
	}
	return false
}

// covers reports whether the ledger records the step's requests.
func (l *ledger) covers(list []sent) bool {
	return l.Covers == nil || len(list) > 0 && l.Covers(list[0].data.Request.URL)
}

// keyless reports whether these keys had effects only at services that ignore keys.
func (l *ledger) keyless(keys []string) bool {
	for _, key := range keys {
		for _, e := range l.of(key).effects {
			if !l.Keyless[e.Service] {
				return false
			}
		}
	}
	return true
}
