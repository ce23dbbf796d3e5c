// Package quota bounds how many bytes several readers have in memory together.
//
// A reader opens an [Account] of a [Pool], and reserves the bytes that it is about to read. While
// the pool is used up, Reserve waits, in order of arrival. Readers need not know in advance how
// much they will read: they may wait while they have bytes reserved. This cannot cause a deadlock,
// because the first reader in the queue may exceed the pool if no other one exceeds it. It then
// does not wait again until its account is closed. So the pool is exceeded by at most what one
// account reserves.
package quota

import (
	"container/list"
	"context"
	"sync"
)

// Free is how many bytes an account has without charge: small responses never wait.
const Free = 64 << 10

// Pool is a number of bytes that several accounts share.
type Pool struct {
	size int64

	mu      sync.Mutex
	used    int64
	excess  *Account  // the account that may exceed the pool; nil: none
	waiting list.List // of *waiter, in order of arrival
}

type waiter struct {
	account *Account
	more    int64
	ready   chan struct{} // closed when the bytes are reserved
}

// New returns a pool of so many bytes.
func New(size int64) *Pool { return &Pool{size: size} }

// Usage is the current use of a pool.
type Usage struct {
	Size    int64 // in bytes
	Used    int64 // in bytes
	Waiting int   // accounts that wait
}

// Usage returns the current use of the pool.
func (p *Pool) Usage() Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Usage{p.size, p.used, p.waiting.Len()}
}

// Open returns an empty account.
func (p *Pool) Open() *Account { return &Account{pool: p} }

// Account is what one reader has reserved. Its methods are for one goroutine at a time. The methods
// of a nil account do nothing, so its bytes are not counted.
type Account struct {
	pool   *Pool
	onWait []func(waits bool)
	held   int64 // guarded by the pool's mu
}

// OnWait adds a function that is called with true when Reserve begins to wait, and with false when
// the wait is over.
func (a *Account) OnWait(f func(waits bool)) {
	if a != nil {
		a.onWait = append(a.onWait, f)
	}
}

// Held returns how many bytes the account has reserved, without free ones.
func (a *Account) Held() int64 {
	if a == nil {
		return 0
	}
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	return a.held
}

// Reserve raises the account to at least so many bytes in total, and waits for them if necessary.
// If ctx ends first, it returns ctx's error, and the account is unchanged.
func (a *Account) Reserve(ctx context.Context, total int64) error {
	if a == nil || total <= Free {
		return nil
	}
	p := a.pool
	p.mu.Lock()
	more := total - a.held
	if more <= 0 {
		p.mu.Unlock()
		return nil
	}
	w := &waiter{account: a, more: more, ready: make(chan struct{})}
	p.waiting.PushBack(w)
	p.admit()
	p.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	default:
	}
	for _, f := range a.onWait {
		f(true)
		defer f(false)
	}
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		p.forgo(w)
		return ctx.Err()
	}
}

// Shrink lowers the account to so many bytes in total.
func (a *Account) Shrink(total int64) {
	if a == nil {
		return
	}
	if total <= Free {
		total = 0
	}
	p := a.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if total < a.held {
		p.release(a, a.held-total)
	}
}

// Close returns all bytes of the account.
func (a *Account) Close() {
	if a == nil {
		return
	}
	p := a.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release(a, a.held)
}

// release takes bytes back from an account and admits accounts that wait for them. An empty account
// loses its right to exceed the pool, so that another one can get it.
func (p *Pool) release(a *Account, bytes int64) {
	p.used -= bytes
	a.held -= bytes
	if a.held == 0 && p.excess == a {
		p.excess = nil
	}
	p.admit()
}

// admit grants waiting reservations. The account that exceeds the pool comes first: it never waits.
func (p *Pool) admit() {
	for e := p.waiting.Front(); e != nil; {
		next := e.Next()
		if w := e.Value.(*waiter); w.account == p.excess {
			p.grant(e)
		}
		e = next
	}
	for e := p.waiting.Front(); e != nil; e = p.waiting.Front() {
		w := e.Value.(*waiter)
		if p.used+w.more > p.size {
			if p.excess != nil {
				return
			}
			p.excess = w.account
		}
		p.grant(e)
	}
}

func (p *Pool) grant(e *list.Element) {
	w := p.waiting.Remove(e).(*waiter)
	w.account.held += w.more
	p.used += w.more
	close(w.ready)
}

// forgo ends a wait. If the bytes were granted at the same moment, it returns them.
func (p *Pool) forgo(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := p.waiting.Front(); e != nil; e = e.Next() {
		if e.Value == w {
			p.waiting.Remove(e)
			p.admit() // others may have waited only for this one
			return
		}
	}
	p.release(w.account, w.more)
}

type contextKey struct{}

// NewContext returns a context with the account in which a call reserves the bytes of its response.
func NewContext(ctx context.Context, a *Account) context.Context {
	return context.WithValue(ctx, contextKey{}, a)
}

// FromContext returns the account of a context; nil: it has none.
func FromContext(ctx context.Context) *Account {
	a, _ := ctx.Value(contextKey{}).(*Account)
	return a
}
