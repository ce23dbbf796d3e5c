// Package intake bounds what requests take of a server before it knows who makes them: the time in
// which a body has to come, and the connections that nobody has shown an API key on.
//
//	limits := intake.New(intake.Config{})
//	limits.Guard(server)            // an http.Server that has its handler
//	…
//	intake.Known(request.Context()) // as soon as it is known who makes a request
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

// Config has the bounds. Zero fields take the defaults beside them.
type Config struct {
	Read    time.Duration // 10s: for a request's body, besides what its length takes at Rate
	Rate    int64         // 64 KiB: bytes of a body in each second more
	Unknown int           // 1,000: connections older than Grace on which nobody is recognized yet
	Grace   time.Duration // 5s: what clients that arrive all at once have to be recognized
}

// burst times Config.Unknown is the number of unknown connections of any age.
const burst = 10

// longest is the body that a request of unknown length, or of a longer one, gets time for.
const longest = 16 << 20

// Intake is the bounds of one server.
type Intake struct {
	cfg Config

	mu      sync.Mutex
	unknown *list.List // of *visitor, the oldest first
	visits  map[net.Conn]*visitor
}

// visitor is a connection. One of which nobody is known is in its intake's list.
type visitor struct {
	in    *Intake
	conn  net.Conn
	known atomic.Bool
	came  time.Time
	place *list.Element // nil: it is not in the list; under the intake's mu
}

// New makes the bounds of one server.
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

// Guard holds a server, which has its handler and does not serve yet, to the bounds. It sets the
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

// Known says that it is known who makes a request: its connection is not closed for the sake of
// others any more. ctx is the request's; one that does not come from a guarded server is no matter.
func Known(ctx context.Context) {
	if v, ok := ctx.Value(visitorKey{}).(*visitor); ok && !v.known.Swap(true) {
		v.in.forget(v)
	}
}

// arrived takes a connection in. Of too many unknown ones the oldest are closed: a client that has
// a key shows it at once, so they have delayed their request. A thousand clients that connect in
// the same instant have not, which is what the grace is for.
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
		_ = v.conn.Close() // its request fails where it reads or writes next
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

// drop takes a visitor off the list, with mu held.
func (in *Intake) drop(v *visitor) {
	if v.place != nil {
		in.unknown.Remove(v.place)
		v.place = nil
	}
}

// Handler bounds the time in which the bodies of requests come, and reads no more of one when it
// has been answered. The time that next takes after the end of a body, as for a long poll or a
// stream, has no bound here.
func (in *Intake) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		conn := http.NewResponseController(w)
		if conn.SetReadDeadline(time.Now().Add(in.patience(r.ContentLength))) != nil { // not from a connection
			next.ServeHTTP(w, r)
			return
		}
		b := &body{ReadCloser: r.Body, conn: conn}
		r.Body = b
		defer func() {
			if !b.ended.Load() { // net/http would read on, to use the connection again
				_ = conn.SetReadDeadline(time.Now())
			}
		}()
		next.ServeHTTP(&answer{ResponseWriter: w, body: b}, r)
	})
}

// patience is how long a body of so many bytes may take to come; negative: nobody knows how many.
func (in *Intake) patience(length int64) time.Duration {
	if length < 0 || length > longest {
		length = longest
	}
	return in.cfg.Read + time.Duration(length)*time.Second/time.Duration(in.cfg.Rate)
}

// body is a request's body. At its end the connection's deadline is lifted: what comes then is the
// handler's time.
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

// answer ends the connection of a request that is answered before its body has come: else net/http
// reads some of that first.
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

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
