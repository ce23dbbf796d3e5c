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

// Config is how a world starts. The zero Config is a good one.
type Config struct {
	Tokens    map[string]string // by service: the bearer token it asks for, else 401. None for an open service
	KeyWindow time.Duration     // how long an answered key is remembered; 0 for ever
	After     int64             // the first ledger entry is After+1, as when a ledger file is continued
	LedgerTo  io.Writer         // gets the ledger as NDJSON, see ReadLedger; nil for none. If it fails, services answer 503
	Now       func() time.Time  // nil for time.Now
}

// World is the services, their ledger and their faults. It is an http.Handler, safe for concurrent
// use.
type World struct {
	cfg  Config
	mux  *http.ServeMux
	open context.Context // until Close
	shut context.CancelFunc

	mu     sync.Mutex // of what follows
	past   *state
	closed bool
	active sync.WaitGroup // requests
}

// New gives a world in which nothing has happened.
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

// ServeHTTP serves one request. A dropped answer needs a ResponseWriter that can be hijacked; for
// another it panics with http.ErrAbortHandler, which a server answers by closing the connection.
func (w *World) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if !w.enter() {
		drop(rw, false)
		return
	}
	defer w.active.Done()
	if clean := path.Clean(r.URL.Path); clean != strings.TrimSuffix(r.URL.Path, "/") && clean != "/" {
		w.unknown(rw, r) // the mux would redirect it, past the ledger
		return
	}
	w.mux.ServeHTTP(rw, r)
}

// Close ends hanging, delayed and slow requests without an answer (the delayed ones without an
// effect), and waits for all requests to end. Those that come later are dropped, and not in the
// ledger.
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

// Reset forgets effects, keys, rules and tokens, and goes back to the Config; the ledger is empty
// and its numbers go on. A request under way is not in the new ledger, and has no effect that can
// be seen.
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

// AddFault adds a rule. Its error wraps ErrRule and says what makes no sense; the rule is not added
// then.
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

// Faults gives the rules in the order they were added, with their counts.
func (w *World) Faults() []FaultState { return w.state().faults() }

// ClearFaults heals the world: no rule is left. Requests that a rule has already met go on as it
// says.
func (w *World) ClearFaults() {
	s := w.state()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = nil
}

// SetToken makes the service ask for a bearer token; empty for none.
func (w *World) SetToken(service, token string) {
	s := w.state()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens == nil {
		s.tokens = make(map[string]string)
	}
	s.tokens[service] = token
}

// Ledger gives a copy of the ledger.
func (w *World) Ledger() Ledger {
	s := w.state()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.snapshot()
}

// Balance is that of the ledger.
func (w *World) Balance() Balances { return w.Ledger().Balance() }

// Await waits until holds is true of the ledger, and gives that ledger; or the context's error. It
// asks after each change.
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
