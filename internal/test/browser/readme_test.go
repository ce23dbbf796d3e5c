package browser

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// clone copies the working tree as a new clone would be: nothing is built.
func clone(t *testing.T) string {
	t.Helper()
	const root = "../../.."
	list, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	for _, e := range list {
		switch from := filepath.Join(root, e.Name()); {
		case e.Name() == ".git", e.Name() == "bin":
		case e.IsDir():
			err = os.CopyFS(filepath.Join(to, e.Name()), os.DirFS(from))
		case filepath.Ext(e.Name()) == ".md", e.Name() == "Makefile", strings.HasPrefix(e.Name(), "go."):
			var b []byte
			if b, err = os.ReadFile(from); err == nil {
				err = os.WriteFile(filepath.Join(to, e.Name()), b, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// freePort returns an unused port.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// shell runs a script in a directory and returns its lines as they come. When the test ends, it
// interrupts the script and its background processes.
func shell(t *testing.T, dir, script string, env ...string) *bufio.Scanner {
	t.Helper()
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, append(os.Environ(), env...), &syscall.SysProcAttr{Setpgid: true}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	err = cmd.Start()
	_ = write.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // it may have ended already
		_, _ = io.Copy(io.Discard, read)                    // until the last process has ended
		_ = read.Close()
		_ = cmd.Wait()
	})
	return bufio.NewScanner(read)
}

// Every command of the README works in a clean clone, in order and unchanged except for the ports.
// The test pastes them all at once, so they wait only as the commands themselves do.
func TestREADME(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := shellOf.FindAllSubmatch(text, -1)
	if len(blocks) != 2 {
		t.Fatalf("the README has %d blocks of commands, want the demo's and those in your own hands", len(blocks))
	}
	dir, serve, world := clone(t), freePort(t), freePort(t)

	t.Run("demo", func(t *testing.T) {
		demo, _, _ := strings.Cut(string(blocks[0][1]), "\nopen ")
		lines := shell(t, dir, demo)
		var said bytes.Buffer
		var at string // 8080, or another port if that is taken
		for lines.Scan() && at == "" {
			fmt.Fprintln(&said, lines.Text())
			_, at, _ = strings.Cut(lines.Text(), "The server stays up at ")
		}
		at, _, _ = strings.Cut(at, ". ")
		resp, err := http.Get(at)
		if err != nil {
			t.Fatalf("%v:\n%s", err, &said)
		}
		resp.Body.Close()
	})

	t.Run("in your own hands", func(t *testing.T) {
		var script strings.Builder
		fmt.Fprintln(&script, `ID() { bin/recourse list -o json | grep -o '"id": *"[^"]*' | grep -o '[^"]*$' | tail -1; }`)
		ports := strings.NewReplacer("8080", serve, "9100", world, "show ID", `show "$(ID)"`)
		var commands []string
		for line := range strings.Lines(ports.Replace(string(blocks[1][1]))) {
			commands = append(commands, strings.TrimSpace(line))
			fmt.Fprintf(&script, "%secho \"exit $?\"\n", line)
		}
		fmt.Fprintln(&script, "echo done")
		lines := shell(t, dir, script.String(), "RECOURSE_LISTEN=127.0.0.1:"+serve, "RECOURSE_SERVER=http://127.0.0.1:"+serve)
		var said []string
		var exits []string
		for lines.Scan() && lines.Text() != "done" {
			said = append(said, lines.Text())
			if code, ok := strings.CutPrefix(lines.Text(), "exit "); ok {
				exits = append(exits, code)
			}
		}
		all := strings.Join(said, "\n")
		if len(exits) != len(commands) {
			t.Fatalf("%d of %d commands have ended:\n%s", len(exits), len(commands), all)
		}
		for i, code := range exits {
			want := "0"
			if strings.Contains(commands[i], "nowhere") { // it is undone
				want = "1"
			}
			if code != want {
				t.Errorf("%s: exit %s, want %s", commands[i], code, want)
			}
		}
		for _, want := range []string{`  succeeded\n`, `  compensated.*nobody lives at nowhere`, `■ succeeded after`} {
			if !regexp.MustCompile(want).MatchString(all + "\n") {
				t.Errorf("nothing says %s", want)
			}
		}
		if t.Failed() {
			t.Log(all)
		}
	})
}
