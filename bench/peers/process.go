package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// process is a program that prints a line when it is ready, and ends when its stdin ends.
type process struct {
	name    string
	dir     string // for its log
	command []string
	env     []string // in addition to this process's
	cmd     *exec.Cmd
	stdin   io.Closer
	ended   chan struct{}
}

// How long a program may take to be ready, which includes the creation of its tables, and to end.
const (
	readyWithin = 90 * time.Second
	endWithin   = 20 * time.Second
)

// Name implements measure.Peer.
func (p *process) Name() string { return p.name }

// listen starts a program of this repository, and returns its URL.
func (p *process) listen(ctx context.Context) (string, error) { return p.start(ctx, "listening on ") }

// start starts the program, and returns the rest of the first line with mark.
func (p *process) start(ctx context.Context, mark string) (string, error) {
	file := filepath.Join(p.dir, p.name+".log")
	log, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _ = log.Close() }()
	//nolint:noctx // Stop and Kill end it
	p.cmd = exec.Command(p.command[0], p.command[1:]...)
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), p.env...), log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Kill ends its children, too
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return "", err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := p.cmd.Start(); err != nil {
		return "", err
	}
	ready := make(chan string, 1)
	p.ended = make(chan struct{})
	go func() {
		defer close(p.ended)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if _, rest, ok := strings.Cut(lines.Text(), mark); ok {
				ready <- rest
				break
			}
		}
		_, _ = io.Copy(io.Discard, stdout)
		_ = p.cmd.Wait() // it ends by Stop or Kill, or the caller notices
	}()
	late := time.NewTimer(readyWithin)
	defer late.Stop()
	select {
	case rest := <-ready:
		return strings.TrimSpace(rest), nil
	case <-p.ended:
	case <-late.C:
	case <-ctx.Done():
	}
	p.Kill()
	b, _ := os.ReadFile(file)
	return "", fmt.Errorf("%s did not start; the end of its log: %s", p.name, b[max(len(b)-2000, 0):])
}

// Stop closes the program's stdin, and waits for its end.
func (p *process) Stop() {
	p.stdin.Close()
	select {
	case <-p.ended:
	case <-time.After(endWithin):
	}
	p.Kill()
}

// Kill ends the program and its children with SIGKILL.
func (p *process) Kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	<-p.ended
}
