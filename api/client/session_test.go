package client_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"recourse/api/client"
)

// A heartbeat without a response, because its connection is dead, is followed by others. After a
// lease without a response the session may be lost, and the heartbeats go on.
func TestHeartbeatsWithoutResponses(t *testing.T) {
	answer := make(chan bool)
	var beats atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices when the client leaves
		switch {
		case strings.HasSuffix(r.URL.Path, "/detach"):
			return
		case strings.HasSuffix(r.URL.Path, "/heartbeat"):
			may := answer
			if beats.Add(1) == 1 {
				may = nil
			}
			select {
			case <-may:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, `{"life": 1, "lease_ms": 150, "stop": false}`)
	}))
	defer srv.Close()
	s, err := client.New(srv.URL, "").Attach(t.Context(), "0193a000-0000-7000-8000-000000000001")
	if err != nil {
		t.Fatal(err)
	}
	answer <- true // to the second one
	<-s.Over()
	answer <- true
	if err := s.Detach(t.Context()); err != nil {
		t.Error(err)
	}
}

// wire is a connection to a server that the test plays. Its time is that of the test's bubble.
type wire func(r *http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (w wire) RoundTrip(r *http.Request) (*http.Response, error) { return w(r) }

// played returns a client of such a server.
func played(w wire) *client.Client {
	c := client.New("http://127.0.0.1:8080", "")
	c.HTTP.Transport = w
	return c
}

// says is a response.
func says(status int, body string, header ...string) (*http.Response, error) {
	r := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r, nil
}

// hangs is a request without a response.
func hangs(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// Over is closed at the end of the lease, which begins with the request of the last heartbeat that
// had a response.
func TestOverAtTheEndOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		beats := 0
		c := played(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/heartbeat") {
				if beats++; beats > 1 {
					return hangs(r)
				}
				time.Sleep(5 * time.Second) // the response is slow
			}
			return says(200, `{"life": 1, "lease_ms": 30000, "stop": false}`)
		})
		began := time.Now()
		s, err := c.Attach(t.Context(), "0193a000-0000-7000-8000-000000000001")
		if err != nil {
			t.Fatal(err)
		}
		<-s.Over()
		if took := time.Since(began); took != 40*time.Second {
			t.Errorf("Over after %v, want 40s: the lease of 30s begins with the heartbeat after 10s", took)
		}
		_ = s.Detach(t.Context())
	})
}

// The context of a handler ends with the lease, and not with the heartbeat after that.
func TestHandlerEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claims, beats := 0, 0
		var began time.Time // of the lease
		c := played(func(r *http.Request) (*http.Response, error) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/claim"):
				switch claims++; claims {
				case 1:
					return says(503, "") // the claim is repeated, so a heartbeat comes before the work
				case 2:
					return says(200, `{"data": [{"id": "t", "lease": "l", "lease_ms": 30000, "lease_until": "2030-01-01T00:00:00Z", "deadline": "2030-01-01T01:00:00Z"}]}`)
				}
				return hangs(r)
			case beats > 0:
				return says(503, "")
			}
			beats, began = 1, time.Now()
			time.Sleep(9 * time.Second) // the response is slow
			return says(200, `{"cancel": false}`)
		})
		ctx, stop := context.WithCancel(t.Context())
		w := client.Worker{Client: c, Types: []string{"square"}, Log: slog.New(slog.DiscardHandler), Handle: func(ctx context.Context, _ client.Task) (any, error) {
			<-ctx.Done()
			if took := time.Since(began); took != 30*time.Second || !errors.Is(context.Cause(ctx), client.ErrLeaseLost) {
				t.Errorf("it ends after %v, want 30s: %v", took, context.Cause(ctx))
			}
			stop()
			return nil, nil
		}}
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	})
}

// The result of an own step is reported after the end of the context, but not without end.
func TestStepEndsAfterItsContext(t *testing.T) {
	for name, finish := range map[string]wire{
		"the server is away":  func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		"the server is stuck": hangs,
		"the server comes back": func(*http.Request) (*http.Response, error) {
			return says(200, `{"status": "succeeded", "output": 7}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := time.Now()
				c := played(func(r *http.Request) (*http.Response, error) {
					switch {
					case strings.HasSuffix(r.URL.Path, "/finish") && (name != "the server comes back" || time.Since(ended) > 5*time.Second):
						return finish(r)
					case strings.HasSuffix(r.URL.Path, "/finish"):
						return says(503, "")
					case strings.HasSuffix(r.URL.Path, "/steps"):
						return says(200, `{"decision": "go", "key": "k", "attempt": 1, "path": "own.a"}`)
					}
					return says(200, `{"life": 1, "lease_ms": 30000, "stop": false}`)
				})
				s, err := c.Attach(t.Context(), "0193a000-0000-7000-8000-000000000001")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = s.Detach(context.WithoutCancel(t.Context())) }()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				out, err := s.Step(ctx, client.Step{ID: "a"}, func(context.Context, client.Work) (any, error) {
					cancel()
					ended = time.Now()
					return 7, nil
				})
				took := time.Since(ended)
				if done := string(out) == "7" && err == nil; done != (name == "the server comes back") || !done && !errors.Is(err, context.Canceled) || took > 15*time.Second {
					t.Errorf("%s, %v after %v", out, err, took)
				}
			})
		})
	}
}
