package sqlite

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
)

// A caller that cancels at any moment of its transaction does not damage the writer: the next
// transaction begins and commits.
func TestWriterOutlivesCancelledCallers(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "test.db"), Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 2000 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%100)*time.Microsecond)
		_ = s.Abandon(ctx, uuid.Must(uuid.NewV7()).String())
		cancel()
		if err := s.Abandon(t.Context(), "key"); err != nil {
			t.Fatalf("after %d cancelled writes: %v", i+1, err)
		}
	}
}
