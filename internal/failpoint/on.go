//go:build failpoints

// Package failpoint marks the places where a crash, a freeze or an error is
// worth a test. It is built with the tag `failpoints`, and acts at the points
// that are armed, each once, in one of two ways:
//
//   - RECOURSE_FAILPOINTS is a comma-separated list of name=action@n, which acts at
//     the nth hit of the name (1 without @n);
//   - RECOURSE_FAILPOINTS_DIR names a directory, in which a file armed/NAME holds an
//     action, and a directory struck/NAME is there. Whichever process comes by first takes the file,
//     by renaming it to struck/NAME/PID-N, and acts. So processes that run are armed, and who armed them sees who acted.
//
// The actions are kill (SIGKILL to this very process), stop (SIGSTOP) and error.
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

// ErrInjected is wrapped by the errors that points return. They pass for a database that does not
// answer.
var ErrInjected = fmt.Errorf("injected by a failpoint: %w", syscall.ECONNREFUSED)

var (
	points = sync.OnceValue(parse)
	dir    = sync.OnceValue(func() string { return os.Getenv("RECOURSE_FAILPOINTS_DIR") })
	taken  atomic.Int64
)

// Hit passes the named point, where there is nothing to return an error.
func Hit(name string) {
	if act(name) {
		panic("failpoint " + name + " has no error to return: arm it with kill or stop")
	}
}

// Err passes the named point. Armed with error it returns one, which wraps as if that
// is not nil: before an operation, that it is not done; after it, that its answer is lost.
func Err(name string, as error) error {
	switch {
	case !act(name):
		return nil
	case as == nil:
		return fmt.Errorf("%w: %s", ErrInjected, name)
	}
	return fmt.Errorf("%w: %w: %s", as, ErrInjected, name)
}

// act does what the point is armed with, and says whether that is an error.
func act(name string) bool {
	switch take(name) {
	case "error":
		return true
	case "kill":
		signal(syscall.SIGKILL)
		select {} // nothing may happen between the signal and the death
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

// take returns the action to be carried out at this hit, "" for none.
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
		return "" // not armed, or another was first
	}
	action, err := os.ReadFile(struck)
	if err != nil {
		panic(err)
	}
	return check(strings.TrimSpace(string(action)))
}

// point is one that the environment arms.
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
	for _, item := range strings.Split(os.Getenv("RECOURSE_FAILPOINTS"), ",") {
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
