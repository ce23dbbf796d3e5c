// Package debian installs programs that tests need, if the process is root on Debian or a
// derivative.
package debian

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// ErrCannot means that the process is not root, or that there is no apt-get.
var ErrCannot = errors.New("only root can install packages, with apt-get")

// Install installs packages without recommended ones, and starts no services. Several processes may
// call it at once; they run one after the other. Errors: ErrCannot; the output of apt-get.
func Install(packages ...string) error {
	apt, err := exec.LookPath("apt-get")
	if os.Geteuid() != 0 || err != nil {
		return ErrCannot
	}
	unlock, err := Lock()
	if err != nil {
		return err
	}
	defer unlock()
	install := append([]string{"install", "-y", "-qq", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"}, packages...)
	for _, args := range [][]string{{"update", "-qq"}, install} {
		cmd := exec.Command(apt, args...)
		// The command invoke-rc.d starts nothing in runlevel 1.
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w: %s", args[0], err, out)
		}
	}
	return nil
}

// Lock waits until no other process of this module uses apt-get, which does not wait by itself, and
// locks it until unlock.
func Lock() (unlock func(), err error) {
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "recourse-apt.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("wait for another installation: %w", err), lock.Close())
	}
	return func() { _ = lock.Close() }, nil
}
