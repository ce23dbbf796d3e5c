// Package ui is the web page: HTML rendered by the server, live over server-sent events, with one
// small script that it works without.
//
// It is a client of the REST interface, in the same process. A page asks what a program would ask,
// with the reader's own key, so that it can do nothing that the API would not allow, and every
// order that is given here is checked, journaled and attributed like any other.
//
// A page is a function of a visit in the one list of pages (pages.go), and a template in
// templates/. The content of a page is in <main>, which the live stream sends again whenever it has
// changed.
package ui

import (
	"context"
	"embed"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"recourse/saga"
)

// Config is what the page is made of. API and Definitions are required.
type Config struct {
	API http.Handler // the REST interface
	// Definitions finds compiled definitions; it is asked only for what the API has let the reader
	// see.
	Definitions interface {
		Definition(ctx context.Context, name string, version int) (*saga.Definition, error)
	}
	TraceURL string          // where a saga's trace is to be seen, with {trace_id}; "": nowhere
	Version  string          // of the program
	Log      *slog.Logger    // nil: discard
	Done     <-chan struct{} // closed when the server stops: streams end. nil: never
	Now      func() time.Time
	Tick     time.Duration // 2s: between looks for what has changed on pages of many sagas
	Streams  int           // 200: live pages at once; more are as they were when they were loaded
}

// server serves the pages.
type server struct {
	cfg     Config
	mux     *http.ServeMux
	pages   *http.ServeMux // those with a template, for the live stream
	shelf   journalCache
	streams chan struct{} // a token for each live page
}

//go:embed static
var static embed.FS

// New returns the page in front of the API: requests for pages are answered here, all others go on
// to it.
func New(cfg Config) http.Handler {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Tick <= 0 {
		cfg.Tick = 2 * time.Second
	}
	if cfg.Streams <= 0 {
		cfg.Streams = 200
	}
	s := &server{cfg: cfg, mux: http.NewServeMux(), pages: http.NewServeMux(), streams: make(chan struct{}, cfg.Streams)}
	for _, p := range pages {
		s.pages.Handle(p.pattern, s.serve(p.show))
	}
	guarded := http.NewCrossOriginProtection().Handler(s.pages)
	s.mux.Handle("/", s.elsewhere())
	for _, p := range pages {
		h := guarded
		if p.pattern == home {
			h = s.root(h)
		}
		s.mux.Handle(p.pattern, h)
	}
	s.mux.HandleFunc("GET /live", s.live)
	s.mux.Handle("GET /static/", headers(http.FileServerFS(static)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/") { // as it was sent: a mux would tidy its path
			cfg.API.ServeHTTP(w, r)
			return
		}
		s.mux.ServeHTTP(w, r)
	})
}

// root is the page for browsers, and the API's index for programs.
func (s *server) root(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			page.ServeHTTP(w, r)
			return
		}
		s.cfg.API.ServeHTTP(w, r)
	})
}

// elsewhere is the API, but for a browser that is at an address where nothing is: it gets a page
// that leads back.
func (s *server) elsewhere() http.Handler {
	sorry := s.serve(func(*request) error {
		return &problem{Status: http.StatusNotFound, Title: "Page not found", Detail: "check the address, or choose one of the pages above"}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !strings.Contains(r.Header.Get("Accept"), "text/html") {
			s.cfg.API.ServeHTTP(w, r)
			return
		}
		m := &missing{ResponseWriter: w}
		s.cfg.API.ServeHTTP(m, r)
		if m.is {
			w.Header().Del("Content-Length")
			sorry.ServeHTTP(w, r)
		}
	})
}

// missing withholds an answer that says that there is no such thing.
type missing struct {
	http.ResponseWriter
	is bool
}

func (m *missing) WriteHeader(status int) {
	if m.is = status == http.StatusNotFound; !m.is {
		m.ResponseWriter.WriteHeader(status)
	}
}

func (m *missing) Write(b []byte) (int, error) {
	if m.is {
		return len(b), nil
	}
	return m.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (m *missing) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// policy lets the page load only what this server serves, and nobody frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// headers are those of every answer of the page.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin") // links out tell nobody which saga was read
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if strings.HasPrefix(r.URL.Path, "/static/") {
			h.Set("Cache-Control", "no-cache") // small, and a new version of the program may come at any time
		}
		next.ServeHTTP(w, r)
	})
}
