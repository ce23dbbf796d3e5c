package verify

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/catalog"
	"recourse/internal/cli"
	"recourse/internal/invariant"
	"recourse/internal/test/program"
	"recourse/journal"
	"recourse/journal/sqlite"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

// hasty is a store whose sagas change while they are read: for some reads the last record is
// missing, or the row changes.
type hasty struct {
	journal.Store
	lags, moves int
}

func (h *hasty) Records(ctx context.Context, id uuid.UUID, after int64, limit int) ([]journal.Record, error) {
	list, err := h.Store.Records(ctx, id, after, limit)
	if h.lags > 0 && err == nil {
		h.lags--
		list = list[:len(list)-1]
	}
	return list, err
}

func (h *hasty) Saga(ctx context.Context, id uuid.UUID) (journal.Head, error) {
	head, err := h.Store.Saga(ctx, id)
	if h.moves > 0 {
		h.moves--
		head.UpdatedAt = time.UnixMilli(int64(h.moves))
	}
	return head, err
}

// A row and a journal that are read at different times may differ; at the second read they agree,
// or the row is ignored.
func TestVerifyReadsTwice(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "a.db")
	id := waiting(t, db, "{id: sure, approval: {title: Sure?}}")
	store, err := sqlite.Open(t.Context(), db, sqlite.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, tt := range []struct {
		name                          string
		lags, moves, violated, moving int
	}{
		{"at rest", 0, 0, 0, 0},
		{"a record late", 1, 0, 0, 0},
		{"a record lost", 2, 0, 1, 0},
		{"the row changes once", 0, 2, 0, 0},
		{"the row changes again and again", 0, 4, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := &check{app: &cli.App{Ctx: t.Context()}, missing: map[string]*missing{}, rows: make(map[uuid.UUID][sha256.Size]byte), checker: invariant.New(invariant.Config{})}
			w := &walker{check: v, store: &hasty{store, tt.lags, tt.moves}, catalog: catalog.New(store, catalog.Options{Kinds: kinds.All()})}
			if err := w.one(journal.Head{ID: id}); err != nil {
				t.Fatal(err)
			}
			if found := v.checker.End(); len(found) != tt.violated || v.moving != tt.moving || v.checker.Totals().Sagas != 1 {
				t.Errorf("%d moving, violations %v", v.moving, found)
			}
			if _, ok := v.rows[id]; !ok {
				t.Error("it counts as not in the database")
			}
		})
	}
}

// All inbox entries of a saga are compared with its journal, also if they are more than one page.
func TestVerifyReadsAllInboxEntries(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "a.db")
	items := strings.Repeat("1, ", inboxPage) + "1"
	id := waiting(t, db, "{id: all, foreach: ["+items+"], max_parallel: 1000, steps: [{id: sure, approval: {title: Sure?}}]}")
	store, err := sqlite.Open(t.Context(), db, sqlite.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if all, err := store.Inbox(t.Context(), journal.InboxFilter{Saga: id}); err != nil || len(all) != inboxPage+1 {
		t.Fatalf("%d entries, %v", len(all), err)
	}
	v := &check{app: &cli.App{Ctx: t.Context()}, missing: map[string]*missing{}, checker: invariant.New(invariant.Config{})}
	w := &walker{check: v, store: store, catalog: catalog.New(store, catalog.Options{Kinds: kinds.All()})}
	if err := w.one(journal.Head{ID: id}); err != nil {
		t.Fatal(err)
	}
	if found := v.checker.End(); len(found) > 0 || v.moving > 0 {
		t.Errorf("%d moving, violations %.200v", v.moving, found)
	}
}

// waiting runs a saga of one step that waits for people, and leaves it in a database.
func waiting(t *testing.T, db, step string) uuid.UUID {
	t.Helper()
	file := filepath.Join(t.TempDir(), "asked.yaml")
	if err := os.WriteFile(file, []byte("saga: asked\nsteps: ["+step+"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program.Path(t), "run", file, "--database", db, "-o", "json").Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("run: %v", err)
	}
	var v machine.View
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatalf("%v: %s%s", err, out, exit.Stderr)
	}
	return uuid.FromStringOrNil(v.ID)
}
