package probe

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"recourse/internal/cli"
)

// Each effect that the probe may have had is undone, also if its answer is lost. If that is not
// possible, the result has the key by which a person can find it.
func TestUndoOfWhatMayHaveHappened(t *testing.T) {
	t.Parallel()
	const byKey, byOutput = "bookings?ref=${key}", "bookings/${output.id}"
	for name, tt := range map[string]struct {
		answers []int // to the requests of the step; 0: the connection breaks off
		undo    string
		gone    int // the status of the answers to DELETE; 0: 204
		expect  string
		sent    string
		result  finding
		problem string
	}{
		"the first answer is lost":               {[]int{0}, byKey, 0, "", "first, undo 1", undone, ""},
		"the first answer is a 500":              {[]int{500}, byKey, 0, "", "first, undo 1", undone, ""},
		"the first request is refused":           {[]int{422}, byKey, 0, "", "first", "", ""},
		"the undo needs the answer that is lost": {[]int{0}, byOutput, 0, "", "first", failed, "look for the effect by its key "},
		"the second answer is lost":              {[]int{201, 0, 409}, byKey, 0, "", "first, second, other body, undo 1, undo 2", undone, ""},
		"the answer to another body is a 500":    {[]int{201, 409, 500}, byKey, 0, "", "first, second, other body, undo 1, undo 2", undone, ""},
		"the key is honoured":                    {[]int{201, 201, 422}, byOutput, 0, "", "first, second, other body, undo 1", undone, ""},
		"the undo finds nothing":                 {[]int{0}, byKey, 404, "", "first, undo 1", undone, ""},
		"the undo is to find something":          {[]int{0}, byKey, 404, ", expect: {status: 204}", "first, undo 1", failed, "look for the effect by its key "},
		"the undo is answered otherwise":         {[]int{0}, byKey, 200, ", expect: {that: result.body.gone}", "first, undo 1", failed, "look for the effect by its key "},
		"the undo is refused":                    {[]int{0}, byKey, 403, "", "first, undo 1", failed, "look for the effect by its key "},
	} {
		var requests atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodDelete {
				w.WriteHeader(cmp.Or(tt.gone, http.StatusNoContent))
				return
			}
			status := tt.answers[requests.Add(1)-1]
			if status == 0 {
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"id": "b-17"}`)
		}))
		file := filepath.Join(t.TempDir(), "book.yaml")
		text := "saga: book\nsteps:\n  - id: book\n    http: POST " + server.URL + "/bookings\n    body: {route: A-B}\n    in_doubt: retry\n" +
			"    compensate: {http: \"DELETE " + server.URL + "/" + tt.undo + "\"" + tt.expect + "}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		app := cli.New(t.Context(), nil, strings.NewReader(""), &out, io.Discard)
		err := (&Command{OutputFlag: cli.OutputFlag{Output: "json"}, File: file, Step: "book", Yes: true, Undo: true}).Run(app)
		server.Close()
		var res result
		if wrong := json.Unmarshal([]byte(out.String()), &res); wrong != nil {
			t.Fatalf("%s: %v: %s", name, err, out.String())
		}
		var sent []string
		for _, s := range res.Sent {
			sent = append(sent, s.What)
			if _, ref, named := strings.Cut(s.Request, "ref="); named && ref != res.Key {
				t.Errorf("%s: %s, of the key %s", name, s.Request, res.Key)
			}
		}
		if got := strings.Join(sent, ", "); got != tt.sent || res.Undo != tt.result || !strings.Contains(strings.Join(res.Problems, "\n"), tt.problem+res.Key) && tt.problem != "" {
			t.Errorf("%s: %s\n%s", name, got, out.String())
		}
	}
}
