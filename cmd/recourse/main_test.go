package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"recourse/examples/world"
	"recourse/internal/cli"
	"recourse/internal/cli/config"
	"recourse/internal/test/buffer"
	"recourse/internal/test/golden"
	"recourse/internal/test/program"
)

// executable returns the program, for commands that run it as a separate process.
func executable(t *testing.T) func() (string, error) {
	return func() (string, error) { return program.Path(t), nil }
}

// pathVar returns PATH with the program's directory first.
func pathVar(t *testing.T) string {
	return "PATH=" + filepath.Dir(program.Path(t)) + string(os.PathListSeparator) + os.Getenv("PATH")
}

// result is the result of a run of the program.
type result struct {
	code        int
	out, errOut string
}

// run runs the program to its end.
func run(t *testing.T, env []string, args ...string) result {
	t.Helper()
	return runWith(t, "", env, args...)
}

func runWith(t *testing.T, stdin string, env []string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	m := Main{Args: args, Env: env, Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errOut, Program: executable(t)}
	code := m.Run(t.Context())
	return result{code, out.String(), errOut.String()}
}

// ok runs the program and fails the test unless it succeeds.
func ok(t *testing.T, env []string, args ...string) string {
	t.Helper()
	r := run(t, env, args...)
	if r.code != cli.OK {
		t.Fatalf("recourse %s: exit %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.errOut)
	}
	return r.out
}

// serving is `recourse serve`, run inside the test.
type serving struct {
	url  string
	says string     // the line about keys
	env  []string   // for commands against it
	stop func() int // ends it, and waits
	wait func() int // waits for its end, and returns its exit code
	log  *buffer.Buffer
}

// status sends a request without a body, and returns the status of the response.
func (s *serving) status(t *testing.T, method, path string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// serve starts the program's server on a free port.
func serve(t *testing.T, env []string, args ...string) *serving {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	read, write := io.Pipe()
	s := &serving{log: &buffer.Buffer{}}
	m := Main{Args: append([]string{"serve", "--listen", "127.0.0.1:0", "--egress-allow", "127.0.0.1"}, args...), Env: env,
		Stdin: strings.NewReader(""), Stdout: write, Stderr: s.log}
	ended := make(chan int, 1)
	go func() {
		ended <- m.Run(ctx)
		_ = write.Close()
	}()
	out := bufio.NewReader(read)
	line, err := out.ReadString('\n')
	if err == nil {
		s.says, err = out.ReadString('\n')
	}
	if err != nil {
		cancel()
		t.Fatalf("serve: exit %d: %s", <-ended, s.log)
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	s.wait = sync.OnceValue(func() int { return <-ended })
	s.stop = func() int {
		cancel()
		return s.wait()
	}
	t.Cleanup(func() { s.stop() })
	s.url = strings.TrimSpace(strings.TrimPrefix(line, "recourse listening on "))
	s.env = []string{"RECOURSE_SERVER=" + s.url}
	return s
}

// worldFor starts a world and returns the variables with its URLs.
func worldFor(t *testing.T) (*world.Server, []string) {
	t.Helper()
	w, err := world.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	var env []string
	for _, service := range []string{"air", "hotels", "pay", "stock", "shipping", "ship", "mail", "orders", "things"} {
		env = append(env, config.VarPrefix+service+"="+w.URL+"/"+service)
	}
	return w, env
}

// file writes a file into a new directory.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// changing are the texts that differ between runs, with their replacements in golden files.
var changing = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "<uuid>"},
	{regexp.MustCompile(`rk_[A-Za-z0-9_-]{43}`), "<key>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{3}Z)?`), "<time>"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "<host>"},
	{regexp.MustCompile(`key [0-9a-f]{8}…`), "key <key>"},
	{regexp.MustCompile(` *\+\d+\.\d{3}s`), "<offset>"},
	{regexp.MustCompile(`\d+(\.\d+)? (ms|s)\b`), "<span>"},
	{regexp.MustCompile(`[0-9a-f]{64}`), "<sha256>"},
	{regexp.MustCompile(`\b[0-9a-f]{12}\b`), "<sha>"},
}

func steady(s string) string {
	for _, c := range changing {
		s = c.pattern.ReplaceAllString(s, c.with)
	}
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// checkGolden compares output with a golden file, after replacing what differs between runs.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	golden.Check(t, name+".txt", steady(got))
}
