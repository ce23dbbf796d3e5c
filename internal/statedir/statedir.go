// Package statedir holds the directory that a node's process leaves to the next one.
//
// Its file "node" names the node and is locked (flock(2)) for as long as its process lives;
// the kernel drops the lock when the process ends, in whatever way. Whoever gets the lock therefore
// knows that the node named there has ended, and may have its sagas at once instead of waiting for
// the end of its lease.
//
// A lock is a proof only under the kernel that holds both processes. A volume that has moved to
// another machine, or a network file system, may grant it while the earlier process lives. So the
// file names the boot of the machine as well, and a node of another boot is no known predecessor.
//
// Its file "database" says where a PostgreSQL database stood in its history when it was seen last,
// so that the next process does not take an old primary for it.
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

// ErrHeld says that a process which lives has the directory.
var ErrHeld = errors.New("another process has the state directory")

// Dir is a directory that this process has to itself.
type Dir struct {
	file *os.File
	boot string // "" if it cannot be told
	last string
}

// note is what the file says.
type note struct {
	Node string `json:"node"` // its id, which no other node ever has, on whatever database
	Boot string `json:"boot"` // of the machine
}

// Open takes the directory, making it if it is not there, until Close or the end of the process.
// It returns ErrHeld if another process has it, and the file system's errors.
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

// take locks the file and reads who had it before.
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

// read returns what the file says. What cannot be read, as after a loss of power, says nothing.
func (d *Dir) read() (n note, err error) {
	err = json.NewDecoder(io.NewSectionReader(d.file, 0, 1<<10)).Decode(&n)
	var pathError *os.PathError
	if errors.As(err, &pathError) {
		return note{}, err
	}
	if err != nil {
		return note{}, nil
	}
	return n, nil
}

// Predecessor is the node that had the directory before and has ended; "" if none is known.
func (d *Dir) Predecessor() string { return d.last }

// Name notes the id of the node that has the directory from now on. The note needs no fsync: after
// a crash of the machine it would be of another boot.
func (d *Dir) Name(node string) error {
	text, err := json.Marshal(note{Node: node, Boot: d.boot})
	if err != nil {
		return err
	}
	// One write, and what is longer is cut afterwards: a process that is killed in between leaves a
	// note that can be read.
	if _, err := d.file.WriteAt(append(text, '\n'), 0); err != nil {
		return err
	}
	return d.file.Truncate(int64(len(text)) + 1)
}

// Close gives the directory up. Its file stays, or two processes could lock two files of one name.
func (d *Dir) Close() error { return d.file.Close() }
