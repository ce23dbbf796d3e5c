package remote

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"recourse/internal/cli"
)

// Lines that follow each other with the same error share a line of output, and advice is given
// once.
func TestStartBatchAdvises(t *testing.T) {
	t.Parallel()
	bad := func(line int, detail string) *batchStart {
		return &batchStart{Line: line, Status: 422, Error: []byte(`{"title": "It does not match", "detail": "fix it", "errors": [{"pointer": "/input/` + detail + `", "code": "type", "detail": "wrong"}]}`)}
	}
	var out, errOut bytes.Buffer
	b := &batchRun{Start: &Start{OutputFlag: cli.OutputFlag{Output: "text"}}, app: cli.New(t.Context(), nil, strings.NewReader(""), &out, &errOut), said: make(map[string]int)}
	b.starts = []*batchStart{bad(1, "n"), bad(2, "n"), bad(4, "n"), bad(5, "city"), {Line: 6, Status: 201, ID: "0193", Key: "k-6"}, bad(7, "city")}
	if err := b.results(); err != nil {
		t.Fatal(err)
	}
	const want = `lines 1 to 4: It does not match: fix it
  --input n: type: wrong
line 5: as line 1
  --input city: type: wrong
line 7: as line 1
  --input city: type: wrong
`
	if errOut.String() != want || out.String() != "0193  k-6\n" || b.refused != 5 {
		t.Errorf("%d refused: %q\n%s", b.refused, out.String(), errOut.String())
	}
}

// A command that has started a saga prints its id, also if the server stops before the saga ends.
func TestStartLosesTheServer(t *testing.T) {
	t.Parallel()
	const id = "01890a5d-ac96-774b-bcce-b302099a8057"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"title": "The server stops"}`)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id": "`+id+`", "status": "running"}`)
	}))
	defer server.Close()
	for _, tt := range []struct{ output, prints string }{
		{"text", id + "  running\n"},
		{"json", `{"id": "` + id + `", "status": "running"}` + "\n"},
	} {
		var out bytes.Buffer
		app := cli.New(t.Context(), nil, strings.NewReader(""), &out, io.Discard)
		err := (&Start{ServerFlags: ServerFlags{Server: server.URL}, OutputFlag: cli.OutputFlag{Output: tt.output}, Definition: "booking", Wait: time.Second}).Run(app)
		says := "saga " + id + " is started, but its end is not known: The server stops; `recourse show " + id + " --follow --server " + server.URL + "` shows it"
		if cli.ExitCode(err) != cli.Unreachable || err.Error() != says {
			t.Errorf("exit %d: %v", cli.ExitCode(err), err)
		}
		if out.String() != tt.prints {
			t.Errorf("%s: printed %q", tt.output, out.String())
		}
	}
}

// A batch goes on when the server refuses a whole request because of its limits, and does not send
// a start again that this server cannot run.
func TestStartBatchAtTheLimits(t *testing.T) {
	t.Parallel()
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests++; requests == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"type": "urn:recourse:problem:rate_limited", "title": "Too many requests", "status": 429}`)
			return
		}
		_, _ = io.WriteString(w, `{"index": 0, "idempotency_key": "a", "status": 201, "id": "0193"}
{"index": 1, "idempotency_key": "b", "status": 503, "error": {"type": "urn:recourse:problem:definition_unusable", "title": "This server cannot run the definition", "status": 503}}
`)
	}))
	defer server.Close()
	var out, errOut bytes.Buffer
	app := cli.New(t.Context(), nil, strings.NewReader(`{"idempotency_key": "a"}`+"\n"+`{"idempotency_key": "b"}`), &out, &errOut)
	err := (&Start{ServerFlags: ServerFlags{Server: server.URL}, OutputFlag: cli.OutputFlag{Output: "text"}, Definition: "booking", Batch: "-"}).Run(app)
	const want = `the server does not take 2 of the starts now: sending them again in 1s
line 2: This server cannot run the definition
1 started, 0 started before, 1 refused
`
	if cli.ExitCode(err) != cli.Failed || out.String() != "0193  a\n" || errOut.String() != want || requests != 2 {
		t.Errorf("%d requests, exit %d: %v\n%s%s", requests, cli.ExitCode(err), err, out.String(), errOut.String())
	}
}
