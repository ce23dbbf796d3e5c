package measure

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A flood counts the responses that overload allows, and fails on all others.
func TestFlood(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		after  string // Retry-After
		body   string
		want   string // the error; "": none
	}{
		{"accepted", 201, "", `{"id":"x"}`, ""},
		{"busy", 429, "1", `{}`, ""},
		{"unavailable", 503, "1", `{}`, ""},
		{"busy, no hint", 429, "", `{}`, "without Retry-After"},
		{"unavailable, no hint", 503, "", `{}`, "without Retry-After"},
		{"no id", 201, "", `{}`, "response 201"},
		{"a fault", 500, "1", `{}`, "response 500"},
		{"another's", 200, "", `{"id":"x"}`, "response 200"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var seen atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				status, body := http.StatusCreated, `{"id":"x"}`
				if seen.Add(1)%2 == 0 {
					if status, body = tt.status, tt.body; tt.after != "" {
						w.Header().Set("Retry-After", tt.after)
					}
				}
				w.WriteHeader(status)
				_, _ = w.Write([]byte(body))
			}))
			defer s.Close()
			f, err := NewLoad(s.URL, 10).Flood(t.Context(), Succeeds, 200, 100*time.Millisecond)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v", err)
				}
				return
			}
			refused := 0
			if tt.status != http.StatusCreated {
				refused = 10
			}
			if err != nil || len(f.Accepted.All) != 20-refused || f.Refused[tt.status] != refused || len(f.Late.All) != 20 || f.Last.IsZero() {
				t.Errorf("got %+v, %v", f, err)
			}
		})
	}
}

// A server that does not respond fails it.
func TestFloodNeedsAnswers(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	if _, err := NewLoad(s.URL, 10).Flood(t.Context(), Succeeds, 100, 50*time.Millisecond); err == nil {
		t.Error("no error")
	}
}
