//go:build !linux && !darwin

package doctor

// freeBytes is not supported on this platform.
func freeBytes(string) (free uint64, ok bool) { return 0, false }
