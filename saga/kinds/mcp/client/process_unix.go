//go:build unix && !linux

package client

import (
	"os"
	"syscall"
)

// attributes gives a child process a group of its own. It ends with this process because its stdin
// ends then.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills a child process with its children.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
