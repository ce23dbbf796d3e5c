//go:build !linux && !darwin

package statedir

// boot is not known here: no node is a known predecessor, and each waits for the lease of the last.
func boot() string { return "" }
