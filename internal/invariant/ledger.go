package invariant

import (
	"time"

	"recourse/examples/world"
)

// Ledger is what the other side saw, and how far that goes.
type Ledger struct {
	Entries world.Ledger // in the order in which they happened, which N repeats
	// Complete says that every request in it is of the sagas that are checked. Without it,
	// requests that have nothing to do with them are counted and let be.
	Complete bool
	// RequestsOnly says that it does not tell what took effect.
	RequestsOnly bool
	// Keyless names services that take no notice of keys: there, sending again was the author's
	// choice.
	Keyless map[string]bool
	// Covers reports whether requests to a URL are in the ledger. Nil: all are.
	Covers func(url string) bool
	// Skew is how far the other side's clock may be behind the database's.
	Skew time.Duration
	// Until is when the ledger was written: what sagas did that went on later may be missing in it.
	// Zero: nothing is.
	Until time.Time
}

// OfWorld makes a Ledger of all that a world saw.
func OfWorld(entries world.Ledger) *Ledger {
	return &Ledger{Entries: entries, Complete: true, Keyless: map[string]bool{"mail": true}}
}

// ledger is a Ledger, sorted for look-ups.
type ledger struct {
	*Ledger
	keyed  map[string]*underKey
	undone map[string]bool // ids of effects
}

// underKey is what happened under one key.
type underKey struct {
	requests, effects, undos []*world.Entry
}

var nothing = &underKey{}

func newLedger(from *Ledger) *ledger {
	l := &ledger{Ledger: from, keyed: make(map[string]*underKey), undone: make(map[string]bool)}
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
		}
	}
	return l
}

// of returns what happened under a key.
func (l *ledger) of(key string) *underKey {
	if k := l.keyed[key]; k != nil {
		return k
	}
	return nothing
}

// made counts what requests with these keys did: effects, or undos where undoing is what the step
// is for.
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

// taken counts how many of the effects under the keys were undone.
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

// covers reports whether the ledger would show the step's requests.
func (l *ledger) covers(list []sent) bool {
	return l.Covers == nil || len(list) > 0 && l.Covers(list[0].data.Request.URL)
}

// keyless reports whether the service that these keys had effects at takes no notice of keys.
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
