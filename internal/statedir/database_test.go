package statedir

import (
	"os"
	"strings"
	"testing"
)

// The directory stores the position of the database for the next process, until the file is
// removed.
func TestDatabase(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	if at, err := d.Database(); err != nil || at != (Database{}) {
		t.Fatalf("before anything was noted: %+v, %v", at, err)
	}
	for _, at := range []Database{{"7300000000000000001", 12}, {"7300000000000000001", 3}} {
		if err := d.NoteDatabase(at); err != nil {
			t.Fatal(err)
		}
		d.Close()
		d = open(t, dir)
		if got, err := d.Database(); err != nil || got != at {
			t.Errorf("noted %+v, read %+v, %v", at, got, err)
		}
	}
	for _, text := range []string{"", "{}", `{"system":"7`, "[1]"} {
		if err := os.WriteFile(d.DatabaseFile(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if at, err := d.Database(); err == nil || !strings.Contains(err.Error(), d.DatabaseFile()) {
			t.Errorf("%q: %+v, %v; want an error that names the file", text, at, err)
		}
	}
	if err := os.Remove(d.DatabaseFile()); err != nil {
		t.Fatal(err)
	}
	if at, err := d.Database(); err != nil || at != (Database{}) {
		t.Errorf("after its removal: %+v, %v", at, err)
	}
}
