package pgserver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"recourse/internal/test/buffer"
)

// Process is a server's process. It ends when this process ends, in whatever way.
type Process struct {
	cmd  *exec.Cmd
	keep io.WriteCloser // the process runs while it is open
	log  buffer.Buffer
}

// keeper is the shell script that is the parent of the process. It reads from a pipe: when this
// process ends, the pipe closes, and the script stops its child and deletes the directory. If it
// reads a line, which names a signal, it sends the child that signal. After any but STOP and CONT
// it waits for the child to end, and keeps the directory.
const keeper = `dir=$1; shift; "$@" & pid=$!
while read -r sig; do kill -$sig $pid; case $sig in STOP | CONT) ;; *) wait $pid; exit ;; esac; done
kill -CONT $pid; kill -INT $pid; wait $pid; cd /; rm -rf "$dir"`

// Spawn starts a program in a directory of TempDir, as the directory's user.
func Spawn(dir, program string, args ...string) (*Process, error) {
	as, err := unprivileged(dir)
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command("/bin/sh", append([]string{"-c", keeper, "sh", dir, program}, args...)...)}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, &p.log, &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Setpgid: true} // this process handles Ctrl-C
	// A child of the program may have its output open.
	p.cmd.WaitDelay = 5 * time.Second
	if p.keep, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return p, p.cmd.Start()
}

// Freeze stops the process as SIGSTOP does, until Thaw.
func (p *Process) Freeze() error { return p.signal("STOP") }

// Thaw continues a process after Freeze.
func (p *Process) Thaw() error { return p.signal("CONT") }

func (p *Process) signal(name string) error {
	_, err := io.WriteString(p.keep, name+"\n")
	return err
}

// Halt stops the process with a signal, see Fast, and keeps its directory.
func (p *Process) Halt(signal string) error {
	return errors.Join(p.signal(signal), p.wait())
}

// Stop stops the process and deletes its directory.
func (p *Process) Stop() error { return errors.Join(p.keep.Close(), p.wait()) }

func (p *Process) wait() error {
	err := p.cmd.Wait()
	if errors.As(err, new(*exec.ExitError)) || errors.Is(err, exec.ErrWaitDelay) {
		return nil // it was killed by the signal, as intended
	}
	return err
}

// Log returns the output of the process.
func (p *Process) Log() string { return p.log.String() }

// TempDir creates a directory for the user that servers run as.
func TempDir() (string, error) { return tempDir("") }

// tempDir creates one in a directory; "" stands for os.TempDir.
func tempDir(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, "pgserver-")
	if err != nil {
		return "", err
	}
	_, err = unprivileged(dir)
	return dir, err
}

// unprivileged gives a file or directory to a user that may run PostgreSQL, because root may not.
func unprivileged(path string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(path, uid, gid)
	}
	return nil, errors.New("PostgreSQL does not run as root: add a user named postgres")
}

// command runs a program of PostgreSQL as a directory's user, and waits for it.
func command(dir, program string, args ...string) error {
	as, err := unprivileged(dir)
	if err != nil {
		return err
	}
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return nil
}
