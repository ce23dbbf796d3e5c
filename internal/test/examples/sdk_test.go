package examples

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/internal/test/buffer"
)

const sdks = "../../../sdk"

// sdk is the test program of an SDK. The programs of all SDKs do and print the same.
type sdk struct {
	name    string
	program func(t *testing.T) []string // installs what it needs, and returns how to run it
}

var allSDKs = []sdk{
	{"python", func(t *testing.T) []string {
		python, err := exec.LookPath("python3")
		if err != nil {
			t.Fatalf("the SDK for Python needs python3: %v", err)
		}
		return []string{python, sdks + "/python/tests/program.py"}
	}},
	{"typescript", func(t *testing.T) []string {
		return []string{buildTypeScript(t), sdks + "/typescript/dist/tests/program.js"}
	}},
	{"go", func(t *testing.T) []string {
		bin := filepath.Join(t.TempDir(), "goagent")
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./goagent").CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
		return []string{bin}
	}},
}

// lossy is a proxy between an SDK and its server that loses the first response to each request, or
// answers the first try of it by itself, as a server that stops. A stream of events breaks off
// after the first one.
type lossy struct {
	t      *testing.T
	proxy  *httputil.ReverseProxy
	mu     sync.Mutex
	seen   map[string]bool // guarded by mu
	losses int             // guarded by mu
}

// ServeHTTP implements http.Handler.
func (l *lossy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has left
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	id := fmt.Sprint(r.Method, r.URL, r.Header.Get("Idempotency-Key"), r.Header.Get("Authorization"), string(body))
	l.mu.Lock()
	lost := !l.seen[id]
	l.seen[id] = true
	if lost {
		l.losses++
	}
	refused := lost && l.losses%3 == 0
	l.mu.Unlock()
	switch {
	case !lost:
		l.proxy.ServeHTTP(w, r)
	case refused:
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.Header.Get("Accept") == "text/event-stream":
		l.proxy.ServeHTTP(&firstEvent{ResponseWriter: w}, r)
	default:
		l.proxy.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
}

// firstEvent passes the first event of a stream, and then closes the connection.
type firstEvent struct {
	http.ResponseWriter
	sent bool
}

// Write implements io.Writer.
func (f *firstEvent) Write(b []byte) (int, error) {
	if f.sent {
		panic(http.ErrAbortHandler)
	}
	if end := bytes.Index(b, []byte("\n\n")); end >= 0 {
		f.sent = true
		_, _ = f.ResponseWriter.Write(b[:end+2])
		_ = http.NewResponseController(f.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return f.ResponseWriter.Write(b)
}

// stageSDK starts a scene with what the test programs use.
func stageSDK(t *testing.T) *scene {
	t.Helper()
	s := stage(t, databases["sqlite"](t), nil)
	s.publishActions(sdks + "/testdata")
	if out, code := s.command("definitions", "apply", sdks+"/testdata/double.yaml", "--server", "http://"+s.server.addr); code != 0 {
		t.Fatalf("apply: %s", out)
	}
	return s
}

// TestSDKs lets the test program of each SDK do the same, and compares what it prints with
// scenario.txt. A second time, the first response to each request is lost.
func TestSDKs(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile(sdks + "/testdata/scenario.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range allSDKs {
		for _, lose := range []bool{false, true} {
			t.Run(l.name+map[bool]string{false: "", true: ", responses lost"}[lose], func(t *testing.T) {
				t.Parallel()
				program := l.program(t)
				s := stageSDK(t)
				proxy := &lossy{t: t, seen: make(map[string]bool), proxy: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
					r.Out.URL.Scheme, r.Out.URL.Host = "http", s.server.addr
				}}}
				url := "http://" + s.server.addr
				if lose {
					server := httptest.NewServer(proxy)
					defer server.Close()
					url = server.URL
				}
				ctx, stop := context.WithTimeout(t.Context(), mostOfARun)
				defer stop()
				cmd := exec.CommandContext(ctx, program[0], append(program[1:], "scenario")...)
				cmd.Env = append(os.Environ(), "RECOURSE_SERVER="+url, "WORLD="+s.world.URL, "KEY=k")
				var said, errors buffer.Buffer
				cmd.Stdout, cmd.Stderr = &said, &errors
				if err := cmd.Run(); err != nil {
					t.Errorf("%v\n%s", err, &errors)
				}
				if *updateSDK && l.name == allSDKs[0].name && !lose {
					if err := os.WriteFile(sdks+"/testdata/scenario.txt", []byte(said.String()), 0o644); err != nil {
						t.Fatal(err)
					}
					return
				}
				if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(said.String(), "\n")); diff != "" {
					t.Errorf("differs from scenario.txt:\n%s\n%s", diff, &errors)
				}
				if proxy.losses > 0 != lose {
					t.Errorf("%d responses are lost", proxy.losses)
				}
				l := s.world.Ledger()
				if made, keys := len(l.Effects()), len(l.EffectsByKey()); made != 4 || keys != 4 || len(l.Live()) != 0 {
					t.Errorf("%d effects with %d keys, %d of them live; want 4, 4 and none", made, keys, len(l.Live()))
				}
			})
		}
	}
}

// TestSDKsKilled kills an agent in the middle of a step, between two steps, and in the middle of a
// step that nobody may repeat. A person decides about the last one. Each step has one effect.
func TestSDKsKilled(t *testing.T) {
	t.Parallel()
	for _, l := range allSDKs {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			program := l.program(t)
			s := stageSDK(t)
			r := &agentRun{name: "sdk", key: "k", actions: "refund,refund-charge", input: "null", restarts: 3,
				command: append([]string{"env", "WORLD=" + s.world.URL}, append(program, "killed")...)}
			s.runAgent(r)
			for !strings.Contains(r.said.String(), "the agent is parked") {
				select {
				case <-r.ended:
					t.Fatalf("the agent has ended:\n%s", &r.said)
				case <-time.After(20 * time.Millisecond):
				}
			}
			var list struct{ Data []struct{ ID string } }
			s.get("/v1/sagas", &list)
			if out, code := s.command("resolve", list.Data[0].ID, "own.mail", "--outcome", "succeeded", "--set-output", "{}", "--reason", "it was sent", "--server", "http://"+s.server.addr); code != 0 {
				t.Fatalf("resolve: %s", out)
			}
			out, code := r.end()
			if lives := strings.Count(out, ": begins"); code != 0 || lives != 5 || strings.Count(out, "done\n") != 1 {
				t.Errorf("exit %d after %d lives, want 0 and 5:\n%s", code, lives, out)
			}
			l := s.world.Ledger()
			for op, n := range map[string]int{"charge": len(l.Op("pay", "charge").Effects()), "refund": len(l.Op("pay", "refund").Effects()), "mail": len(l.Op("mail", "send").Effects())} {
				if n != 1 {
					t.Errorf("%s: %d effects, want 1\n%s", op, n, out)
				}
			}
		})
	}
}
