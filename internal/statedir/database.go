package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Database is where a PostgreSQL database stood when a process with this directory saw it last.
type Database struct {
	System   string `json:"system"`   // its system identifier; "" if it was never seen
	Timeline int64  `json:"timeline"` // of its primary; 0 if only standbys were seen
}

// DatabaseFile is the name of the file that NoteDatabase writes. Without it nothing is known.
func (d *Dir) DatabaseFile() string { return filepath.Join(filepath.Dir(d.file.Name()), "database") }

// Database returns what was noted last; the zero value if nothing was. A file that does not say it
// is an error: it was never written so.
func (d *Dir) Database() (at Database, err error) {
	text, err := os.ReadFile(d.DatabaseFile())
	if errors.Is(err, os.ErrNotExist) {
		return Database{}, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &at)
	}
	if err == nil && at.System == "" {
		err = errors.New("it names no system")
	}
	if err != nil {
		return Database{}, fmt.Errorf("%s: %w", d.DatabaseFile(), err)
	}
	return at, nil
}

// NoteDatabase notes where the database stands. The note outlives a crash of the machine, and is
// never there in part.
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

// write makes a file that is on disk when it returns.
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
