package dsl_test

import (
	"syscall"
	"time"
)

// cpu is how long this thread has had a processor: what else a machine does counts for nothing.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
