package world_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"recourse/examples/world"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// request is one request of a test.
type request struct {
	method, path, key, body, token string
}

// response is the response to a request.
type response struct {
	status int
	header http.Header
	body   string
}

// field returns a top-level field of the body, as JSON.
func (r response) field(t testing.TB, name string) string {
	t.Helper()
	var f map[string]json.RawMessage
	if err := json.Unmarshal([]byte(r.body), &f); err != nil {
		t.Fatalf("body %q: %v", r.body, err)
	}
	return string(f[name])
}

// id returns a field as a string.
func (r response) id(t testing.TB) string {
	t.Helper()
	var id string
	if err := json.Unmarshal([]byte(r.field(t, "id")), &id); err != nil || id == "" {
		t.Fatalf("no id in %q: %v", r.body, err)
	}
	return id
}

func (r request) build(t testing.TB, base string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.method, base+r.path, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	return req
}

// call serves r without a network.
func call(t testing.TB, w *world.World, r request) response {
	t.Helper()
	rec := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(t.Context(), r.method, r.path, strings.NewReader(r.body))
	req.Header = r.build(t, "http://world").Header
	w.ServeHTTP(rec, req)
	return response{rec.Code, rec.Header(), rec.Body.String()}
}

// want is call with an expected status.
func want(t testing.TB, w *world.World, r request, status int) response {
	t.Helper()
	got := call(t, w, r)
	if got.status != status {
		t.Fatalf("%s %s: got %d %s, want %d", r.method, r.path, got.status, got.body, status)
	}
	return got
}

// network is a listening world with a client.
type network struct {
	*world.Server
	client *http.Client
}

func mustListen(t testing.TB, cfg world.Config) network {
	t.Helper()
	s, err := world.New(cfg).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	n := network{s, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return n
}

// do sends r; err is an error of sending or of reading the body.
func (n network) do(t testing.TB, r request) (response, error) {
	t.Helper()
	resp, err := n.client.Do(r.build(t, n.URL))
	if err != nil {
		return response{}, err
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	_, err = io.Copy(&body, resp.Body)
	return response{resp.StatusCode, resp.Header, body.String()}, err
}

func (n network) mustDo(t testing.TB, r request, status int) response {
	t.Helper()
	got, err := n.do(t, r)
	if err != nil || got.status != status {
		t.Fatalf("%s %s: got %d %s, %v; want %d", r.method, r.path, got.status, got.body, err, status)
	}
	return got
}

func mustFault(t testing.TB, w *world.World, r world.Rule) {
	t.Helper()
	if err := w.AddFault(r); err != nil {
		t.Fatal(err)
	}
}
