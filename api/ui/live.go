package ui

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// atLeast is between two pictures of a page, however much happens.
const atLeast = 150 * time.Millisecond

// beat is between two signs of life on a quiet stream.
const beat = 15 * time.Second

// live serves GET /live?page=…: a page's <main> as server-sent events, again whenever it has
// changed.
func (s *server) live(w http.ResponseWriter, r *http.Request) {
	target, err := url.Parse(local(r.URL.Query().Get("page")))
	if err != nil || strings.HasPrefix(target.Path, "/live") {
		http.Error(w, "page is an address of this page", http.StatusBadRequest)
		return
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		http.Error(w, "too many pages are live on this node: reload to see what is new", http.StatusServiceUnavailable)
		return
	}
	flush := http.NewResponseController(w)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if s.cfg.Done != nil {
		go func() {
			select {
			case <-s.cfg.Done:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	var last [sha256.Size]byte
	told := time.Time{}
	for ctx.Err() == nil {
		page := s.look(ctx, r, target)
		if page.status != http.StatusOK {
			if told.IsZero() {
				w.WriteHeader(page.status) // the browser does not try again
			}
			return
		}
		if told.IsZero() {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("X-Accel-Buffering", "no") // of proxies that would keep events back
		}
		sum := sha256.Sum256(page.body.Bytes())
		switch { // the first picture, too: what the browser shows may be from before
		case sum != last:
			event(w, page.body.Bytes())
			last, told = sum, time.Now()
		case time.Since(told) >= beat:
			fmt.Fprint(w, ": alive\n\n")
			told = time.Now()
		}
		if flush.Flush() != nil || page.visit == nil || page.visit.still {
			return
		}
		s.rest(ctx, page.visit)
	}
}

// picture is a page's <main> as it is now. A request whose context has one is for it.
type picture struct {
	buffer
	visit *request
}

type pictureKey struct{}

// pictureOf returns the picture that a request is for; nil: for the whole page.
func pictureOf(r *http.Request) *picture {
	p, _ := r.Context().Value(pictureKey{}).(*picture)
	return p
}

// look renders a page's <main> for the reader of r.
func (s *server) look(ctx context.Context, r *http.Request, target *url.URL) *picture {
	p := &picture{buffer: buffer{header: http.Header{}, status: http.StatusOK}}
	again := r.Clone(context.WithValue(ctx, pictureKey{}, p))
	again.URL, again.RequestURI = target, target.RequestURI()
	_, pattern := s.pages.Handler(again)
	if pattern == "" || !strings.HasPrefix(pattern, http.MethodGet) {
		p.status = http.StatusNotFound
		return p
	}
	s.pages.ServeHTTP(p, again) // which reads the pattern's names, too
	return p
}

// rest waits until the page may have changed.
func (s *server) rest(ctx context.Context, v *request) {
	pause := s.cfg.Tick
	if v.wake != nil {
		v.wake(ctx)
		pause = atLeast
	}
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// event writes one event whose data is HTML.
func event(w http.ResponseWriter, data []byte) {
	for line := range bytes.Lines(data) {
		fmt.Fprintf(w, "data: %s\n", bytes.TrimRight(line, "\r\n"))
	}
	fmt.Fprint(w, "\n")
}
