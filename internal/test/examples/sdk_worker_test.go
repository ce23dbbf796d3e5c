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
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"recourse/saga"
)

// tasker is a server with one task, whose heartbeats the test answers.
type tasker struct {
	lease, left time.Duration                              // of the task, and after that until its deadline
	beat        func(n int, r *http.Request) (answer bool) // nil: each heartbeat is accepted
	mu          sync.Mutex
	deadline    time.Time // guarded by mu
	claims      int       // guarded by mu
	beats       int       // guarded by mu
	ends        []string  // bodies of complete and fail, guarded by mu
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
		s.deadline = until.Add(s.left)
		_ = json.NewEncoder(w).Encode(map[string]any{"data": []map[string]any{{"id": "t", "type": "work", "attempt": 1, "key": "k", "lease": "l", "input": nil,
			"lease_ms": s.lease.Milliseconds(), "lease_until": saga.Time{Time: until}, "deadline": saga.Time{Time: s.deadline}}}})
	case "heartbeat":
		s.beats++
		n := s.beats
		if until.After(s.deadline) {
			until = s.deadline
		}
		s.mu.Unlock()
		answer := s.beat == nil || s.beat(n, r)
		s.mu.Lock()
		if answer {
			_ = json.NewEncoder(w).Encode(map[string]any{"lease_until": saga.Time{Time: until}, "cancel": false})
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
	s := &tasker{lease: time.Minute, left: time.Hour}
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
    if stop.wait(20):
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

// lostTasks are tasks whose leases end during the work, and the longest time that a worker may need
// to notice it.
var lostTasks = map[string]struct {
	lease, left time.Duration
	beat        func(n int, r *http.Request) bool
	within      time.Duration
}{
	"heartbeats without responses": {6 * time.Second, time.Hour, func(n int, r *http.Request) bool {
		if n > 1 {
			<-r.Context().Done()
		}
		return n == 1
	}, 7500 * time.Millisecond},
	"the deadline": {3 * time.Second, time.Second, nil, 15 * time.Second},
}

// A worker notices the end of a lease when it comes, whatever happens to its heartbeats.
func TestSDKsNoticeTheEndOfALease(t *testing.T) {
	t.Parallel()
	for name := range lostTasks {
		for sdk, run := range map[string]func(*testing.T, http.Handler) string{
			"python": func(t *testing.T, s http.Handler) string {
				return pythonSDK(t, s, `
stop = threading.Event()
def do(work):
    began = time.monotonic()
    work.lost.wait(20)
    print(int(1000 * (time.monotonic() - began)))
    stop.set()
client.work(["work"], do, stop=stop)
`)
			},
			"typescript": func(t *testing.T, s http.Handler) string {
				return typescriptSDK(t, s, `
const stop = new AbortController()
await client.work(['work'], async work => {
  const began = performance.now()
  const patient = setTimeout(() => work.lost.abort(), 20000)
  await new Promise(lost => work.lost.signal.addEventListener('abort', lost))
  clearTimeout(patient)
  console.log(Math.floor(performance.now() - began))
  stop.abort()
}, { stop: stop.signal })
`)
			},
		} {
			t.Run(name+" in "+sdk, func(t *testing.T) {
				t.Parallel()
				l := lostTasks[name]
				s := &tasker{lease: l.lease, left: l.left, beat: l.beat}
				said := run(t, s)
				if ms, err := strconv.Atoi(said); err != nil || time.Duration(ms)*time.Millisecond > l.within {
					t.Errorf("it is noticed after %s ms, want %v at most", said, l.within)
				}
			})
		}
	}
}

// The other tasks of a worker whose claim is refused end before the worker does.
func TestSDKTypeScriptRefused(t *testing.T) {
	t.Parallel()
	tasks := &tasker{lease: time.Minute, left: time.Hour}
	s := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tasks.mu.Lock()
		refused := tasks.claims > 0 && strings.HasSuffix(r.URL.Path, "/claim")
		tasks.mu.Unlock()
		if refused {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		tasks.ServeHTTP(w, r)
	})
	said := typescriptSDK(t, s, `
const work = async () => {
  await sleep(500)
  console.log('the task ends')
}
await client.work(['work'], work, { parallel: 3 }).catch(problem => console.log('the worker ends', problem.status))
`)
	if want := "the task ends\nthe worker ends 403"; said != want || len(tasks.ends) != 1 {
		t.Errorf("it prints %q, want %q; the ends of the task: %q", said, want, tasks.ends)
	}
}
