// Package process starts other processes of this program, which end with it, and sets how often a
// long-lived process collects garbage.
package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"recourse/internal/cli"
)

// Process is another process of this program.
type Process struct {
	name  string
	URL   string
	cmd   *exec.Cmd
	stdin io.Closer
	log   string        // the file with its stderr
	Ended chan struct{} // closed when it has ended
}

// OwnEnv returns an environment without recourse's settings, which are meant for other servers.
func OwnEnv(env []string) []string {
	var out []string
	for _, e := range env {
		of := func(prefix string) bool { return strings.HasPrefix(e, prefix) }
		if of("RECOURSE_TEST_") || !slices.ContainsFunc([]string{"RECOURSE_", "OPENAI_", "ANTHROPIC_"}, of) {
			out = append(out, e)
		}
	}
	return out
}

// listening is the timeout for a process to listen.
const listening = 20 * time.Second

// Start runs this program with args and returns when it reports its address. The process ends with
// this one: its stdin is a pipe, which closes when this process ends.
func Start(a *cli.App, dir string, env []string, name string, args ...string) (*Process, error) {
	self, err := a.Program()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	//nolint:noctx // Kill and Stop end it
	p := &Process{name: name, cmd: exec.Command(self, args...), Ended: make(chan struct{})}
	p.cmd.Env = env
	p.log = filepath.Join(dir, name+".log")
	stderr, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	defer func() { _ = stderr.Close() }()
	p.cmd.Stderr = stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	said := make(chan string, 1)
	go func() {
		defer close(p.Ended)
		read := bufio.NewReader(stdout)
		line, _ := read.ReadString('\n')
		said <- line
		_, _ = io.Copy(io.Discard, read)
		_ = p.cmd.Wait() // the caller notices how it ended
	}()
	return p, p.await(a.Ctx, said)
}

func (p *Process) await(ctx context.Context, said <-chan string) error {
	late := time.NewTimer(listening)
	defer late.Stop()
	select {
	case line := <-said:
		_, url, ok := strings.Cut(line, "listening on ")
		if p.URL = strings.TrimSpace(url); ok {
			return nil
		}
		p.Kill()
		return fmt.Errorf("%s did not start: %s", p.name, p.LastLine())
	case <-late.C:
		p.Kill()
		return fmt.Errorf("%s did not start within %s: %s", p.name, listening, p.LastLine())
	case <-ctx.Done():
		p.Kill()
		return errors.New("interrupted")
	}
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// LastLine returns the last line that the process logged.
func (p *Process) LastLine() string {
	b, err := os.ReadFile(p.log)
	if err != nil || len(b) == 0 {
		return "it printed nothing"
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return all[len(all)-1]
}

// Kill ends the process as a crash does (SIGKILL), and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails if it has ended
	<-p.Ended
}

// Stop asks the process to end, and waits for a limited time.
func (p *Process) Stop() {
	p.stdin.Close()
	late := time.NewTimer(listening)
	defer late.Stop()
	select {
	case <-p.Ended:
	case <-late.C:
		p.Kill()
	}
}
