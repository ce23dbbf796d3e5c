package wire

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Point is the place in a Postgres connection at which a Fault strikes.
type Point int

// The points.
const (
	Commit    Point = iota // what makes a transaction durable: a COMMIT, or a statement that writes outside of one
	Statement              // any statement but BEGIN, COMMIT and ROLLBACK
	Connect                // a connection's beginning
)

// Effect is what a Fault does.
type Effect int

// The effects.
const (
	Close  Effect = iota // the connection is closed
	Hang                 // there is no further response until the client disconnects
	Late                 // like Hang, but the server gets the statement at Proxy.Deliver
	Refuse               // the server's answer is an error, with Fault.Code
)

// Fault is one thing that goes wrong. The zero Fault closes the connection at the next commit,
// before the server sees it.
type Fault struct {
	At    Point
	Match string // strikes only where this is in the SQL; "" is everywhere
	Skip  int    // so many pass first
	Times int    // then so many are struck; 0 is one, below 0 is all until Heal
	Do    Effect
	After bool   // the server executes it before the fault; otherwise it never sees it
	Code  string // of Refuse: the SQLSTATE
	Fatal bool   // of Refuse: severity FATAL, and the connection is closed
}

// Proxy forwards connections to a Postgres server. Its methods may be called at any time from any
// goroutine.
type Proxy struct {
	l      net.Listener
	target string
	wg     sync.WaitGroup

	mu       sync.Mutex
	fault    *Fault
	seen     int           // points that the fault could strike, since Arm
	struck   int           // those that it did strike
	held     int           // units that Late has held back and that are not through
	deliver  chan struct{} // closed by Deliver
	sessions map[*session]struct{}

	tried [Connect + 1]atomic.Int64 // by Point, since New
}

// New listens on a free loopback port for connections to the server that dsn, a URL, names. It
// returns the URL by way of the proxy. Close it.
func New(dsn string) (p *Proxy, through string, err error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		return nil, "", fmt.Errorf("wire: not a postgres:// URL with a host: %w", errors.Join(err, errors.ErrUnsupported))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", fmt.Errorf("wire: %w", err)
	}
	p = &Proxy{l: l, target: u.Host, deliver: make(chan struct{}), sessions: make(map[*session]struct{})}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	u.Host = l.Addr().String()
	return p, u.String(), nil
}

// Close cuts all connections and waits for their end.
func (p *Proxy) Close() error {
	err := p.l.Close()
	p.Heal()
	p.CutAll()
	p.wg.Wait()
	return err
}

// Arm has a fault strike from now on, in place of an earlier one.
func (p *Proxy) Arm(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.seen, p.struck = &f, 0, 0
	p.deliver = make(chan struct{})
}

// Heal removes the fault. Units that it has delayed stay delayed.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = nil
}

// Struck returns how often the fault has struck since Arm.
func (p *Proxy) Struck() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.struck
}

// Tried is how many of these there were so far: commits, reading transactions' included,
// statements, or connections.
func (p *Proxy) Tried(at Point) int { return int(p.tried[at].Load()) }

// Deliver lets go what Late has held back since Arm, and what it will hold until the next Arm.
func (p *Proxy) Deliver() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.deliver:
	default:
		close(p.deliver)
	}
}

// Held is how many units Late holds back, or has let go but not seen the end of.
func (p *Proxy) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

func (p *Proxy) hold(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held += n
}

// CutAll closes all connections.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.sessions {
		s.close()
	}
}

// strikes returns the fault if it is to strike here.
func (p *Proxy) strikes(at Point, sql string) *Fault {
	p.tried[at].Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.fault
	if f == nil || f.At != at || !strings.Contains(sql, f.Match) {
		return nil
	}
	p.seen++
	if p.seen <= f.Skip || f.Times >= 0 && p.struck >= max(f.Times, 1) {
		return nil
	}
	p.struck++
	return f
}

// missed takes a strike back, because there was nothing to strike.
func (p *Proxy) missed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.struck--
}

func (p *Proxy) released() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deliver
}

// serve brings a connection from its startup to its end.
func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	s := &session{p: p, client: client, server: server, back: pgproto3.NewBackend(client, client), front: pgproto3.NewFrontend(server, server),
		sql: map[string]string{}, portals: map[string]string{}, answered: make(chan struct{}, 1), gone: make(chan struct{})}
	p.mu.Lock()
	p.sessions[s] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.sessions, s)
	}()
	if ok := s.handshake(); !ok {
		return
	}
	var wg sync.WaitGroup
	wg.Go(s.answers)
	s.requests()
	s.server.Close()
	wg.Wait()
}
