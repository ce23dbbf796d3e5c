package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"recourse/api/rest"
	"recourse/internal/cli"
	"recourse/internal/cli/remote"
	"recourse/saga"
	"recourse/saga/machine"
)

// The process gets the routes that the server names, with its own token as the key, and none of the
// variables that are for the server.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	const server = "http://127.0.0.1:8080"
	set := func(token string) []string {
		return []string{"OPENAI_BASE_URL=" + server + "/llm/openai/v1", "OPENAI_API_KEY=" + token, "OPENAI_AGENTS_DISABLE_TRACING=1", "ANTHROPIC_BASE_URL=https://llm.example/anthropic", "ANTHROPIC_API_KEY=" + token, "RECOURSE_MCP_URL=" + server + "/mcp"}
	}
	for _, tt := range []struct {
		answer string
		want   func(token string) []string
	}{
		{`{"life": 1}`, func(string) []string { return nil }},
		{`{"life": 1, "llm": {"openai": "/llm/openai/v1", "anthropic": "https://llm.example/anthropic"}, "mcp": "/mcp"}`, set},
		{`{"life": 1, "llm": {"openai": "/llm/openai/v1"}}`, func(token string) []string { return set(token)[:3] }},
	} {
		env := []string{"PATH=/bin", "RECOURSE_API_KEY=rk_1", "RECOURSE_SECRET_PAY=s", "RECOURSE_SECRET_DIR=/s", "RECOURSE_LLM_API_KEY=k", "RECOURSE_DATABASE=postgres://u:p@h/d", "RECOURSE_VAR_pay=http://pay"}
		r := &runner{app: &cli.App{Ctx: t.Context(), Env: env}, flags: remote.ServerFlags{Server: server + "/"}, session: session{}}
		r.session.ID = "01890a5d-ac96-774b-bcce-b302099a8057"
		var d attached
		if err := json.Unmarshal([]byte(tt.answer), &d); err != nil {
			t.Fatal(err)
		}
		r.life = r.newLife("secret", d)
		r.life.stop()
		token := r.token("secret")
		want := slices.Concat([]string{"PATH=/bin", "RECOURSE_VAR_pay=http://pay"}, tt.want(token), []string{"RECOURSE_URL=" + server, "RECOURSE_SESSION=" + r.session.ID,
			"RECOURSE_TOKEN=" + token, "RECOURSE_LIFE=1", "RECOURSE_RESUMED=false", "RECOURSE_INPUT=null"})
		if got := r.environment(); !slices.Equal(got, want) {
			t.Errorf("%s:\n%q\nwant\n%q", tt.answer, got, want)
		}
	}
}

