// Package debian installs what tests need and a machine lacks, where that can be done: as root, on
// Debian and its kin.
package debian

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// ErrCannot says that this is not root, or that there is no apt-get.
var ErrCannot = errors.New("only root can install packages, with apt-get")

// Install installs packages without what they merely recommend, and starts no service of theirs.
// Several processes may ask at once: one installs after the other. Errors are ErrCannot, and
// apt-get's own words.
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
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1") // invoke-rc.d starts nothing in runlevel 1
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w: %s", args[0], err, out)
		}
	}
	return nil
}

// Lock waits until no other process of ours uses apt-get, which does not wait by itself. It is ours
// until unlock.
func Lock() (unlock func(), err error) {
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "recourse-apt.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("wait for another installation: %w", err), lock.Close())
	}
	return func() { lock.Close() }, nil
}
