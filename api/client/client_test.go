package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"recourse/api/client"
)

// A request that cannot be made is not repeated until the context is done, as one is whose server
// is down.
func TestUnsendable(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for name, start := range map[string]func(ctx context.Context) error{
		"an input without JSON": func(ctx context.Context) error {
			_, err := client.New(server.URL, "").Start(ctx, client.Start{Definition: "d", Input: func() {}})
			return err
		},
		"an address without http": func(ctx context.Context) error {
			_, err := client.New("localhost:8080", "").Start(ctx, client.Start{Definition: "d"})
			return err
		},
		"another scheme than http": func(ctx context.Context) error {
			_, err := client.New("htps://localhost:8080", "").Start(ctx, client.Start{Definition: "d"})
			return err
		},
		"an API key of two lines": func(ctx context.Context) error {
			_, err := client.New(server.URL, "rk_1\nrk_2").Get(ctx, "0193")
			return err
		},
		"an idempotency key with a control character": func(ctx context.Context) error {
			_, err := client.New(server.URL, "").Start(ctx, client.Start{Definition: "d", Key: "a\x00b"})
			return err
		},
		"an address that is no URL": func(ctx context.Context) error {
			_, err := client.New("127.0.0.1:8080", "").Get(ctx, "0193")
			return err
		},
		"a journal at no URL": func(ctx context.Context) (err error) {
			for _, err = range client.New("127.0.0.1:8080", "").Watch(ctx, "0193", 0) {
			}
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if err := start(ctx); err == nil || ctx.Err() != nil {
			t.Errorf("%s: %v, after %v", name, err, ctx.Err())
		}
		cancel()
	}
}

// The client does not repeat a request that the server cannot carry out later either.
func TestUnusable(t *testing.T) {
	for code, status := range map[string]int{"definition_unusable": http.StatusServiceUnavailable, "journal_unreadable": http.StatusInternalServerError} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"type": "urn:recourse:problem:`+code+`", "title": "It cannot"}`)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := client.New(server.URL, "").Wait(ctx, "0193")
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != code || ctx.Err() != nil {
			t.Errorf("%s: %v, after %v", code, err, ctx.Err())
		}
		cancel()
		server.Close()
	}
}

// The line break at the end of a file is not part of an API key.
func TestKeyOfAFile(t *testing.T) {
	got := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		_, _ = io.WriteString(w, "{}")
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := client.New(server.URL, " rk_1\r\n").Get(ctx, "0193"); err != nil || got != "Bearer rk_1" {
		t.Errorf("%q, %v", got, err)
	}
}

// A redirect is an error. A client that follows it gives its key to another server, and reads the
// list of sagas where it wanted to start one.
func TestRedirect(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s with %q", r.Method, r.URL, r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, `{"data": []}`)
	}))
	defer other.Close()
	proxy := httptest.NewServer(http.RedirectHandler(other.URL+"/v1/sagas", http.StatusMovedPermanently))
	defer proxy.Close()
	_, err := client.New(proxy.URL, "rk_1").Start(t.Context(), client.Start{Definition: "d"})
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Status != http.StatusMovedPermanently || !strings.Contains(e.Detail, other.URL) {
		t.Errorf("Start: %v", err)
	}
}

// A request whose connection is dead is sent again, and a stream of events that says nothing is
// read again.
func TestConnectionsDie(t *testing.T) {
	const saga = `{"id": "0193", "status": "succeeded"}`
	for name, tt := range map[string]struct {
		first wire // the first request
		do    func(ctx context.Context, c *client.Client) error
		least time.Duration
		most  time.Duration
	}{
		"a request": {hangs, func(ctx context.Context, c *client.Client) error {
			_, err := c.Wait(ctx, "0193")
			return err
		}, 30 * time.Second, time.Minute}, // it waits for the end of the saga
		"a batch": {hangs, func(ctx context.Context, c *client.Client) error {
			return c.StartBatch(ctx, []client.Start{{Definition: "d"}})[0].Err
		}, time.Minute, 5 * time.Minute},
		"a journal": {hangs, watched, 30 * time.Second, 2 * time.Minute},
		"a journal that stops": {func(r *http.Request) (*http.Response, error) {
			body, w := io.Pipe()
			go func() {
				for range 10 { // events and comments come in time
					time.Sleep(15 * time.Second)
					_, _ = io.WriteString(w, ": alive\ndata: {\"seq\": 1}\n")
				}
				<-r.Context().Done()
				_ = w.CloseWithError(r.Context().Err())
			}()
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body}, nil
		}, watched, 21 * time.Minute, 30 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				c := played(func(r *http.Request) (*http.Response, error) {
					switch tries++; {
					case tries == 1:
						return tt.first(r)
					case strings.HasSuffix(r.URL.Path, "/journal"):
						return says(204, "")
					case strings.HasSuffix(r.URL.Path, ":batch"):
						return says(200, `{"status": 201, "id": "0193"}`+"\n")
					}
					return says(200, saga)
				})
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				err := tt.do(ctx, c)
				if took := time.Since(began); err != nil || tries != 2 || took < tt.least || took > tt.most {
					t.Errorf("%d requests in %v: %v", tries, took, err)
				}
			})
		})
	}
}

// watched reads the journal of a saga to its end. It is slow with each record.
func watched(ctx context.Context, c *client.Client) error {
	for _, err := range c.Watch(ctx, "0193", 0) {
		if err != nil {
			return err
		}
		time.Sleep(2 * time.Minute)
	}
	return nil
}

// A retry comes no sooner than the server asks for, and the pause ends with the context.
func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{"60": time.Minute, "3600": time.Hour, "99999999999": 24 * time.Hour, "-5": 0, "soon": 0,
		"Sat, 01 Jan 2000 00:01:00 GMT": time.Minute} { // a bubble's time begins at midnight
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			c := played(func(*http.Request) (*http.Response, error) {
				if tries++; tries == 2 {
					return says(200, `{"id": "0193"}`)
				}
				return says(503, "", "Retry-After", header)
			})
			began := time.Now()
			if _, err := c.Get(t.Context(), "0193"); err != nil || time.Since(began) < want || time.Since(began) > want+time.Second {
				t.Errorf("%s: after %v, want %v; %v", header, time.Since(began), want, err)
			}
			began = time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if _, err := c.Get(ctx, "0193"); want > 0 && (err == nil || time.Since(began) != 2*time.Second) {
				t.Errorf("%s: the context ends after 2s, and the pause after %v; %v", header, time.Since(began), err)
			}
		})
	}
}

// A retry does not come before the date that the server names, whatever part of a second is left.
func TestRetryAfterDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(time.Minute) // a bubble's time begins with a whole second
		time.Sleep(600 * time.Millisecond)
		tries := 0
		c := played(func(*http.Request) (*http.Response, error) {
			if tries++; tries == 2 {
				return says(200, `{"id": "0193"}`)
			}
			return says(503, "", "Retry-After", at.UTC().Format(http.TimeFormat))
		})
		if _, err := c.Get(t.Context(), "0193"); err != nil {
			t.Error(err)
		}
		if late := time.Since(at); late < 0 || late > time.Second {
			t.Errorf("the retry comes %v after the date, want up to a second", late)
		}
	})
}
