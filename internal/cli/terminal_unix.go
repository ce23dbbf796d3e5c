//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// sizeOf returns the size of a terminal, 0 for other files.
func sizeOf(f *os.File) (columns, rows int) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}