// A process runs also in a session whose input is too large for a variable, and gets no other
// session's input instead.
func TestLargeInput(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]string{200_000: "0", maxInput: strconv.Itoa(maxInput)} {
		var out, notes strings.Builder
		app := cli.New(t.Context(), []string{"RECOURSE_INPUT=1"}, strings.NewReader(""), &out, &notes)
		r := &runner{app: app, program: "/bin/sh", args: []string{"-c", `echo "${#RECOURSE_INPUT}"`}, life: &life{over: make(chan verdict), stop: func() {}}}
		r.session.Input = json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`)
		code, err := r.process()
		if got := strings.TrimSpace(out.String()); err != nil || code != 0 || got != want {
			t.Errorf("an input of %d bytes: exit %d, %v, RECOURSE_INPUT has %s bytes, want %s", size, code, err, got, want)
		}
		if noted := strings.Contains(notes.String(), "RECOURSE_INPUT"); noted != (want == "0") {
			t.Errorf("an input of %d bytes: %q", size, notes.String())
		}
	}
}

// The headers for the collector of traces are for the server, if it is in this process.
func TestCollectorHeaders(t *testing.T) {
	t.Parallel()
	env := []string{"OTEL_EXPORTER_OTLP_HEADERS=a=b", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=a=b", "OTEL_SERVICE_NAME=agent"}
	for database, want := range map[string][]string{"": env, "recourse.db": env[2:]} {
		r := &runner{app: &cli.App{Ctx: t.Context(), Env: env}, life: &life{}, database: database}
		if got := r.environment(); !slices.Equal(got[:len(got)-6], want) {
			t.Errorf("with the database %q: %q", database, got)
		}
	}
}

// A response that breaks off is an error, also one of which nothing is decoded, such as a summary.
func TestBrokenResponse(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sized" {
			w.Header().Set("Content-Length", "100")
		}
		_, _ = io.WriteString(w, "the beginning")
		if r.URL.Path != "/whole" {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	defer server.Close()
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	api := rest.New(forward(to), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody), "")
	for _, path := range []string{"/sized", "/unsized"} {
		if reply, err := api.Do(t.Context(), http.MethodGet, path, nil, nil, nil); err == nil {
			t.Errorf("%s: %d %q", path, reply.Status, reply.Text())
		}
	}
	if reply, err := api.Do(t.Context(), http.MethodGet, "/whole", nil, nil, nil); err != nil || reply.Text() != "the beginning" {
		t.Errorf("a whole response: %v", err)
	}
}

// A worker that loses the race for a session goes on, and one that is stopped while it attaches to
// one ends.
func TestWorkerWithoutTheSession(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(stop func(), r *http.Request) int{
		"held":    func(func(), *http.Request) int { return http.StatusConflict },
		"stopped": func(stop func(), r *http.Request) int { stop(); <-r.Context().Done(); return http.StatusOK },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var attaches, lists atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodPost:
					attaches.Add(1)
					// The server notices that a client has gone once it has read the request.
					_, _ = io.Copy(io.Discard, r.Body)
					w.WriteHeader(answer(stop, r))
					_, _ = io.WriteString(w, `{"code": "session_held", "detail": "another process"}`)
				case lists.Add(1) == 3:
					stop()
					fallthrough
				default:
					_, _ = io.WriteString(w, `{"data": [{"id": "01890a5d-ac96-774b-bcce-b302099a8057"}]}`)
				}
			}))
			defer server.Close()
			app := cli.New(ctx, nil, strings.NewReader(""), io.Discard, io.Discard)
			ended := make(chan error, 1)
			go func() {
				ended <- (&Worker{ServerFlags: remote.ServerFlags{Server: server.URL}, Type: "refund", Parallel: 1, Command: []string{"true"}}).Run(app)
			}()
			select {
			case err := <-ended:
				if err != nil || attaches.Load() == 0 {
					t.Errorf("%d attaches, %v", attaches.Load(), err)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("the worker has not ended")
			}
		})
	}
}

// The view folds the calls that have ended first, and says what an abort would undo.
func TestFrame(t *testing.T) {
	t.Parallel()
	v := &session{}
	v.Session.Name, v.Session.Life, v.Status = "refund", 2, saga.Running
	v.Cost = saga.CostView{Currency: "USD", Spent: "0.42", Budget: "5.00"}
	calls := []machine.CallView{
		{Path: "look[0]", Action: "look@1", Status: machine.CallSucceeded, Cost: "0", Undo: machine.UndoNone, Key: "k0"},
		{Path: "refund[0]", Action: "refund@3", Status: machine.CallWaiting, Cost: "0", WaitsFor: "approval", Key: "k1"},
		{Path: "refund[1]", Action: "refund@3", Status: machine.CallFailed, Cost: "0", Key: "k2"},
		{Path: "refund[2]", Action: "refund@3", Status: machine.CallSucceeded, Cost: "0.02", Undo: machine.UndoAvailable, Key: "k3"},
		{Path: "mail[0]", Action: "mail@1", Status: machine.CallInDoubt, Cost: "0", Key: "k4"},
		{Path: "refund[3]", Action: "refund@3", Status: machine.CallSucceeded, Cost: "0.40", Undo: machine.UndoAvailable, Key: "k5"},
	}
	text := func(columns, height int) string {
		var b strings.Builder
		for _, row := range frame(v, calls, columns, height) {
			b.WriteString(strings.TrimRight(row.Text, " ") + "\n")
		}
		return b.String()
	}
	const want = `── refund  life 2  running  spent 0.42 USD of 5.00 USD ───────────────
  3 calls more: 2 succeeded, 1 failed
… refund[0]  refund@3  waits for approval                           k1
? mail[0]    mail@1    in doubt                                     k4
✓ refund[3]  refund@3  succeeded           0.40 USD  can be undone  k5
  an abort undoes refund[3], refund[2]
`
	if got := text(70, 6); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := text(30, 10); strings.Contains(got, "more") || !strings.Contains(got, "refund[1]") {
		t.Errorf("narrow and high:\n%s", got)
	}
	v.Status = saga.Succeeded
	if got := text(70, 10); strings.Contains(got, "abort") {
		t.Errorf("at the end:\n%s", got)
	}
}

// Only calls that were made before the process runs are counted as such.
func TestFirstLook(t *testing.T) {
	t.Parallel()
	var began atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const call = `{"path": "refund[%d]", "action": "refund@3", "status": "succeeded", "cost": "0", "key": "k"}`
		switch list := fmt.Sprintf(call, 0); {
		case !strings.HasSuffix(r.URL.Path, "/calls"):
			_, _ = io.WriteString(w, `{"id": "01890a5d-ac96-774b-bcce-b302099a8057"}`)
		case began.Load():
			list += ", " + fmt.Sprintf(call, 1)
			fallthrough
		default:
			_, _ = io.WriteString(w, `{"data": [`+list+`]}`)
		}
	}))
	defer server.Close()
	var said strings.Builder
	r := &runner{app: cli.New(t.Context(), nil, strings.NewReader(""), io.Discard, &said), flags: remote.ServerFlags{Server: server.URL}}
	r.session.ID = "01890a5d-ac96-774b-bcce-b302099a8057"
	w := r.watch(true, true)
	w.begin("secret")
	began.Store(true)
	w.begin("that of the next life")
	w.stop()
	const want = "recourse: 1 call before: 1 succeeded\nrecourse: refund[1] (refund@3): succeeded; key k\n"
	if said.String() != want {
		t.Errorf("%q", said.String())
	}
	r.watch(true, true).stop() // no life begins
}

// Each news of a call is one line, also for a session that had calls before.
func TestCallLines(t *testing.T) {
	t.Parallel()
	v := &session{}
	v.Cost.Currency = "USD"
	call := func(path string, status machine.CallStatus, more ...func(*machine.CallView)) machine.CallView {
		c := machine.CallView{Path: path, Action: "refund@3", Status: status, Cost: "0", Key: "k"}
		for _, f := range more {
			f(&c)
		}
		return c
	}
	for _, found := range []bool{false, true} {
		var said []string
		l := &callLines{found: found, note: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
		first := call("refund[0]", machine.CallSucceeded, func(c *machine.CallView) { c.Cost, c.Undo = "0.02", machine.UndoAvailable })
		second := call("refund[1]", machine.CallRunning)
		l.show(v, []machine.CallView{first, second})
		second.WaitsFor = "approval"
		l.show(v, []machine.CallView{first, second})
		l.show(v, []machine.CallView{first, second})
		first.Undo, second.WaitsFor, second.Status = machine.UndoNone, "", machine.CallFailed
		second.Error = &saga.Failure{Title: "it was rejected"}
		l.show(v, []machine.CallView{first, second})
		want := []string{"refund[0] (refund@3): succeeded, 0.02 USD, an abort undoes it; key k", "refund[1] (refund@3): waits for approval; key k", "refund[1] (refund@3): failed: it was rejected; key k"}
		if found {
			want[0] = "2 calls before: 1 running, 1 succeeded"
		}
		if !slices.Equal(said, want) {
			t.Errorf("found %v: %q", found, said)
		}
	}
}

// A worker remembers no session that other workers have: over months there are any number.
func TestWorkerForgets(t *testing.T) {
	t.Parallel()
	app := cli.New(t.Context(), nil, strings.NewReader(""), io.Discard, io.Discard)
	w := &worker{Worker: &Worker{}, app: app, taken: make(map[string]*take)}
	for id, test := range map[string]struct {
		r     *runner
		err   error
		known bool
	}{
		"another was faster":   {&runner{app: app}, end(held, "held"), false},
		"over":                 {&runner{app: app}, errOver, false},
		"another has followed": {&runner{app: app, life: &life{}}, end(held, "held"), false},
		"committed":            {&runner{app: app, life: &life{}}, errCommitted, false},
		"failed":               {&runner{app: app, life: &life{}}, end(cli.Failed, "failed"), true},
	} {
		w.take(id)
		w.end(id, test.r, test.err)
		if known := w.taken[id] != nil; known != test.known {
			t.Errorf("%s: remembered: %t", id, known)
		}
	}
}
