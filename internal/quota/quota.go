// Package quota bounds how many bytes several readers hold in memory together.
//
// A reader opens an [Account] of a [Pool] and reserves in it what it is about to hold. While the
// pool is used up, Reserve waits, first come, first served. Readers need not know beforehand how
// much they will read: they may wait while they hold something. That cannot end in a deadlock,
// because the first in the line may exceed the pool if nobody exceeds it at the time; it then never
// waits again until its account is closed. So the pool is exceeded by what one account holds at
// most.
package quota

import (
	"container/list"
	"context"
	"sync"
)

// Free is how many bytes an account has at no charge: what is small never waits.
const Free = 64 << 10

// Pool is a number of bytes that several accounts share.
type Pool struct {
	size int64

	mu      sync.Mutex
	used    int64
	excess  *Account  // may exceed the pool; nil: nobody does
	waiting list.List // of *waiter, the first come first
}

type waiter struct {
	account *Account
	more    int64
	ready   chan struct{} // closed when the account has it
}

// New returns a pool of so many bytes.
func New(size int64) *Pool { return &Pool{size: size} }

// Usage is what a pool is used for.
type Usage struct {
	Size    int64 // in bytes
	Used    int64 // in bytes
	Waiting int   // accounts that wait
}

// Usage returns how much is used now.
func (p *Pool) Usage() Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Usage{p.size, p.used, p.waiting.Len()}
}

// Open returns an account that holds nothing.
func (p *Pool) Open() *Account { return &Account{pool: p} }

// Account is what one reader holds. Its methods are for one goroutine at a time. Those of a nil
// account do nothing: what it holds is not counted.
type Account struct {
	pool   *Pool
	onWait []func(waits bool)
	held   int64 // guarded by the pool's mu
}

// OnWait has f called, besides those before it, whenever Reserve begins to wait, with true, and
// when the wait is over, with false.
func (a *Account) OnWait(f func(waits bool)) {
	if a != nil {
		a.onWait = append(a.onWait, f)
	}
}

// Held returns how many bytes the account holds at a charge.
func (a *Account) Held() int64 {
	if a == nil {
		return 0
	}
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	return a.held
}

// Reserve sees to it that the account holds at least so many bytes in all, and waits for them if
// need be. It returns ctx's error if that ends first; the account then holds what it held before.
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

// Shrink gives back what the account holds beyond so many bytes in all.
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

// Close gives back all that the account holds.
func (a *Account) Close() {
	if a == nil {
		return
	}
	p := a.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release(a, a.held)
}

// release takes bytes back from an account and admits the accounts that wait for them. An account
// that holds nothing gives up its right to exceed the pool, for nobody waits for it.
func (p *Pool) release(a *Account, bytes int64) {
	p.used -= bytes
	a.held -= bytes
	if a.held == 0 && p.excess == a {
		p.excess = nil
	}
	p.admit()
}

// admit lets in who can be let in. An account that exceeds the pool comes first: it is never kept
// waiting.
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

// forgo ends a wait. Memory that was granted at the same moment is given back.
func (p *Pool) forgo(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := p.waiting.Front(); e != nil; e = e.Next() {
		if e.Value == w {
			p.waiting.Remove(e)
			p.admit() // it may have kept others behind it
			return
		}
	}
	p.release(w.account, w.more)
}

type contextKey struct{}

// NewContext returns a context that carries the account that a call is to reserve its answer in.
func NewContext(ctx context.Context, a *Account) context.Context {
	return context.WithValue(ctx, contextKey{}, a)
}

// FromContext returns the account that a context carries; nil without one.
func FromContext(ctx context.Context) *Account {
	a, _ := ctx.Value(contextKey{}).(*Account)
	return a
}
