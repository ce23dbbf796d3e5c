package world

import (
	"context"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

// Config configures a world. The zero Config is usable.
type Config struct {
	Tokens    map[string]string // required bearer token by service, otherwise 401; none for an open service
	KeyWindow time.Duration     // how long a response is stored for its key; 0 for forever
	After     int64             // the first ledger entry is After+1; for continuing a ledger file
	// LedgerTo receives the ledger as NDJSON, see ReadLedger; nil: nobody. If it fails, services
	// return 503.
	LedgerTo io.Writer
	Now      func() time.Time // nil for time.Now
}

// World is the services, their ledger and their faults. It is an http.Handler, safe for concurrent
// use.
type World struct {
	cfg  Config
	mux  *http.ServeMux
	open context.Context // done after Close
	shut context.CancelFunc

	mu     sync.Mutex // guards the fields below
	past   *state
	closed bool
	active sync.WaitGroup // requests in flight
}

// New returns a world without any effects.
func New(cfg Config) *World {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	w := &World{cfg: cfg, mux: http.NewServeMux()}
	w.open, w.shut = context.WithCancel(context.Background())
	w.past = newState(cfg, cfg.LedgerTo, cfg.After)
	for _, o := range allOperations() {
		w.mux.Handle(o.pattern, w.service(o))
		if at, ok := o.hosted(); ok {
			w.mux.Handle(at, w.service(o))
		}
	}
	w.mux.HandleFunc("/", w.unknown)
	w.control()
	return w
}

// ServeHTTP serves one request. Dropping a response needs a ResponseWriter that can be hijacked;
// otherwise it panics with http.ErrAbortHandler, and the server closes the connection.
func (w *World) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if !w.enter() {
		drop(rw, false)
		return
	}
	defer w.active.Done()
	if clean := path.Clean(r.URL.Path); clean != strings.TrimSuffix(r.URL.Path, "/") && clean != "/" {
		w.unknown(rw, r) // the mux would redirect it without a ledger entry
		return
	}
	w.mux.ServeHTTP(rw, r)
}

// Close ends hanging, delayed and slow requests without a response (delayed ones without an
// effect), and waits for all requests to end. Later requests are dropped and not recorded.
func (w *World) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.shut()
	w.active.Wait()
}

func (w *World) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.active.Add(1)
	return true
}

func (w *World) state() *state {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.past
}

// Reset deletes effects, keys, rules and tokens, and returns to the Config; the ledger is empty and
// its numbers continue. A request in flight is not in the new ledger, and has no visible effect.
func (w *World) Reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.past
	old.mu.Lock()
	defer old.mu.Unlock()
	w.past = newState(w.cfg, old.book.out, old.book.last())
	w.past.book.err = old.book.err
	old.book.out = nil
	old.book.wake()
}

// AddFault adds a rule. If the rule is invalid, it is not added, and the error wraps ErrRule.
func (w *World) AddFault(r Rule) error {
	r, err := r.normal()
	if err != nil {
		return err
	}
	s := w.state()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, &FaultState{Rule: r})
	return nil
}

// Faults returns the rules in the order of their addition, with their counts.
func (w *World) Faults() []FaultState { return w.state().faults() }

// ClearFaults removes all rules. Requests that a rule has already handled continue with its fault.
func (w *World) ClearFaults() {
	s := w.state()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = nil
}

// SetToken makes the service require a bearer token; empty for none.
func (w *World) SetToken(service, token string) {
	s := w.state()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens == nil {
		s.tokens = make(map[string]string)
	}
	s.tokens[service] = token
}

// Ledger returns a copy of the ledger.
func (w *World) Ledger() Ledger {
	s := w.state()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.snapshot()
}

// Balance returns the balance of the ledger.
func (w *World) Balance() Balances { return w.Ledger().Balance() }

// Await waits until holds returns true for the ledger, and returns that ledger, or the context's
// error. It calls holds after each change.
func (w *World) Await(ctx context.Context, holds func(Ledger) bool) (Ledger, error) {
	for {
		s := w.state()
		s.mu.Lock()
		l, changed := s.book.snapshot(), s.book.changed
		s.mu.Unlock()
		if holds(l) {
			return l, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return l, context.Cause(ctx)
		}
	}
}
