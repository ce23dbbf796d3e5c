package remote

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recourse/internal/cli"
)

// Two files with one definition, such as an old copy of it, are not published one after the other:
// the last one would be what new sagas run.
func TestApplyRefusesTwoFilesWithOneDefinition(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s", r.Method, r.URL)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer server.Close()
	dir := t.TempDir()
	for name, text := range map[string]string{"booking.yaml": "new", "booking-old.yaml": "old"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("saga: booking\nsteps: [{id: a, set: {text: "+text+"}}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var errOut bytes.Buffer
	app := cli.New(t.Context(), nil, strings.NewReader(""), io.Discard, &errOut)
	err := (&applyDefinitions{ServerFlags: ServerFlags{Server: server.URL}, OutputFlag: cli.OutputFlag{Output: "text"}, Paths: []string{dir}}).Run(app)
	says := "definition booking is in " + filepath.Join(dir, "booking-old.yaml") + ", too: keep one"
	if cli.ExitCode(err) != cli.Usage || !strings.Contains(errOut.String(), says) {
		t.Errorf("exit %d: %v\n%s", cli.ExitCode(err), err, errOut.String())
	}
}

// A script learns what was published before the server refused a file.
func TestApplyThatIsRefusedInTheMiddle(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/validate" {
			_, _ = io.WriteString(w, `{"ok": true, "errors": [], "warnings": []}`)
			return
		}
		if r.URL.Path != "/v1/definitions/first" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"name": "first", "version": "v3"}`)
	}))
	defer server.Close()
	dir := t.TempDir()
	for _, name := range []string{"first", "second"} {
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte("saga: "+name+"\nsteps: [{id: a, set: {b: 1}}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	app := cli.New(t.Context(), nil, strings.NewReader(""), &out, io.Discard)
	err := (&applyDefinitions{ServerFlags: ServerFlags{Server: server.URL}, OutputFlag: cli.OutputFlag{Output: "json"}, Paths: []string{dir}}).Run(app)
	var list []Applied
	if wrong := json.Unmarshal(out.Bytes(), &list); wrong != nil || len(list) != 1 || list[0].Version != "v3" {
		t.Errorf("printed %q", out.String())
	}
	if cli.ExitCode(err) != cli.Usage || !strings.Contains(err.Error(), "second.yaml") {
		t.Errorf("exit %d: %v", cli.ExitCode(err), err)
	}
}
