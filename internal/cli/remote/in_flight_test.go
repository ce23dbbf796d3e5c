package remote

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"recourse/internal/cli"
)

// answers is a server without a network, which the fake clock of a test needs.
type answers func(r *http.Request) *http.Response

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

func answered(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {"1"}}, Body: io.NopCloser(strings.NewReader(body))}
}

const inFlight = `{"type": "urn:recourse:problem:key_in_flight", "title": "in flight", "status": 409}`

// A proxy may say by a date when a request can succeed (RFC 9110, section 10.2.3). One that is far
// away is not waited for.
func TestRetryAfterDate(t *testing.T) {
	t.Parallel()
	for after, most := range map[time.Duration]time.Duration{20 * time.Second: 22 * time.Second, time.Hour: 2 * keyHeld} {
		synctest.Test(t, func(t *testing.T) {
			begun, sent := time.Now(), 0
			cl, err := ServerFlags{Server: "http://recourse.example"}.Client(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			cl.http.Transport = answers(func(*http.Request) *http.Response {
				if sent++; sent > 1 {
					return answered(http.StatusOK, `{}`)
				}
				a := answered(http.StatusConflict, inFlight)
				a.Header.Set("Retry-After", begun.Add(after).UTC().Format(http.TimeFormat))
				return a
			})
			_, err = cl.Do(Call{Method: http.MethodPost, Path: "/v1/sagas/a/pause"})
			if took := time.Since(begun); err != nil || took < min(after, keyHeld)-time.Second || took > most {
				t.Errorf("%v after %s, of %s", err, took, after)
			}
		})
	}
}

// A request whose first attempt is still in flight is repeated with its key, as long as a server
// that died meanwhile keeps the key.
func TestKeyInFlight(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		body string
		free time.Duration
		want int
	}{
		{inFlight, 60 * time.Second, cli.OK},
		{inFlight, time.Hour, cli.Conflict},
		{`{"type": "urn:recourse:problem:changed", "title": "changed", "status": 409}`, time.Nanosecond, cli.Conflict},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun, keys := time.Now(), make(map[string]bool)
			cl, err := ServerFlags{Server: "http://recourse.example"}.Client(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			cl.http.Transport = answers(func(r *http.Request) *http.Response {
				keys[r.Header.Get("Idempotency-Key")] = true
				if time.Since(begun) < tt.free {
					return answered(http.StatusConflict, tt.body)
				}
				return answered(http.StatusOK, `{}`)
			})
			_, err = cl.Do(Call{Method: http.MethodPost, Path: "/v1/sagas/a/pause"})
			if (err == nil) != (tt.want == cli.OK) || err != nil && cli.ExitCode(err) != tt.want || len(keys) != 1 {
				t.Errorf("%s for %s: %v with %d keys", tt.body, tt.free, err, len(keys))
			}
			if took := time.Since(begun); took > 70*time.Second {
				t.Errorf("it gave up after %s", took)
			}
		})
	}
}
