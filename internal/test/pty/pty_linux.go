// Package pty runs programs on a pseudo-terminal, and shows what a person would see on its screen.
package pty

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Terminal is a pseudo-terminal whose screen a test can read.
type Terminal struct {
	Master, Slave *os.File
	read          chan struct{} // closed when all output was read

	mu     sync.Mutex
	Screen *Screen
}

// Open creates a terminal of a size.
func Open(t *testing.T, columns, rows int) *Terminal {
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
	p := &Terminal{Master: master, Slave: slave, read: make(chan struct{}), Screen: &Screen{Columns: columns, Rows: rows}}
	p.Resize(t, columns, rows)
	go func() {
		defer close(p.read)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			p.mu.Lock()
			p.Screen.Write(string(buf[:n]))
			p.mu.Unlock()
			if err != nil { // EIO: the last slave is closed
				return
			}
		}
	}()
	t.Cleanup(func() { _ = master.Close() })
	return p
}

// Resize changes the size of the terminal.
func (p *Terminal) Resize(t *testing.T, columns, rows int) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(p.Slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(columns)}); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.Screen.resize(columns)
	p.mu.Unlock()
}

// Shown returns the present text of the screen, including what has scrolled away.
func (p *Terminal) Shown() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Screen.Text()
}

// End returns the final text of the screen.
func (p *Terminal) End() string {
	_ = p.Slave.Close()
	<-p.read
	return p.Shown()
}

// CheckWidth asserts that no line was wrapped.
func (p *Terminal) CheckWidth(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Screen.Wraps > 0 {
		t.Errorf("%d lines are longer than %d characters:\n%s", p.Screen.Wraps, p.Screen.Columns, p.Screen.Text())
	}
}

// Until waits until the screen shows a text, and checks after each output.
func (p *Terminal) Until(t *testing.T, text string) {
	t.Helper()
	late := time.After(time.Minute)
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !strings.Contains(p.Shown(), text) {
		select {
		case <-late:
			t.Fatalf("the screen does not show %q:\n%s", text, p.Shown())
		case <-look.C:
		}
	}
}
