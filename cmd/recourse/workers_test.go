package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"recourse/internal/test/buffer"
	"recourse/saga"
	"recourse/saga/machine"
)

const workersDir = "../../examples/workers"

// worker runs one of the example workers, which are separate programs, until stop. The test fails
// if the worker's interpreter is missing.
func worker(t *testing.T, s *serving, more []string, name string, args ...string) (stop func()) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("the example workers need %s: %v", name, err)
	}
	var log buffer.Buffer
	c := exec.Command(path, args...)
	c.Env = append(append(os.Environ(), s.env...), more...)
	c.Stdout, c.Stderr = &log, &log
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with its children
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
		t.Logf("%s %s:\n%s", name, strings.Join(args, " "), &log)
	}
	t.Cleanup(stop)
	return stop
}

// workers runs all three, and returns the directory of the pages.
func workers(t *testing.T, s *serving, more ...string) (pages string) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatalf("publish.sh needs curl: %v", err)
	}
	pages = t.TempDir()
	announce := filepath.Join(t.TempDir(), "announce")
	if out, err := exec.Command("go", "build", "-o", announce, workersDir+"/announce").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	more = append(more, "PAGES="+pages)
	worker(t, s, more, "python3", workersDir+"/words.py")
	worker(t, s, more, "sh", workersDir+"/publish.sh")
	worker(t, s, more, announce)
	return pages
}

// runPage starts the example's saga, and waits for its end.
func runPage(t *testing.T, s *serving, input string, want saga.Status) machine.View {
	t.Helper()
	id := strings.Fields(ok(t, s.env, "start", "page", "--input", input))[0]
	return waitFor(t, s, id, want)
}

func TestExampleWorkers(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"))
	ok(t, s.env, "definitions", "apply", workersDir+"/page.yaml")
	pages := workers(t, s)

	if v := runPage(t, s, `{"name": "home", "text": "one ${2} \u0000 \"four\""}`, saga.Succeeded); string(v.Output) != `{"words":4,"file":"home.txt"}` {
		t.Errorf("output %s", v.Output)
	}
	if b, err := os.ReadFile(filepath.Join(pages, "home.txt")); err != nil || string(b) != "This is the page home.\n" {
		t.Errorf("page %q, %v", b, err)
	}

	empty := runPage(t, s, `{"name": "empty", "text": ""}`, saga.Compensated)
	if empty.Reason == nil || empty.Reason.Step != "count" || empty.Reason.Error != "too_short" {
		t.Errorf("reason %+v", empty.Reason)
	}
	if _, err := os.Stat(filepath.Join(pages, "empty.txt")); !os.IsNotExist(err) {
		t.Errorf("the page is there still: %v", err)
	}

	// Names with shell syntax, or that look like a response of the server, do not confuse the shell
	// worker.
	for _, name := range []string{"../x", "x y", "$(id)", `a\"},\"lease\":\"b\",\"lease_until\":\"`, "é", ""} {
		v := runPage(t, s, `{"name": "`+name+`", "text": "a"}`, saga.Compensated)
		if v.Reason == nil || v.Reason.Step != "publish" || v.Reason.Error != "bad_input" {
			t.Errorf("%s: reason %+v", name, v.Reason)
		}
	}
}

// Workers that need longer than their lease keep it.
func TestExampleWorkersBeat(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"))
	src, err := os.ReadFile(workersDir + "/page.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ok(t, s.env, "definitions", "apply", file(t, "page.yaml", strings.ReplaceAll(string(src), "heartbeat: 10s", "heartbeat: 5s")))
	workers(t, s, "SLOW=12")
	v := runPage(t, s, `{"name": "slow", "text": "a b"}`, saga.Succeeded)
	var steps []machine.StepView
	out := ok(t, s.env, "show", v.ID, "--steps", "-o", "json")
	if err := json.Unmarshal([]byte(out), &steps); err != nil || len(steps) != 3 {
		t.Fatalf("%d steps, %v: %s", len(steps), err, out)
	}
	for _, step := range steps {
		if len(step.Attempts) != 1 {
			t.Errorf("%s has %d attempts: %s", step.Path, len(step.Attempts), out)
		}
	}
}
