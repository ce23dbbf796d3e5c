package crashtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"recourse/examples/world"
	"recourse/internal/testpg"
	"recourse/journal"
	"recourse/journal/postgres"
	"recourse/journal/sqlite"
)

// binary builds the program with failpoints, once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "recourse-crashtest")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "recourse")
	out, err := exec.Command("go", "build", "-race", "-tags", "failpoints", "-o", path, "recourse/cmd/recourse").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// database is one under test, and how to look into it.
type database struct {
	url  string
	open func(t *testing.T) journal.Store
}

func databases() map[string]func(t *testing.T) database {
	return map[string]func(t *testing.T) database{
		"sqlite": func(t *testing.T) database {
			path := filepath.Join(t.TempDir(), "recourse.db")
			return database{path, func(t *testing.T) journal.Store {
				s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}}
		},
		"postgres": func(t *testing.T) database {
			dsn := testpg.DSN(t)
			return database{dsn, func(t *testing.T) journal.Store {
				s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}}
		},
	}
}

// server is a running program.
type server struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	dead chan struct{}
	log  *bytes.Buffer
}

// serve starts the program; failpoints is RECOURSE_FAILPOINTS. It returns nil if
// the program was killed before it listened, as a failpoint may want.
func serve(t *testing.T, db database, w *world.Server, failpoints string) *server {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "serve", "--database", db.url, "--listen", "127.0.0.1:0", "--egress-allow", "127.0.0.1", "--node-lease", "1s", "--drain", "5s")
	cmd.Env = append(os.Environ(), "RECOURSE_FAILPOINTS="+failpoints)
	for _, name := range []string{"air", "hotels", "pay", "mail", "things"} {
		cmd.Env = append(cmd.Env, "RECOURSE_VAR_"+name+"="+w.URL+"/"+name)
	}
	s := &server{t: t, cmd: cmd, dead: make(chan struct{}), log: new(bytes.Buffer)}
	cmd.Stderr = s.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	listening := make(chan string, 1)
	go func() {
		defer close(listening)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, url, ok := strings.Cut(lines.Text(), "listening on "); ok {
				listening <- strings.TrimSpace(url)
				break
			}
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
		close(s.dead)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-s.dead
		if bytes.Contains(s.log.Bytes(), []byte("DATA RACE")) {
			t.Error("the race detector found something in the server")
		}
		if t.Failed() {
			t.Logf("the server's log:\n%s", s.log)
		}
	})
	select {
	case s.url = <-listening:
	case <-time.After(30 * time.Second):
		t.Fatal("the server does not listen")
	}
	return s
}

// await waits until the program is dead.
func (s *server) await(why string) {
	s.t.Helper()
	select {
	case <-s.dead:
	case <-time.After(20 * time.Second):
		s.t.Fatalf("the program still lives: %s", why)
	}
}

// frozen waits until the program has stopped itself.
func (s *server) frozen(why string) {
	s.t.Helper()
	for range 1000 {
		// The third field is the state; the second, in parentheses, is the program's name.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
		if err != nil {
			s.t.Fatal(err)
		}
		if _, rest, ok := strings.Cut(string(stat), ") "); ok && strings.HasPrefix(rest, "T") {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	s.t.Fatalf("the program has not frozen: %s", why)
}

func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// request sends one; status 0 is no answer.
func (s *server) request(method, path, key string, body []byte) (int, []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil
	}
	return resp.StatusCode, b
}

func (s *server) publish(source string) {
	s.t.Helper()
	name := strings.Fields(source)[1]
	if status, body := s.request("PUT", "/v1/definitions/"+name, "", []byte(source)); status != 201 && status != 200 {
		s.t.Fatalf("publish %s: %d %s", name, status, body)
	}
}

// start starts a saga under a client's key, and returns its id, "" if there was no answer.
func (s *server) start(definition, key string) string {
	s.t.Helper()
	status, body := s.request("POST", "/v1/sagas", key, []byte(`{"definition":"`+definition+`","input":{}}`))
	if status == 0 {
		return ""
	}
	if status != 201 && status != 200 {
		s.t.Fatalf("start: %d %s", status, body)
	}
	var saga struct{ ID string }
	if err := json.Unmarshal(body, &saga); err != nil {
		s.t.Fatal(err)
	}
	return saga.ID
}
