package egress

import (
	"context"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

// origin identifies connections that can be reused for each other.
type origin struct{ scheme, addr string }

func originOf(u *url.URL) origin {
	name, err := httpguts.PunycodeHostPort(u.Hostname())
	if err != nil {
		name = u.Hostname() // the lookup then fails
	}
	return origin{u.Scheme, net.JoinHostPort(name, portOf(u))}
}

// portOf returns the port of a URL.
func portOf(u *url.URL) string {
	switch port := u.Port(); {
	case port != "":
		return port
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// pool lends connections: at most max at once to each origin, kept ones first.
type pool struct {
	dial func(context.Context, origin) (*wire, error)
	max  int
	idle time.Duration // how long an unused connection is kept

	mu    sync.Mutex
	lines map[origin]*line
	timer *time.Timer // closes connections that have been idle for too long; nil: none is idle
}

// line is the pool's state for one origin. It is deleted when nothing uses it.
type line struct {
	origin
	slots chan struct{} // one slot for each connection that is lent
	users int           // calls that hold a slot or wait for one
	idle  []*wire       // the most recently used one is last
}

func newPool(limit int, idle time.Duration, dial func(context.Context, origin) (*wire, error)) *pool {
	return &pool{dial: dial, max: limit, idle: idle, lines: make(map[origin]*line)}
}

// enter waits until a connection to o may be used, or until ctx ends. Call leave afterwards.
func (p *pool) enter(ctx context.Context, o origin) (*line, error) {
	p.mu.Lock()
	l := p.lines[o]
	if l == nil {
		l = &line{origin: o, slots: make(chan struct{}, p.max)}
		p.lines[o] = l
	}
	l.users++
	p.mu.Unlock()
	select {
	case l.slots <- struct{}{}:
		if ctx.Err() == nil {
			return l, nil
		}
		<-l.slots
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unuse(l)
	return nil, ctx.Err()
}

// leave returns the slot and, unless it is nil, a connection whose last answer was read completely.
func (p *pool) leave(l *line, w *wire) {
	p.mu.Lock()
	if w != nil {
		w.since = time.Now()
		l.idle = append(l.idle, w)
		if p.timer == nil {
			p.timer = time.AfterFunc(p.idle, p.sweep)
		}
	}
	p.unuse(l)
	p.mu.Unlock()
	<-l.slots
}

// unuse ends a call's use of l, and deletes l if it is no longer needed. p.mu must be held.
func (p *pool) unuse(l *line) {
	l.users--
	p.forget(l)
}

// forget deletes a line that nothing uses. p.mu must be held.
func (p *pool) forget(l *line) {
	if l.users == 0 && len(l.idle) == 0 {
		delete(p.lines, l.origin)
	}
}

// kept returns a kept connection that the server does not seem to have closed, or nil.
func (p *pool) kept(l *line) *wire {
	for {
		p.mu.Lock()
		n := len(l.idle)
		if n == 0 {
			p.mu.Unlock()
			return nil
		}
		w := l.idle[n-1]
		l.idle[n-1], l.idle = nil, l.idle[:n-1]
		p.mu.Unlock()
		if time.Since(w.since) < p.idle && w.quiet() {
			return w
		}
		w.Close()
	}
}

// sweep closes connections that have been idle for too long.
func (p *pool) sweep() {
	p.mu.Lock()
	old, stays := p.takeIdle(p.idle)
	if p.timer != nil && stays {
		p.timer.Reset(p.idle / 2)
	} else {
		p.timer = nil
	}
	p.mu.Unlock()
	closeAll(old)
}

// Close closes the idle connections. Connections that are lent stay open.
func (p *pool) Close() {
	p.mu.Lock()
	old, _ := p.takeIdle(0)
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.mu.Unlock()
	closeAll(old)
}

// takeIdle removes connections that have been idle for so long, and reports whether others remain.
// p.mu must be held.
func (p *pool) takeIdle(idle time.Duration) (old []*wire, stays bool) {
	for _, l := range p.lines { // any order
		n := 0 // the oldest are first
		for n < len(l.idle) && time.Since(l.idle[n].since) >= idle {
			n++
		}
		old = append(old, l.idle[:n]...)
		l.idle = slices.Delete(l.idle, 0, n)
		stays = stays || len(l.idle) > 0
		p.forget(l)
	}
	return old, stays
}

// closeAll must be called without a lock: TLS sends an alert, which can take a while.
func closeAll(wires []*wire) {
	for _, w := range wires {
		w.Close()
	}
}
