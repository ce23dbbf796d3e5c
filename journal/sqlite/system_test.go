package sqlite

import (
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"recourse/engine"
	"recourse/examples/world"
	"recourse/internal/test/wire/rig"
	"recourse/journal"
)

// While the disk is full or the file cannot be written, a server under load refuses starts and
// loses nothing. Afterwards it continues without intervention.
func TestServerWithoutRoom(t *testing.T) {
	for _, tt := range []struct {
		name, breaks, restores string
		state                  string
	}{
		{"full", `PRAGMA max_page_count = 1`, `PRAGMA max_page_count = 1000000`, "53100"},
		{"read-only", `PRAGMA query_only = 1`, `PRAGMA query_only = 0`, "25006"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s, err := Open(ctx, filepath.Join(t.TempDir(), "test.db"), Options{Migrate: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			writer := func(query string) {
				t.Helper()
				conn := turnOf(t, s)
				defer s.w.turns.give(conn)
				if _, err := conn.ExecContext(ctx, query); err != nil {
					t.Fatal(err)
				}
			}
			sys := rig.New(t, s, rig.World(t, world.Config{}), "")
			n := sys.Add(s, engine.Config{Lease: time.Second})
			l := sys.Load(3)
			rig.Until(t, "sagas run", func() bool { return n.Engine.Stats().Commits > 20 })

			writer(tt.breaks)
			rig.Until(t, "the server is not ready", func() bool { return rig.Status(n.URL+"/readyz") == 503 })
			rig.Until(t, "starts are turned away", func() bool {
				id, away, err := rig.Start(http.DefaultClient, n.URL, "extra", "books")
				if err != nil || !id.IsNil() {
					t.Fatalf("a start: %v, %v", id, err)
				}
				return away
			})
			large, err := json.Marshal(make([]byte, 1<<20)) // more than fits into an existing page
			if err != nil {
				t.Fatal(err)
			}
			err = s.Send(ctx, journal.Message{ID: sys.Any(), Saga: sys.Any(), Kind: "command", Data: large})
			var state interface{ SQLState() string }
			if !errors.As(err, &state) || state.SQLState() != tt.state {
				t.Errorf("Send = %v, want an error with the state %s", err, tt.state)
			}
			<-time.After(1500 * time.Millisecond) // longer than the lease
			if rig.Status(n.URL+"/readyz") == 200 {
				t.Error("the server is ready")
			}

			writer(tt.restores)
			rig.Until(t, "the server is ready again", func() bool { return rig.Status(n.URL+"/readyz") == 200 })
			l.End() // all clients may have waited for sagas in flight, so none needs to have been refused
			sys.MustSettle()
		})
	}
}
