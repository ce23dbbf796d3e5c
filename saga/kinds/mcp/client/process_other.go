//go:build !unix

package client

import (
	"os"
	"syscall"
)

// attributes changes nothing. A child process ends with this process because its stdin ends then.
func attributes() *syscall.SysProcAttr { return nil }

// killGroup kills a child process.
func killGroup(p *os.Process) { _ = p.Kill() }
