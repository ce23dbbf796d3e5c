package verify

import (
	"testing"

	"recourse/catalog"
	"recourse/internal/cli"
	"recourse/internal/cli/definition"
	"recourse/internal/cli/export"
	"recourse/internal/invariant"
	"recourse/internal/story/storytest"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/kinds"
)

const book = "action: book\nagents: auto\nhttp: POST https://air.example/bookings\n"

// A session has no published definition: it is compiled from its journal and its actions.
func TestSessionsAreCompiled(t *testing.T) {
	t.Parallel()
	p := storytest.PlayDefinition(t, storytest.ParseSession(t, book), storytest.Script{Commands: map[int64]saga.Command{
		1: {Do: saga.Attach{Token: "aa"}},
		2: {Do: saga.CommitSession{Life: 1}},
	}})
	v := &check{app: &cli.App{Ctx: t.Context()}, missing: make(map[string]*missing), checker: invariant.New(invariant.Config{}), actions: &definition.Actions{}}
	if s := v.exported(export.Journal{Saga: p.ID, Records: p.Records}); s.Definition != nil || len(v.missing) != 1 {
		t.Errorf("without its actions the session has the definition %v, and %d are missing", s.Definition, len(v.missing))
	}
	if err := v.actions.Read("book.yaml", []byte(book)); err != nil {
		t.Fatal(err)
	}
	if s := v.exported(export.Journal{Saga: p.ID, Records: p.Records}); s.Definition == nil || s.Definition.Session == nil {
		t.Errorf("the journal of a session has the definition %v", s.Definition)
	}

	store := memory.New(memory.Config{})
	w := &walker{check: v, catalog: catalog.New(store, catalog.Options{Kinds: kinds.All()})}
	s := invariant.Saga{ID: p.ID, Records: p.Records}
	if _, lacking, err := w.define(&s); err != nil || lacking == nil {
		t.Errorf("without its actions: lacking %v, %v", lacking, err)
	}
	if _, _, _, err := w.catalog.PublishAction(t.Context(), "book", []byte(book), ""); err != nil {
		t.Fatal(err)
	}
	if _, lacking, err := w.define(&s); err != nil || lacking != nil || s.Definition == nil || s.Definition.Session == nil {
		t.Errorf("in a database: lacking %v, %v", lacking, err)
	}
	if p.Machine.Status() != saga.Succeeded || p.Records[2].Kind != journal.Committed {
		t.Errorf("the session is %s", p.Machine.Status())
	}
}
