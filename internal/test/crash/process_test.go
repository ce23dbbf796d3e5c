package crash

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"recourse/examples/world"
)

// process is a process that runs or has ended.
type process struct {
	cmd       *exec.Cmd
	said      chan string   // gets the URL that it listens on
	url       string        // "" before, or if it ended before
	dead      chan struct{} // closed when it has ended
	signalled atomic.Int32  // how often it got a signal to stop
}

// spawn starts a program. Its stdin stays open while we live.
func spawn(path string, env []string, log io.Writer, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), said: make(chan string, 1), dead: make(chan struct{})}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), env...), log
	if _, err := p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, at, ok := strings.Cut(lines.Text(), "listening on "); ok {
				p.said <- strings.TrimSpace(at)
				break
			}
		}
		_, _ = io.Copy(io.Discard, out)
		_ = p.cmd.Wait() // how it ended is in its state
		close(p.dead)
	}()
	return p, nil
}

// listens waits until the process says where it listens, or has ended.
func (p *process) listens() bool {
	select {
	case p.url = <-p.said:
	case <-p.dead:
	}
	return p.url != ""
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// signal sends a signal; to a process that has ended it does nothing.
func (p *process) signal(sig syscall.Signal) {
	if sig == syscall.SIGTERM {
		p.signalled.Add(1)
	}
	_ = p.cmd.Process.Signal(sig)
}

// ended returns how the process ended: "signal: killed", for one.
func (p *process) ended() string { return p.cmd.ProcessState.String() }

// gone waits until the process has ended.
func (p *process) gone(within time.Duration) bool {
	select {
	case <-p.dead:
		return true
	case <-time.After(within):
		return false
	}
}

// stopped waits until a process is stopped or has ended.
func stopped(pid int, within time.Duration) bool {
	for deadline := time.Now().Add(within); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		// The third field is the state; the second, in parentheses, is the program's name.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return true
		}
		if _, rest, ok := strings.Cut(string(stat), ") "); ok && strings.IndexByte("TZX", rest[0]) >= 0 {
			return true
		}
	}
	return false
}

// startWorld starts a world as a process of its own.
func startWorld(t *testing.T, program string, args ...string) *world.Control {
	t.Helper()
	p, err := spawn(program, nil, os.Stderr, append([]string{"world"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.dead
	})
	if !p.listens() {
		t.Fatal("the world does not listen: " + p.ended())
	}
	return &world.Control{URL: p.url}
}
