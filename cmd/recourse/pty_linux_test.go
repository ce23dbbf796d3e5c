package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// pty is a pseudo-terminal whose screen a test can read.
type pty struct {
	master, slave *os.File
	read          chan struct{} // closed when all output was read

	mu     sync.Mutex
	screen *screen
}

// terminalOf creates a terminal of a size.
func terminalOf(t *testing.T, columns, rows int) *pty {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatalf("a pseudo terminal is needed (Linux, with /dev/ptmx and /dev/pts mounted): %v", err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &pty{master: master, slave: slave, read: make(chan struct{}), screen: &screen{columns: columns, rows: rows}}
	p.resize(t, columns, rows)
	go func() {
		defer close(p.read)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			p.mu.Lock()
			p.screen.write(string(buf[:n]))
			p.mu.Unlock()
			if err != nil { // EIO: the last slave is closed
				return
			}
		}
	}()
	t.Cleanup(func() { master.Close() })
	return p
}

func (p *pty) resize(t *testing.T, columns, rows int) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(p.slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(columns)}); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.screen.resize(columns)
	p.mu.Unlock()
}

// shown returns the present text of the screen, including what has scrolled away.
func (p *pty) shown() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.screen.text()
}

// end returns the final text of the screen.
func (p *pty) end() string {
	p.slave.Close()
	<-p.read
	return p.shown()
}

// onTerminal runs the program on a terminal to its end and returns the text of the screen.
func onTerminal(t *testing.T, columns int, env []string, args ...string) (code int, screen string, p *pty) {
	t.Helper()
	p = terminalOf(t, columns, 50)
	m := Main{Args: args, Env: append([]string{"TERM=xterm"}, env...), Stdin: strings.NewReader(""), Stdout: p.slave, Stderr: p.slave}
	code = m.Run(t.Context())
	return code, p.end(), p
}

// within asserts that no line was wrapped.
func (p *pty) within(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.screen.wraps > 0 {
		t.Errorf("%d lines are longer than %d characters:\n%s", p.screen.wraps, p.screen.columns, p.screen.text())
	}
}
