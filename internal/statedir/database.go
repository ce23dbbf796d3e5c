package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Database is the position of a PostgreSQL database in its history when a process with this
// directory last saw it.
type Database struct {
	System   string `json:"system"`   // its system identifier; "" if none is known
	Timeline int64  `json:"timeline"` // timeline of its primary; 0 if only standbys were seen
}

// DatabaseFile returns the path of the file that NoteDatabase writes. Without the file no position
// is known.
func (d *Dir) DatabaseFile() string { return filepath.Join(filepath.Dir(d.file.Name()), "database") }

// Database returns the last stored position; the zero value if there is none. A file with other
// content is an error, because NoteDatabase never leaves one.
func (d *Dir) Database() (at Database, err error) {
	text, err := os.ReadFile(d.DatabaseFile())
	if errors.Is(err, os.ErrNotExist) {
		return Database{}, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &at)
	}
	if err == nil && at.System == "" {
		err = errors.New("it has no system identifier")
	}
	if err != nil {
		return Database{}, fmt.Errorf("%s: %w", d.DatabaseFile(), err)
	}
	return at, nil
}

// NoteDatabase stores the position. The file survives a crash of the machine, and is never
// incomplete.
func (d *Dir) NoteDatabase(at Database) error {
	text, err := json.Marshal(at)
	if err != nil {
		return err
	}
	next := d.DatabaseFile() + ".next"
	if err := write(next, append(text, '\n')); err != nil {
		return err
	}
	if err := os.Rename(next, d.DatabaseFile()); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(next))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// write writes a file and syncs it to disk.
func write(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
