// Package statedir manages the directory in which a node leaves information for the next process.
//
// The file "node" has the node's id and is locked (flock(2)) while its process lives. The kernel
// releases the lock when the process ends, however it ends. A process that gets the lock therefore
// knows that the node in the file has ended, and may take over its sagas at once instead of waiting
// for the end of its lease.
//
// The lock proves that only if the same kernel has run both processes. On a volume that was moved
// to another machine, or on a network file system, it may be granted while the earlier process
// lives. So the file also has the id of the machine's boot, and a node of another boot is not a
// known predecessor.
//
// The file "database" has the last known position of a PostgreSQL database in its history, so that
// the next process does not use an old primary.
package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// ErrHeld means that another live process has the directory.
var ErrHeld = errors.New("another process has the state directory")

// Dir is a directory that this process has locked.
type Dir struct {
	file *os.File
	boot string // "" if it is unknown
	last string
}

// note is the content of the file "node".
type note struct {
	Node string `json:"node"` // the node's id, unique over all databases
	Boot string `json:"boot"` // id of the machine's boot
}

// Open locks the directory, which it creates if it does not exist, until Close or the end of the
// process. Errors: ErrHeld if another process has it; the file system's.
func Open(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(path, "node"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	d := &Dir{file: f, boot: boot()}
	if err := d.take(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return d, nil
}

// take locks the file and reads the previous node.
func (d *Dir) take() error {
	locked := syscall.Flock(int(d.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if locked != nil && !errors.Is(locked, syscall.EWOULDBLOCK) {
		return fmt.Errorf("lock %s: %w", d.file.Name(), locked)
	}
	n, err := d.read()
	if err != nil {
		return err
	}
	if locked != nil {
		return fmt.Errorf("%w (node %s)", ErrHeld, n.Node)
	}
	if n.Boot == d.boot && d.boot != "" {
		d.last = n.Node
	}
	return nil
}

// read returns the content of the file; the zero value if it cannot be parsed, for example after a
// power failure.
func (d *Dir) read() (n note, err error) {
	err = json.NewDecoder(io.NewSectionReader(d.file, 0, 1<<10)).Decode(&n)
	if _, ok := errors.AsType[*os.PathError](err); ok {
		return note{}, err
	}
	if err != nil {
		return note{}, nil //nolint:nilerr // the file was cut off
	}
	return n, nil
}

// Predecessor returns the ended node that had the directory before; "" if none is known.
func (d *Dir) Predecessor() string { return d.last }

// Name stores the id of the node that has the directory from now on. It needs no fsync, because
// after a crash of the machine the boot has changed.
func (d *Dir) Name(node string) error {
	text, err := json.Marshal(note{Node: node, Boot: d.boot})
	if err != nil {
		return err
	}
	// One write, and then a truncation: if the process is killed in between, the file can still be
	// parsed.
	if _, err := d.file.WriteAt(append(text, '\n'), 0); err != nil {
		return err
	}
	return d.file.Truncate(int64(len(text)) + 1)
}

// Close releases the directory. The file stays: otherwise two processes could lock two files of the
// same name.
func (d *Dir) Close() error { return d.file.Close() }
