// Package intake limits the resources that clients use before they are authenticated: the time in
// which a request's body must arrive, and the number of connections on which no API key was sent.
//
//	limits := intake.New(intake.Config{})
//	limits.Guard(server)            // an http.Server that has its handler
//	…
//	intake.Known(request.Context()) // as soon as the request is authenticated
package intake

import (
	"container/list"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Config has the limits. A zero field stands for the default given in its comment.
type Config struct {
	Read    time.Duration // 10s: time for a request's body, in addition to its length divided by Rate
	Rate    int64         // 64 KiB: bytes per second of a body
	Unknown int           // 1,000: connections older than Grace without an authenticated request
	Grace   time.Duration // 5s: time for clients that connect at the same time to authenticate
}

// burst times Config.Unknown is the limit of unknown connections of any age.
const burst = 10

// longest is the length that a body is assumed to have if its length is unknown or greater.
const longest = 16 << 20

// Intake has the limits of one server.
type Intake struct {
	cfg Config

	mu      sync.Mutex
	unknown *list.List // of *visitor, the oldest first
	visits  map[net.Conn]*visitor
}

// visitor is a connection. Until a request on it is authenticated, it is in its intake's list.
type visitor struct {
	in    *Intake
	conn  net.Conn
	known atomic.Bool
	came  time.Time
	place *list.Element // nil: not in the list. Guarded by the intake's mu
}

// New returns the limits for one server.
func New(cfg Config) *Intake {
	if cfg.Read <= 0 {
		cfg.Read = 10 * time.Second
	}
	if cfg.Rate <= 0 {
		cfg.Rate = 64 << 10
	}
	if cfg.Unknown <= 0 {
		cfg.Unknown = 1000
	}
	if cfg.Grace <= 0 {
		cfg.Grace = 5 * time.Second
	}
	return &Intake{cfg: cfg, unknown: list.New(), visits: make(map[net.Conn]*visitor)}
}

// Guard applies the limits to a server that has its handler and does not serve yet. It sets the
// server's ConnContext and ConnState.
func (in *Intake) Guard(s *http.Server) {
	s.Handler = in.Handler(s.Handler)
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, visitorKey{}, in.arrived(c))
	}
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateClosed || state == http.StateHijacked {
			in.left(c)
		}
	}
}

type visitorKey struct{}

// Known records that a request is authenticated, so its connection is no longer closed in favor of
// others. ctx is the request's context; Known does nothing if the request does not come from a
// guarded server.
func Known(ctx context.Context) {
	if v, ok := ctx.Value(visitorKey{}).(*visitor); ok && !v.known.Swap(true) {
		v.in.forget(v)
	}
}

// arrived adds a connection. If there are too many unknown ones, it closes the oldest: a client
// with a key sends it at once, so old unknown connections have delayed their request. The grace
// period is for a thousand clients that connect in the same instant.
func (in *Intake) arrived(c net.Conn) *visitor {
	v := &visitor{in: in, conn: c, came: time.Now()}
	in.mu.Lock()
	v.place = in.unknown.PushBack(v)
	in.visits[c] = v
	var late []*visitor
	for n := in.unknown.Len(); n > in.cfg.Unknown; n-- {
		oldest := in.unknown.Front().Value.(*visitor)
		if v.came.Sub(oldest.came) < in.cfg.Grace && n <= burst*in.cfg.Unknown {
			break
		}
		in.drop(oldest)
		late = append(late, oldest)
	}
	in.mu.Unlock()
	for _, v := range late {
		_ = v.conn.Close() // its request fails at its next read or write
	}
	return v
}

func (in *Intake) left(c net.Conn) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if v := in.visits[c]; v != nil {
		in.drop(v)
		delete(in.visits, c)
	}
}

func (in *Intake) forget(v *visitor) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.drop(v)
}

// drop removes a visitor from the list. The caller has mu.
func (in *Intake) drop(v *visitor) {
	if v.place != nil {
		in.unknown.Remove(v.place)
		v.place = nil
	}
}

// Handler limits the time in which the bodies of requests arrive, and reads no more of a body once
// its request has a response. It does not limit the time that next takes after the end of the body,
// for example for a long poll or a stream.
func (in *Intake) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		conn := http.NewResponseController(w)
		// The request does not come from a connection.
		if conn.SetReadDeadline(time.Now().Add(in.patience(r.ContentLength))) != nil {
			next.ServeHTTP(w, r)
			return
		}
		b := &body{ReadCloser: r.Body, conn: conn}
		r.Body = b
		defer func() {
			if !b.ended.Load() { // otherwise net/http would read the rest to reuse the connection
				_ = conn.SetReadDeadline(time.Now())
			}
		}()
		next.ServeHTTP(&answer{ResponseWriter: w, body: b}, r)
	})
}

// patience returns how long a body of this length may take to arrive; a negative length is unknown.
func (in *Intake) patience(length int64) time.Duration {
	if length < 0 || length > longest {
		length = longest
	}
	return in.cfg.Read + time.Duration(length)*time.Second/time.Duration(in.cfg.Rate)
}

// body is the body of a request. At its end it removes the connection's read deadline, because the
// following time is the handler's.
type body struct {
	io.ReadCloser
	conn  *http.ResponseController
	ended atomic.Bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && !b.ended.Swap(true) {
		_ = b.conn.SetReadDeadline(time.Time{})
	}
	return n, err
}

// answer closes the connection of a request that is answered before its whole body has arrived.
// Otherwise net/http would first read some of the body.
type answer struct {
	http.ResponseWriter
	body  *body
	begun bool
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if !a.begun && status >= http.StatusOK {
		a.begun = true
		if !a.body.ended.Load() {
			a.Header().Set("Connection", "close")
		}
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap is used by [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
