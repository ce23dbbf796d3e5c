package egress

import (
	"context"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// caller sends as the users of a Sender do.
type caller struct{ *Sender }

// newCaller returns a caller that may reach loopback addresses. At the end of the test it checks
// that no goroutine is left. Servers that a test starts after it close first.
func newCaller(t *testing.T, cfg Config) caller {
	t.Helper()
	if cfg.Guard == nil {
		cfg.Guard = mustGuard(t, "127.0.0.0/8", "::1")
	}
	before := goleak.IgnoreCurrent()
	c := caller{New(cfg)}
	t.Cleanup(func() {
		c.Close()
		goleak.VerifyNone(t, before)
	})
	return c
}

func mustGuard(t *testing.T, allow ...string) *Guard {
	t.Helper()
	g, err := NewGuard(allow)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// call is a request of a test.
type call struct {
	Method, URL, Body string
	Header            http.Header
}

func get(url string) call { return call{Method: "GET", URL: url} }

func post(url, body string) call {
	return call{"POST", url, body, http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"k"}}}
}

// outcome is what a caller learns.
type outcome struct {
	Sent   bool
	Status int
	Code   string
	Body   string
	why    string
}

func (o outcome) ok() bool { return o.Status == 200 && o.Code == "" }

// is reports whether o is want, apart from the description of a failure.
func (o outcome) is(want outcome) bool {
	o.why, want.why = "", ""
	return o == want
}

func failed(f *Failure) outcome { return outcome{Sent: f.Sent, Code: f.Code, why: f.Why} }

// Call sends a request and reads the response's body.
func (c caller) Call(ctx context.Context, r call) outcome {
	u, f := ParseURL(r.URL)
	if f != nil {
		return failed(f)
	}
	resp, f := c.Send(ctx, Request{r.Method, u, r.Header, []byte(r.Body)})
	if f != nil {
		return failed(f)
	}
	defer resp.Body.Close()
	body, f := ReadBody(ctx, resp, 4<<20)
	if f != nil {
		o := failed(f)
		o.Status = resp.StatusCode
		return o
	}
	return outcome{Sent: true, Status: resp.StatusCode, Body: string(body)}
}
