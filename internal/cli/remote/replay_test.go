package remote

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recourse/internal/cli"
)

// Flags that refuse a changed definition are not ignored: without a replay they would let it pass.
func TestReplayThatReplaysNothing(t *testing.T) {
	t.Parallel()
	app := cli.New(t.Context(), nil, strings.NewReader(""), io.Discard, io.Discard)
	nowhere := ServerFlags{Server: "http://127.0.0.1:1"} // nothing is requested
	for name, run := range map[string]func() error{
		"apply --refuse-on": func() error {
			return (&applyDefinitions{ServerFlags: nowhere, RefuseOn: []string{"other-end"}, Paths: []string{t.TempDir()}}).Run(app)
		},
		"apply --replay -1": func() error {
			return (&applyDefinitions{ServerFlags: nowhere, Replay: -1, Paths: []string{t.TempDir()}}).Run(app)
		},
		"replay --limit 0": func() error {
			return ReplayFlags{Limit: 0}.Replay(app, nowhere, cli.OutputFlag{}, "booking.yaml")
		},
	} {
		if err := run(); cli.ExitCode(err) != cli.Usage || !strings.HasPrefix(err.Error(), "--") {
			t.Errorf("%s: exit %d: %v", name, cli.ExitCode(err), err)
		}
	}
}

// A server that cannot replay, such as one of an earlier release, has checked nothing: then nothing
// is published.
func TestApplyDoesNotTakeEvery404ForANewDefinition(t *testing.T) {
	t.Parallel()
	for code, publishes := range map[string]bool{"route_not_found": false, "definition_not_found": true} {
		published, err := applyAfter(t, http.StatusNotFound, `{"type": "urn:recourse:problem:`+code+`", "title": "not found", "status": 404, "detail": "not here"}`)
		if published != publishes || (err == nil) != publishes {
			t.Errorf("%s: published %v, %v", code, published, err)
		}
	}
}

// A replay of which every saga was skipped has tried nothing, so nothing is published.
func TestApplyWithoutATrialPublishesNothing(t *testing.T) {
	t.Parallel()
	for page, publishes := range map[string]bool{
		`{"data": [], "skipped": []}`: true,
		`{"data": [], "skipped": [{"saga": "0193", "detail": "its journal has no contents"}]}`:                               false,
		`{"data": [{"saga": "0194", "verdict": "same"}], "skipped": [{"saga": "0193", "detail": "its journal is too old"}]}`: true,
	} {
		published, err := applyAfter(t, http.StatusOK, page)
		if published != publishes || (err == nil) != publishes || err != nil && !strings.Contains(err.Error(), "without --replay") {
			t.Errorf("%s: published %v, %v", page, published, err)
		}
	}
}

// applyAfter applies a definition, after a replay to which the server answers with a status and a
// body, and reports whether the definition was published.
func applyAfter(t *testing.T, status int, replay string) (published bool, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/replay"):
			w.WriteHeader(status)
			_, _ = io.WriteString(w, replay)
		case r.Method == http.MethodPut:
			published = true
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"name": "a", "version": "v1"}`)
		default:
			_, _ = io.WriteString(w, `{"ok": true, "errors": [], "warnings": []}`)
		}
	}))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(path, []byte("saga: a\nsteps: [{id: a, set: 1}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	app := cli.New(t.Context(), nil, strings.NewReader(""), io.Discard, io.Discard)
	err = (&applyDefinitions{ServerFlags: ServerFlags{Server: server.URL}, OutputFlag: cli.OutputFlag{Output: "text"}, Paths: []string{path}, Replay: 10, RefuseOn: []string{"other-end"}}).Run(app)
	return published, err
}
