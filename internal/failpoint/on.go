//go:build failpoints

// Package failpoint marks the points at which tests inject a crash, a freeze or an error. It is
// built with the tag `failpoints`. Each armed point acts once. There are two ways to arm points:
//
//   - RECOURSE_FAILPOINTS is a comma-separated list of name=action@n, which acts at the nth call of
//     the named point (the first one without @n).
//   - RECOURSE_FAILPOINTS_DIR is a directory with a file armed/NAME that contains an action, and a
//     directory struck/NAME. The first process that reaches the point renames the file to
//     struck/NAME/PID-N and acts. So a test can arm running processes, and sees which one acted.
//
// The actions are kill (SIGKILL to this process), stop (SIGSTOP) and error.
package failpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// Enabled reports whether the program was built with failpoints.
const Enabled = true

// ErrInjected is wrapped by the errors that points return. It looks like the error of a database
// that does not respond.
var ErrInjected = fmt.Errorf("injected by a failpoint: %w", syscall.ECONNREFUSED)

var (
	points = sync.OnceValue(parse)
	dir    = sync.OnceValue(func() string { return os.Getenv("RECOURSE_FAILPOINTS_DIR") })
	taken  atomic.Int64
)

// Hit marks a point that cannot return an error.
func Hit(name string) {
	if act(name) {
		panic("failpoint " + name + " has no error to return: arm it with kill or stop")
	}
}

// Err marks a point. If it is armed with error, it returns an error, which wraps as if that is not
// nil. Before an operation the error means that it was not done; after it, that its response is
// lost.
func Err(name string, as error) error {
	switch {
	case !act(name):
		return nil
	case as == nil:
		return fmt.Errorf("%w: %s", ErrInjected, name)
	}
	return fmt.Errorf("%w: %w: %s", as, ErrInjected, name)
}

// act executes the armed action, and reports whether that is an error.
func act(name string) bool {
	switch take(name) {
	case "error":
		return true
	case "kill":
		signal(syscall.SIGKILL)
		select {} // nothing may run between the signal and the end of the process
	case "stop":
		signal(syscall.SIGSTOP)
	}
	return false
}

func signal(s syscall.Signal) {
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		panic(err)
	}
}

// take returns the action for this call; "" for none.
func take(name string) string {
	if p := points()[name]; p != nil {
		if action := p.hit(); action != "" {
			return action
		}
	}
	if dir() == "" {
		return ""
	}
	struck := filepath.Join(dir(), "struck", name, fmt.Sprintf("%d-%d", os.Getpid(), taken.Add(1)))
	if os.Rename(filepath.Join(dir(), "armed", name), struck) != nil {
		return "" // not armed, or another process took it first
	}
	action, err := os.ReadFile(struck)
	if err != nil {
		panic(err)
	}
	return check(strings.TrimSpace(string(action)))
}

// point is a point that the environment arms.
type point struct {
	mu     sync.Mutex
	action string
	left   int
}

func (p *point) hit() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left--; p.left != 0 {
		return ""
	}
	return p.action
}

func check(action string) string {
	if action != "kill" && action != "stop" && action != "error" {
		panic(fmt.Sprintf("failpoint: %q: the actions are kill, stop and error", action))
	}
	return action
}

func parse() map[string]*point {
	m := make(map[string]*point)
	for item := range strings.SplitSeq(os.Getenv("RECOURSE_FAILPOINTS"), ",") {
		if item == "" {
			continue
		}
		name, action, _ := strings.Cut(item, "=")
		action, nth, counted := strings.Cut(action, "@")
		p := &point{action: check(action), left: 1}
		if counted {
			n, err := strconv.Atoi(nth)
			if err != nil || n < 1 {
				panic(fmt.Sprintf("failpoint: %q: @ takes a number from 1", item))
			}
			p.left = n
		}
		m[name] = p
	}
	return m
}
