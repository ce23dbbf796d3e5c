package world

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Kind says what an Entry records.
type Kind string

// The kinds of entries.
const (
	Request Kind = "request" // something arrived; written before any effect
	Effect  Kind = "effect"  // something was done
	Undo    Kind = "undo"    // something done earlier was undone
)

// Dropped is the Status of a request that got no answer.
const Dropped = "dropped"

// Duplicate is the Fault of a request that the client sent once and a rule delivered again.
const Duplicate = "duplicate"

// Entry is one line of the ledger.
type Entry struct {
	N          int64     `json:"n"`                   // dense, from 1; a reset does not start it again
	At         time.Time `json:"at"`                  // by Config.Now
	Kind       Kind      `json:"kind"`                //
	Service    string    `json:"service"`             // air, hotels, pay, …; empty for a path of no service
	Op         string    `json:"op"`                  // book, cancel, charge, …; unknown for a path of no operation
	Method     string    `json:"method"`              //
	Path       string    `json:"path"`                // with the query
	Key        string    `json:"key,omitempty"`       // as sent, also where the service ignores it
	BodySHA256 string    `json:"body_sha256"`         // hex, of the body's exact bytes
	Request    int64     `json:"request,omitempty"`   // of an effect or undo: N of the request that caused it
	EffectID   string    `json:"effect_id,omitempty"` // of an effect or undo
	Undoes     string    `json:"undoes,omitempty"`    // of an undo: the EffectID of the effect
	Status     string    `json:"status,omitempty"`    // what was answered ("201"), also to a client that had gone; Dropped; empty while under way
	Replayed   bool      `json:"replayed,omitempty"`  // answered from a key's stored answer
	Fault      string    `json:"fault,omitempty"`     // what the rule that fired does, or Duplicate
}

// Ledger is a list of entries in order of N. Its methods select; len counts.
type Ledger []Entry

// Where gives the entries for which keep holds.
func (l Ledger) Where(keep func(Entry) bool) Ledger {
	var out Ledger
	for _, e := range l {
		if keep(e) {
			out = append(out, e)
		}
	}
	return out
}

// Requests gives what arrived.
func (l Ledger) Requests() Ledger { return l.kind(Request) }

// Effects gives what was done, undone since or not.
func (l Ledger) Effects() Ledger { return l.kind(Effect) }

// Undos gives what was undone.
func (l Ledger) Undos() Ledger { return l.kind(Undo) }

func (l Ledger) kind(k Kind) Ledger {
	return l.Where(func(e Entry) bool { return e.Kind == k })
}

// Key gives the entries under one idempotency key.
func (l Ledger) Key(key string) Ledger {
	return l.Where(func(e Entry) bool { return e.Key == key })
}

// Service gives the entries of one service.
func (l Ledger) Service(service string) Ledger {
	return l.Where(func(e Entry) bool { return e.Service == service })
}

// Op gives the entries of one operation of one service.
func (l Ledger) Op(service, op string) Ledger {
	return l.Where(func(e Entry) bool { return e.Service == service && e.Op == op })
}

// Live gives the effects that were not undone.
func (l Ledger) Live() Ledger {
	undone := make(map[string]bool)
	for _, e := range l.Undos() {
		undone[e.Undoes] = true
	}
	return l.Where(func(e Entry) bool { return e.Kind == Effect && !undone[e.EffectID] })
}

// EffectsByKey counts effects for each key that has any; those without a key are under "".
func (l Ledger) EffectsByKey() map[string]int {
	n := make(map[string]int)
	for _, e := range l.Effects() {
		n[e.Key]++
	}
	return n
}

// Balance is what one service did and undid; Net = Effects - Undone is what remains.
type Balance struct {
	Effects int `json:"effects"`
	Undone  int `json:"undone"`
	Net     int `json:"net"`
}

// Balances is a Balance for each service of the world, zeros included.
type Balances map[string]Balance

// Net is what remains over all services.
func (b Balances) Net() int {
	net := 0
	for _, one := range b {
		net += one.Net
	}
	return net
}

// Balance sums effects and undos up by service.
func (l Ledger) Balance() Balances {
	sums := make(Balances, len(serviceNames))
	for _, s := range serviceNames {
		sums[s] = Balance{}
	}
	for _, e := range l {
		b := sums[e.Service]
		switch e.Kind {
		case Effect:
			b.Effects++
			b.Net++
		case Undo:
			b.Undone++
			b.Net--
		default:
			continue
		}
		sums[e.Service] = b
	}
	return sums
}

// ErrLedgerLine is wrapped by ReadLedger's errors about lines that are no entries.
var ErrLedgerLine = errors.New("not a ledger entry: read a file that the world wrote, from its start")

// ReadLedger reads what Config.LedgerTo was written: NDJSON, an entry at arrival and the same n
// again when its answer is known. The later line of an n stands. A last line without an end, as a
// killed process leaves it, is left out.
func ReadLedger(r io.Reader) (Ledger, error) {
	var l Ledger
	at := make(map[int64]int)
	for in, line := bufio.NewReader(r), 1; ; line++ {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return l, nil
		}
		if err != nil {
			return nil, fmt.Errorf("ledger line %d: %w", line, err)
		}
		var e Entry
		if err := json.Unmarshal(text, &e); err != nil || e.N < 1 {
			return nil, fmt.Errorf("ledger line %d: %w", line, ErrLedgerLine)
		}
		if i, ok := at[e.N]; ok {
			l[i] = e
			continue
		}
		at[e.N] = len(l)
		l = append(l, e)
	}
}
