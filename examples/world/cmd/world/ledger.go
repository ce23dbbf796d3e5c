package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"recourse/examples/world"
)

// openLedger opens a file for appending to the ledger, and returns the N of its last entry. It
// removes an incomplete last line, as a killed process leaves it.
func openLedger(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("world: open the ledger (choose a file that can be written): %w", err)
	}
	last, err := lastEntry(f)
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("world: ledger %s (choose an empty file, or a ledger): %w", path, err), f.Close())
	}
	return f, last, nil
}

// lastEntry reads the whole file, removes an incomplete last line, and returns the N of the last
// entry; 0 for an empty file.
func lastEntry(f *os.File) (int64, error) {
	text, err := io.ReadAll(f)
	if err != nil {
		return 0, err
	}
	l, err := world.ReadLedger(bytes.NewReader(text))
	if err != nil || len(l) == 0 {
		return 0, err
	}
	return l[len(l)-1].N, f.Truncate(int64(bytes.LastIndexByte(text, '\n') + 1))
}
