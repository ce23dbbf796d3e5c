//go:build !linux && !darwin

package statedir

// boot returns "", because the boot is unknown here. So no predecessor is known, and each node
// waits for the end of the previous lease.
func boot() string { return "" }
