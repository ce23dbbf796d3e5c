package remote

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"recourse/internal/cli"
)

// The exit code of `recourse undo` says whether the effects are undone, also if that takes longer
// than the server waits for a response, and of a saga that has not ended.
func TestUndoWaits(t *testing.T) {
	t.Parallel()
	const id = "01890a5d-ac96-774b-bcce-b302099a8057"
	for name, tt := range map[string]struct {
		wait  time.Duration
		reads []string // the responses to the reads; the last one is repeated
		code  int
		says  string
	}{
		"it is undone":      {time.Minute, []string{`"status": "compensating"`, `"status": "compensating"`, `"status": "succeeded"`}, cli.OK, ""},
		"effects remain":    {time.Minute, []string{`"status": "failed", "residual": [{"path": "pay", "why": "refused"}]`}, cli.Failed, "effects remain: "},
		"it lasts too long": {time.Millisecond, []string{`"status": "compensating"`}, cli.Failed, "the saga is still being undone: "},
		"a person decides":  {time.Millisecond, []string{`"status": "stuck", "open": ["e1"]`}, cli.Failed, "a person has to decide: "},
		"it does not wait":  {0, nil, cli.OK, ""},
		"the wait is lost":  {time.Minute, []string{""}, cli.Unreachable, "the undo is accepted, but its end is not known: "},
	} {
		reads := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusAccepted)
				_, _ = io.WriteString(w, `{"id": "`+id+`", "status": "compensating"}`)
				return
			}
			if tt.reads == nil {
				t.Errorf("%s: %s", name, r.URL)
			}
			if tt.reads[0] == "" {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_, _ = io.WriteString(w, `{"id": "`+id+`", `+tt.reads[min(reads, len(tt.reads)-1)]+"}")
			reads++
		}))
		var out strings.Builder
		app := cli.New(t.Context(), nil, strings.NewReader(""), &out, io.Discard)
		err := (&Undo{ServerFlags: ServerFlags{Server: server.URL}, OutputFlag: cli.OutputFlag{Output: "text"}, Saga: id, Reason: "r", Wait: tt.wait}).Run(app)
		server.Close()
		if err == nil != (tt.code == cli.OK) || err != nil && (cli.ExitCode(err) != tt.code || !strings.HasPrefix(err.Error(), tt.says)) {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.HasPrefix(out.String(), id+"  ") {
			t.Errorf("%s: printed %q", name, out.String())
		}
	}
}

// So does `recourse sessions abort`, also if it does not learn the end.
func TestAbortWhoseWaitIsLost(t *testing.T) {
	t.Parallel()
	const id = "01890a5d-ac96-774b-bcce-b302099a8057"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, `{"id": "`+id+`", "status": "compensating"}`)
	}))
	defer server.Close()
	var out strings.Builder
	app := cli.New(t.Context(), nil, strings.NewReader(""), &out, io.Discard)
	err := (&AbortSession{ServerFlags: ServerFlags{Server: server.URL}, OutputFlag: cli.OutputFlag{Output: "json"}, Session: id, Wait: time.Minute}).Run(app)
	if cli.ExitCode(err) != cli.Unreachable || !strings.HasPrefix(err.Error(), "the abort is accepted, ") || !strings.Contains(out.String(), id) {
		t.Errorf("%v, printed %q", err, out.String())
	}
}

// A command that no node has read has no effect yet, and what is printed says so.
func TestUnreadIsSaid(t *testing.T) {
	t.Parallel()
	const id = "01890a5d-ac96-774b-bcce-b302099a8057"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Recourse-Unread", "true")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"id": "`+id+`", "path": "pay", "status": "running"}`)
	}))
	defer server.Close()
	flags, text := ServerFlags{Server: server.URL}, cli.OutputFlag{Output: "text"}
	for name, run := range map[string]func(*cli.App) error{
		"pause":   (&Pause{ServerFlags: flags, OutputFlag: text, Saga: id}).Run,
		"resolve": (&Resolve{ServerFlags: flags, OutputFlag: text, Saga: id, Step: "pay", Outcome: "skip", Reason: "r", IfSeq: 3}).Run,
		"budget":  (&Budget{ServerFlags: flags, OutputFlag: text, Saga: id, Amount: "2.00 USD", IfSeq: 3}).Run,
	} {
		var said strings.Builder
		if err := run(cli.New(t.Context(), nil, strings.NewReader(""), io.Discard, &said)); err != nil || !strings.Contains(said.String(), "no node has read it yet") {
			t.Errorf("%s: %v, said %q", name, err, said.String())
		}
	}
}
