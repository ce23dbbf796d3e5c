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

	"recourse/api/rest"
)

// atLeast is the minimum time between two renderings of a page.
const atLeast = 150 * time.Millisecond

// beat is the interval between heartbeats on an idle stream.
const beat = 15 * time.Second

// pause is the time after which a browser asks again for a stream that is not possible now.
const pause = 10 * time.Second

// live serves GET /live?page=…: a page's <main> as server-sent events, whenever it has changed.
func (s *server) live(w http.ResponseWriter, r *http.Request) {
	target, err := url.Parse(local(r.URL.Query().Get("page")))
	if err != nil || strings.HasPrefix(target.Path, "/live") {
		http.Error(w, "page must be a path of the web UI", http.StatusBadRequest)
		return
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		later(w)
		return
	}
	key, err := newKey()
	if err != nil {
		s.cfg.Log.Error("no stream", "error", err)
		later(w)
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
	sent := time.Time{}
	for ctx.Err() == nil {
		page := s.renderMain(ctx, r, target, key)
		if page.Status != http.StatusOK {
			switch {
			case !sent.IsZero(): // the browser connects again, and gets what is right then
			case page.Status >= 500 || page.Status == http.StatusTooManyRequests:
				later(w)
			default:
				w.WriteHeader(page.Status) // stops the browser from reconnecting
			}
			return
		}
		if sent.IsZero() {
			streams(w)
		}
		sum := sha256.Sum256(page.Body.Bytes())
		switch { // sent the first time, too: the browser may show an older state
		case sum != last:
			event(w, page.Body.Bytes())
			last, sent = sum, time.Now()
		case time.Since(sent) >= beat:
			fmt.Fprint(w, ": alive\n\n")
			sent = time.Now()
		}
		if flush.Flush() != nil || page.request == nil || page.request.still {
			return
		}
		s.waitForChange(ctx, page.request)
	}
}

// streams sets the headers of a stream of events.
func streams(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // keeps proxies from buffering events
}

// later answers with a stream that has ended, after which the browser waits, and connects again.
// After any status but 200 an EventSource is closed for good.
func later(w http.ResponseWriter) {
	streams(w)
	fmt.Fprintf(w, "retry: %d\n\n", pause.Milliseconds())
}

// picture is a page's present <main>. A request with one in its context renders only that.
type picture struct {
	rest.Recorder
	request *request
	key     string // of its forms: the same during a stream, which would send the page again otherwise
}

type pictureKey struct{}

// pictureOf returns the picture that a request renders; nil for a whole page.
func pictureOf(r *http.Request) *picture {
	p, _ := r.Context().Value(pictureKey{}).(*picture)
	return p
}

// formKey returns the Idempotency-Key of a page's forms.
func (v *request) formKey() (string, error) {
	if p := pictureOf(v.r); p != nil {
		return p.key, nil
	}
	return newKey()
}

// renderMain renders a page's <main> for the user of r. key is for its forms.
func (s *server) renderMain(ctx context.Context, r *http.Request, target *url.URL, key string) *picture {
	p := &picture{Recorder: rest.NewRecorder(), key: key}
	again := r.Clone(context.WithValue(ctx, pictureKey{}, p))
	again.URL, again.RequestURI = target, target.RequestURI()
	_, pattern := s.pages.Handler(again)
	if pattern == "" || !strings.HasPrefix(pattern, http.MethodGet) {
		p.Status = http.StatusNotFound
		return p
	}
	s.pages.ServeHTTP(p, again) // the mux also sets the path values
	return p
}

// waitForChange waits until the page may have changed.
func (s *server) waitForChange(ctx context.Context, v *request) {
	wait := s.cfg.Tick
	if v.wake != nil {
		v.wake(ctx)
		wait = atLeast
	}
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
}

// event writes an event with HTML as its data. A carriage return, which texts of remote services
// may have, ends a line of an event, too, and two of them would end the event; in HTML it is a line
// break.
func event(w http.ResponseWriter, data []byte) {
	data = bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	for line := range bytes.Lines(data) {
		fmt.Fprintf(w, "data: %s\n", bytes.TrimRight(line, "\n"))
	}
	fmt.Fprint(w, "\n")
}
