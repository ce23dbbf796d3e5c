// Package ui is the web UI: HTML that the server renders, updated live over server-sent events. A
// small script adds to it; every page works without the script.
//
// The UI is a client of the REST interface in the same process. A page sends the requests that a
// program would send, with the user's own API key. So it can do only what the API allows, and every
// command is validated, journaled and attributed like any other.
//
// A page is a function of a request in the list of pages (pages.go) and a template in templates/.
// The content of a page is in <main>, which the live stream sends again whenever it has changed.
//
// The forms of inbox entries are in forms.go and templates/forms.html: approve, reject, resolve.
// bulk.go and bulk_run.go decide several entries at once. The commands of a saga's page, such as
// cancel and pause, are in actions.go and templates/saga.html.
//
// Package rest sends the requests. The other packages below need no request and no clock: each
// turns data into what a template shows.
//
//   - timeline draws a journal, graph lays out a definition, costs draws sums.
//   - activity folds the journal of a session, transcript reads requests to models and answers.
//   - facts describes a definition in words.
//   - controls makes the fields of a form from a JSON Schema, and a document from the form.
//   - outline reads how a definition is written, and diff compares texts.
//   - format writes statuses, durations, amounts and JSON.
package ui

import (
	"context"
	"embed"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"recourse/api/rest"
	"recourse/saga"
)

// Config configures the UI. API and Definitions are required.
type Config struct {
	API http.Handler // the REST interface
	// Definitions returns compiled definitions. The UI asks only for those that the API has let the
	// user read.
	Definitions interface {
		Definition(ctx context.Context, name string, version int) (*saga.Definition, error)
		Of(ctx context.Context, d *saga.StartedData) (*saga.Definition, error)
	}
	TraceURL string          // URL of a saga's trace, with {trace_id}; "" for no link
	Version  string          // the program's version
	Log      *slog.Logger    // nil: discard
	Done     <-chan struct{} // closed when the server stops, which ends streams; nil: never
	Now      func() time.Time
	Tick     time.Duration // 2s: update interval of pages about many sagas
	Streams  int           // 200: maximum of live pages; further ones wait for one to be closed
	SignIn   time.Duration // 10s: the time in which a sign-in form must arrive
}

// server serves the pages.
type server struct {
	cfg      Config
	mux      *http.ServeMux
	pages    *http.ServeMux // the pages, for the live stream
	journals journalCache
	streams  chan struct{} // a token for each live page
}

//go:embed static
var static embed.FS

// New returns a handler that serves the pages and passes all other requests to the API.
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
	if cfg.SignIn <= 0 {
		cfg.SignIn = 10 * time.Second
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
		if strings.HasPrefix(r.URL.Path, "/v1/") { // unchanged: a mux would clean the path
			cfg.API.ServeHTTP(w, r)
			return
		}
		s.mux.ServeHTTP(w, r)
	})
}

// root serves the home page to browsers, and the API's index to programs.
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

// elsewhere passes requests to the API. If the API responds to a browser with 404, the browser gets
// a page with the navigation instead.
func (s *server) elsewhere() http.Handler {
	sorry := s.serve(func(*request) error {
		return &rest.Problem{Status: http.StatusNotFound, Title: "Page not found", Detail: "check the address, or choose one of the pages above"}
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

// missing suppresses a response with status 404.
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

// Unwrap serves [http.ResponseController].
func (m *missing) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// policy allows pages to load only resources of this server, and no page to frame them.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// headers sets the headers of every response of the UI.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin") // external links do not reveal which saga was read
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if strings.HasPrefix(r.URL.Path, "/static/") {
			h.Set("Cache-Control", "no-cache") // the program may be updated at any time, and the files are small
		}
		next.ServeHTTP(w, r)
	})
}
