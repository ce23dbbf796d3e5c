package migrations

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockPoll is the time between two attempts to lock.
const lockPoll = 50 * time.Millisecond

// lockFile locks a file, which it creates if it does not exist, and waits for the lock until ctx
// ends. The file stays: if it were deleted, two processes could lock two files of the same name.
func lockFile(ctx context.Context, path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f.Close, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock %s: another process is migrating: %w", path, ctx.Err()), f.Close())
		case <-time.After(lockPoll):
		}
	}
}
