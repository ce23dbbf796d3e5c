//go:build failpoints

// Package failpoint marks the places where a crash is worth a test. In a program
// built with the tag `failpoints`, RECOURSE_FAILPOINTS arms them: a comma-separated
// list of name=action@n, which acts at the nth hit of the name (1 without @n).
// The actions are kill (SIGKILL to this very process) and stop (SIGSTOP).
package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Enabled reports whether the program was built with failpoints.
const Enabled = true

var points = sync.OnceValue(parse)

type point struct {
	mu     sync.Mutex
	signal syscall.Signal
	left   int
}

// Hit passes the named point.
func Hit(name string) {
	p := points()[name]
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left--; p.left != 0 {
		return
	}
	if err := syscall.Kill(os.Getpid(), p.signal); err != nil {
		panic(err)
	}
	if p.signal == syscall.SIGKILL {
		select {} // nothing may happen between the signal and the death
	}
}

func parse() map[string]*point {
	m := make(map[string]*point)
	for _, item := range strings.Split(os.Getenv("RECOURSE_FAILPOINTS"), ",") {
		if item == "" {
			continue
		}
		name, action, _ := strings.Cut(item, "=")
		action, nth, counted := strings.Cut(action, "@")
		p := &point{signal: syscall.SIGKILL, left: 1}
		if action == "stop" {
			p.signal = syscall.SIGSTOP
		} else if action != "kill" {
			panic(fmt.Sprintf("failpoint: %q: the actions are kill and stop", item))
		}
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
