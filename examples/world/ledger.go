package world

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Kind is the kind of an Entry.
type Kind string

// The kinds of entries.
const (
	Request Kind = "request" // a request arrived; written before any effect
	Effect  Kind = "effect"  // a request took effect
	Undo    Kind = "undo"    // an earlier effect was undone
)

// Dropped is the Status of a request without a response.
const Dropped = "dropped"

// Duplicate is the Fault of a request that the client sent once and a rule delivered again.
const Duplicate = "duplicate"

// Entry is one line of the ledger.
type Entry struct {
	N          int64     `json:"n"`                   // without gaps, from 1; a reset does not restart it
	At         time.Time `json:"at"`                  // time by Config.Now
	Kind       Kind      `json:"kind"`                //
	Service    string    `json:"service"`             // air, hotels, pay, …; empty for other paths
	Op         string    `json:"op"`                  // book, cancel, charge, …; unknown for other paths
	Method     string    `json:"method"`              //
	Path       string    `json:"path"`                // with the query
	Key        string    `json:"key,omitempty"`       // as sent, even if the service ignores it
	BodySHA256 string    `json:"body_sha256"`         // hex, of the body's exact bytes
	Request    int64     `json:"request,omitempty"`   // N of the request that caused an effect or undo
	EffectID   string    `json:"effect_id,omitempty"` // id of an effect or undo
	Undoes     string    `json:"undoes,omitempty"`    // EffectID of the undone effect
	// Status is the status of the response ("201"), even if the client had disconnected, or
	// Dropped. It is empty while the request is in flight.
	Status   string `json:"status,omitempty"`
	Replayed bool   `json:"replayed,omitempty"` // the response was a key's stored one
	Fault    string `json:"fault,omitempty"`    // the fault of the rule that fired, or Duplicate
}

// Ledger is a list of entries in order of N. Its methods select; len counts.
type Ledger []Entry

// Where returns the entries for which keep is true.
func (l Ledger) Where(keep func(Entry) bool) Ledger {
	var out Ledger
	for _, e := range l {
		if keep(e) {
			out = append(out, e)
		}
	}
	return out
}

// Requests returns the requests.
func (l Ledger) Requests() Ledger { return l.kind(Request) }

// Effects returns the effects, including undone ones.
func (l Ledger) Effects() Ledger { return l.kind(Effect) }

// Undos returns the undos.
func (l Ledger) Undos() Ledger { return l.kind(Undo) }

func (l Ledger) kind(k Kind) Ledger {
	return l.Where(func(e Entry) bool { return e.Kind == k })
}

// Key returns the entries of one idempotency key.
func (l Ledger) Key(key string) Ledger {
	return l.Where(func(e Entry) bool { return e.Key == key })
}

// Service returns the entries of one service.
func (l Ledger) Service(service string) Ledger {
	return l.Where(func(e Entry) bool { return e.Service == service })
}

// Op returns the entries of one operation of one service.
func (l Ledger) Op(service, op string) Ledger {
	return l.Where(func(e Entry) bool { return e.Service == service && e.Op == op })
}

// Live returns the effects that were not undone.
func (l Ledger) Live() Ledger {
	undone := make(map[string]bool)
	for _, e := range l.Undos() {
		undone[e.Undoes] = true
	}
	return l.Where(func(e Entry) bool { return e.Kind == Effect && !undone[e.EffectID] })
}

// EffectsByKey counts the effects of each key; those without a key are under "".
func (l Ledger) EffectsByKey() map[string]int {
	n := make(map[string]int)
	for _, e := range l.Effects() {
		n[e.Key]++
	}
	return n
}

// Balance counts what one service did and undid; Net = Effects - Undone is what remains.
type Balance struct {
	Effects int `json:"effects"`
	Undone  int `json:"undone"`
	Net     int `json:"net"`
}

// Balances is a Balance for each service of the world, zeros included.
type Balances map[string]Balance

// Net returns the number of remaining effects over all services.
func (b Balances) Net() int {
	net := 0
	for _, one := range b {
		net += one.Net
	}
	return net
}

// Balance sums effects and undos by service.
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

// ErrLedgerLine is wrapped by errors of ReadLedger about lines that are not entries.
var ErrLedgerLine = errors.New("not a ledger entry: read a file that the world wrote, from its start")

// ReadLedger reads the output of Config.LedgerTo: NDJSON with an entry at arrival, and the same n
// again after its response. The later line of an n counts. An incomplete last line, as a killed
// process leaves it, is ignored.
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
