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
	dial func(context.Context, origin) (*conn, error)
	max  int
	idle time.Duration // how long an unused connection is kept

	mu      sync.Mutex
	origins map[origin]*originConns
	timer   *time.Timer // closes connections that have been idle for too long; nil: none is idle
}

// originConns is the pool's state for one origin. It is deleted when nothing uses it.
type originConns struct {
	origin
	slots chan struct{} // one slot for each connection that is lent
	users int           // calls that hold a slot or wait for one
	idle  []*conn       // the most recently used one is last
}

func newPool(limit int, idle time.Duration, dial func(context.Context, origin) (*conn, error)) *pool {
	return &pool{dial: dial, max: limit, idle: idle, origins: make(map[origin]*originConns)}
}

// acquire waits until a connection to o may be used, or until ctx ends. Call release afterwards.
func (p *pool) acquire(ctx context.Context, o origin) (*originConns, error) {
	p.mu.Lock()
	oc := p.origins[o]
	if oc == nil {
		oc = &originConns{origin: o, slots: make(chan struct{}, p.max)}
		p.origins[o] = oc
	}
	oc.users++
	p.mu.Unlock()
	select {
	case oc.slots <- struct{}{}:
		if ctx.Err() == nil {
			return oc, nil
		}
		<-oc.slots
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endUse(oc)
	return nil, ctx.Err()
}

// release returns the slot and, unless it is nil, a connection whose last answer was read
// completely.
func (p *pool) release(oc *originConns, c *conn) {
	p.mu.Lock()
	if c != nil {
		c.since = time.Now()
		oc.idle = append(oc.idle, c)
		if p.timer == nil {
			p.timer = time.AfterFunc(p.idle, p.sweep)
		}
	}
	p.endUse(oc)
	p.mu.Unlock()
	<-oc.slots
}

// endUse ends a call's use of oc, and deletes oc if it is no longer needed. p.mu must be held.
func (p *pool) endUse(oc *originConns) {
	oc.users--
	p.deleteUnused(oc)
}

// deleteUnused deletes the state of an origin that nothing uses. p.mu must be held.
func (p *pool) deleteUnused(oc *originConns) {
	if oc.users == 0 && len(oc.idle) == 0 {
		delete(p.origins, oc.origin)
	}
}

// takeIdle returns a kept connection that the server does not seem to have closed, or nil.
func (p *pool) takeIdle(oc *originConns) *conn {
	for {
		p.mu.Lock()
		n := len(oc.idle)
		if n == 0 {
			p.mu.Unlock()
			return nil
		}
		c := oc.idle[n-1]
		oc.idle[n-1], oc.idle = nil, oc.idle[:n-1]
		p.mu.Unlock()
		if time.Since(c.since) < p.idle && c.silent() {
			return c
		}
		c.Close()
	}
}

// sweep closes connections that have been idle for too long.
func (p *pool) sweep() {
	p.mu.Lock()
	old, stays := p.removeIdle(p.idle)
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
	old, _ := p.removeIdle(0)
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.mu.Unlock()
	closeAll(old)
}

// removeIdle removes connections that have been idle for so long, and reports whether others
// remain. p.mu must be held.
func (p *pool) removeIdle(idle time.Duration) (old []*conn, stays bool) {
	for _, oc := range p.origins { // any order
		n := 0 // the oldest are first
		for n < len(oc.idle) && time.Since(oc.idle[n].since) >= idle {
			n++
		}
		old = append(old, oc.idle[:n]...)
		oc.idle = slices.Delete(oc.idle, 0, n)
		stays = stays || len(oc.idle) > 0
		p.deleteUnused(oc)
	}
	return old, stays
}

// closeAll must be called without a lock: TLS sends an alert, which can take a while.
func closeAll(conns []*conn) {
	for _, c := range conns {
		c.Close()
	}
}
