package examples

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil { // plays mostly wait, so many can run at once
		panic(err)
	}
	os.Exit(m.Run())
}

// process is a running `recourse serve`.
type process struct {
	cmd  *exec.Cmd
	addr string
	dead chan struct{} // closed when the process has ended
}

// launch starts a process and returns when it accepts requests. It ends with this test program,
// because its stdin is a pipe from it.
func launch(path string, env []string, log io.Writer, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), dead: make(chan struct{})}
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
	said := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, at, ok := strings.Cut(lines.Text(), "listening on http://"); ok {
				said <- strings.TrimSpace(at)
				break
			}
		}
		_, _ = io.Copy(io.Discard, out)
		_ = p.cmd.Wait() // its state has the result
		close(p.dead)
	}()
	select {
	case p.addr = <-said:
		return p, nil
	case <-p.dead:
		return nil, fmt.Errorf("serve: %s", p.cmd.ProcessState)
	}
}

// kill kills the process.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.dead
}
