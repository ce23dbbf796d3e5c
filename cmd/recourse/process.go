package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"recourse/internal/cli"
)

// process is another process of this program.
type process struct {
	name  string
	url   string
	cmd   *exec.Cmd
	stdin io.Closer
	log   string        // the file with its stderr
	ended chan struct{} // closed when it has ended
}

// listening is the timeout for a process to listen.
const listening = 20 * time.Second

// spawn runs this program with args and returns when it reports its address. The process ends with
// this one: its stdin is a pipe, which closes when this process ends.
func spawn(a *cli.App, dir string, env []string, name string, args ...string) (*process, error) {
	self, err := a.Program()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	p := &process{name: name, cmd: exec.Command(self, args...), ended: make(chan struct{})}
	p.cmd.Env = env
	p.log = filepath.Join(dir, name+".log")
	stderr, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	defer stderr.Close()
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
		defer close(p.ended)
		read := bufio.NewReader(stdout)
		line, _ := read.ReadString('\n')
		said <- line
		io.Copy(io.Discard, read)
		p.cmd.Wait() // the caller notices how it ended
	}()
	return p, p.await(a.Ctx, said)
}

func (p *process) await(ctx context.Context, said <-chan string) error {
	late := time.NewTimer(listening)
	defer late.Stop()
	select {
	case line := <-said:
		_, url, ok := strings.Cut(line, "listening on ")
		if p.url = strings.TrimSpace(url); ok {
			return nil
		}
		p.kill()
		return fmt.Errorf("%s did not start: %s", p.name, p.last())
	case <-late.C:
		p.kill()
		return fmt.Errorf("%s did not start within %s: %s", p.name, listening, p.last())
	case <-ctx.Done():
		p.kill()
		return errors.New("interrupted")
	}
}

// last returns the last line that the process logged.
func (p *process) last() string {
	b, err := os.ReadFile(p.log)
	if err != nil || len(b) == 0 {
		return "it printed nothing"
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return all[len(all)-1]
}

// kill ends the process as a crash does (SIGKILL), and waits for its end.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.ended
}

// stop asks the process to end, and waits for a limited time.
func (p *process) stop() {
	p.stdin.Close()
	late := time.NewTimer(listening)
	defer late.Stop()
	select {
	case <-p.ended:
	case <-late.C:
		p.kill()
	}
}
