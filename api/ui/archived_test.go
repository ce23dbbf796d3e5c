package ui

import (
	"context"
	"testing"
	"time"

	"recourse/api"
	packs "recourse/internal/archive"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
)

// The page of an archived saga says that it is archived, and offers no command: the API refuses
// each of them.
func TestArchivedSaga(t *testing.T) {
	bucket, err := packs.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	store := memory.New(memory.Config{})
	x := newSiteOn(t, store, func(a *api.Config, _ *Config) { a.Archive = packs.NewReader(bucket) })
	x.publish("saga: brief\nsteps:\n  - {id: never, fail: it is too much}\n")
	id := x.start("brief", `{}`)
	x.becomes(id, saga.Compensated)
	x.page("/sagas/"+id).want(200).has("Run it again…", "Fork it…", "Delete…").lacks(`id="archived"`)

	// Before all others, so it is its turn.
	a := packs.New(packs.Config{Store: overdue{store}, Bucket: bucket, MaxSagas: 1, Now: time.Now, Node: func() string { return "" }})
	if err := a.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.page("/sagas/"+id).want(200).has(`id="archived"`, x.saga(id).Archived.Object).lacks(`class="action"`)
}

// overdue is a store in which the retention of every saga that has ended is over.
type overdue struct{ journal.Store }

func (s overdue) ListExpired(ctx context.Context, after journal.Head, limit int) ([]journal.Head, error) {
	if !after.ID.IsNil() {
		return nil, nil
	}
	list, err := s.Sagas(ctx, journal.Filter{Status: []string{string(saga.Compensated)}, Limit: limit})
	return list.Heads, err
}
