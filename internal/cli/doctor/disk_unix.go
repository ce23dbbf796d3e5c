//go:build linux || darwin

package doctor

import "golang.org/x/sys/unix"

// freeBytes returns the free space for unprivileged users in a directory.
func freeBytes(dir string) (free uint64, ok bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return s.Bavail * uint64(s.Bsize), true
}
