package sqlite

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Content that was erased is neither in the file nor in its write-ahead log, while the store is
// open and after it is closed.
func TestErasedContentIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	s, err := Open(t.Context(), path, Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Register(t.Context(), "n", time.Hour); err != nil {
		t.Fatal(err)
	}
	sagas := started(t, s, 40, 1)
	contents := map[uuid.UUID][][]byte{}
	for _, size := range []int{100, 900, 3000, 10 << 10, 70 << 10} { // in turns, so that sagas share pages
		for _, id := range sagas {
			data := make([]byte, size)
			_, _ = rand.Read(data) // never fails
			contents[id] = append(contents[id], data)
			if err := s.PutBlobs(t.Context(), id, []journal.Blob{{Hash: sha256.Sum256(data), Data: data}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	err = s.w.do(t.Context(), func(t *tx) error {
		_, err := t.exec(`UPDATE sagas SET owner = NULL, ended_at = 1`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// left returns how many contents of a saga can be found, also in part.
	left := func(id uuid.UUID) (n int) {
		t.Helper()
		for _, name := range []string{path, path + "-wal"} {
			file, err := os.ReadFile(name)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			for _, data := range contents[id] {
				for part := data; len(part) >= 100; part = part[min(1000, len(part)):] {
					if bytes.Contains(file, part[:20]) {
						n++
						break
					}
				}
			}
		}
		return n
	}
	for i, id := range sagas[:30] {
		if left(id) < len(contents[id]) {
			t.Fatal("the test does not find what was not erased")
		}
		s.removeFor = time.Duration(i%2) * removeFor // 0: one blob in each transaction
		if n, err := s.EraseBlobs(t.Context(), id); n != len(contents[id]) || err != nil {
			t.Fatalf("EraseBlobs = %d, %v", n, err)
		}
		if n := left(id); n > 0 {
			t.Errorf("%d contents of %s are left", n, id)
		}
	}
	// So is what other deletions delete, once the log is copied.
	event := journal.Event{ID: uuid.Must(uuid.NewV7()), Sink: "s", Data: []byte(`"` + rand.Text() + strings.Repeat("x", 10<<10) + rand.Text() + `"`)}
	if err := s.PutEvents(t.Context(), []journal.Event{event}); err != nil {
		t.Fatal(err)
	}
	contents[event.ID] = [][]byte{event.Data}
	if left(event.ID) == 0 {
		t.Error("the test does not find an event")
	}
	if err := s.EventDelivered(t.Context(), event.ID, "s"); err != nil {
		t.Fatal(err)
	}
	// A reader does not prevent that the content is erased, and is gone in the end.
	reader, err := s.r.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := reader.QueryRowContext(t.Context(), `SELECT count(*) FROM sagas`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n, err := s.EraseBlobs(t.Context(), sagas[30]); n != len(contents[sagas[30]]) || err != nil {
		t.Fatalf("with a reader, EraseBlobs = %d, %v", n, err)
	}
	if err := errors.Join(reader.Rollback(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if left(event.ID) > 0 {
		t.Error("a delivered event is left")
	}
	for i, id := range sagas {
		if n := left(id); (n > 0) != (i > 30) {
			t.Errorf("after the end, %d contents of saga %d are left", n, i)
		}
	}
}
