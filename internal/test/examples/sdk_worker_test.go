package examples

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// tasker is a server with one task, whose heartbeats the test answers.
type tasker struct {
	lease, left time.Duration                                 // of the task, and after that until its deadline
	beat        func(n int, w http.ResponseWriter) (ok bool) // nil: each heartbeat is accepted
	mu          sync.Mutex
	claims      int      // guarded by mu
	beats       int      // guarded by mu
	ends        []string // bodies of complete and fail, guarded by mu
}

// ServeHTTP implements http.Handler.
func (s *tasker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	until := time.Now().Add(s.lease).UTC()
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch part := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]; part {
	case "claim":
		if s.claims++; s.claims > 1 {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": []map[string]any{{"id": "t", "type": "work", "attempt": 1, "key": "k", "lease": "l", "input": nil,
			"lease_ms": s.lease.Milliseconds(), "lease_until": until, "deadline": until.Add(s.left)}}})
	case "heartbeat":
		s.beats++
		if s.beat == nil || s.beat(s.beats, w) {
			_ = json.NewEncoder(w).Encode(map[string]any{"lease_until": until, "cancel": false})
		}
	default:
		s.ends = append(s.ends, part+" "+string(body))
		_, _ = io.WriteString(w, "{}")
	}
}

// pythonSDK runs a script that has imported the SDK for Python, with a server, and returns what it
// prints.
func pythonSDK(t *testing.T, server http.Handler, script string, env ...string) string {
	t.Helper()
	srv := httptest.NewServer(server)
	defer srv.Close()
	const begin = "import os, signal, sys, threading, time, recourse\nclient = recourse.Client(os.environ['SERVER'])\n"
	cmd := exec.CommandContext(t.Context(), "python3", "-c", begin+script)
	cmd.Env = append(append(os.Environ(), "SERVER="+srv.URL, "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+sdks+"/python"), env...)
	return sdkOutput(t, cmd)
}

// typescriptSDK does the same with the SDK for TypeScript.
func typescriptSDK(t *testing.T, server http.Handler, script string) string {
	t.Helper()
	node := buildTypeScript(t)
	srv := httptest.NewServer(server)
	defer srv.Close()
	sdk, err := filepath.Abs(sdks + "/typescript/dist/recourse.js")
	if err != nil {
		t.Fatal(err)
	}
	begin := fmt.Sprintf("import * as recourse from %q\nconst client = new recourse.Client(process.env.SERVER)\nconst sleep = ms => new Promise(done => setTimeout(done, ms))\n", sdk)
	cmd := exec.CommandContext(t.Context(), node, "--input-type=module", "-e", begin+script)
	cmd.Env = append(os.Environ(), "SERVER="+srv.URL)
	return sdkOutput(t, cmd)
}

func sdkOutput(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var said, logged strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &logged
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s", err, &logged)
	}
	return strings.TrimSpace(said.String())
}

// A handler that ends its thread, as sys.exit does, leaves its task in doubt, and ends the worker.
func TestSDKPythonHandlerExits(t *testing.T) {
	t.Parallel()
	s := &tasker{lease: 300 * time.Millisecond, left: time.Hour}
	said := pythonSDK(t, s, `
stop = threading.Event()
try:
    client.work(["work"], lambda work: sys.exit("enough"), stop=stop)
except SystemExit as error:
    rest = [t for t in threading.enumerate() if t is not threading.main_thread()]
    for thread in rest:
        thread.join(20)
    print("work ends:", error, stop.is_set(), [t.name for t in rest if t.is_alive()])
`)
	if want := "work ends: enough True []"; said != want {
		t.Errorf("it prints %q, want %q", said, want)
	}
	if len(s.ends) != 1 || !strings.HasPrefix(s.ends[0], "fail ") || !strings.Contains(s.ends[0], `"in_doubt": true`) {
		t.Errorf("the ends of the task: %q", s.ends)
	}
}

// After Ctrl-C, a worker claims no more tasks, and ends once the task at hand has ended.
func TestSDKPythonInterrupted(t *testing.T) {
	t.Parallel()
	s := &tasker{lease: time.Minute, left: time.Hour}
	said := pythonSDK(t, s, `
signal.signal(signal.SIGINT, signal.default_int_handler)
stop = threading.Event()
def do(work):
    os.kill(os.getpid(), signal.SIGINT)
    if stop.wait(5):
        print("the task sees the end")
try:
    client.work(["work"], do, stop=stop)
except KeyboardInterrupt:
    print("interrupted")
stop.set()  # otherwise a worker that goes on never ends
`)
	if want := "the task sees the end\ninterrupted"; said != want || s.claims != 1 || len(s.ends) != 1 {
		t.Errorf("it prints %q, want %q; %d claims, and the ends of the task: %q", said, want, s.claims, s.ends)
	}
}
