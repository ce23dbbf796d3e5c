package verify

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/catalog"
	"recourse/internal/cli"
	"recourse/internal/cli/database"
	"recourse/internal/invariant"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/kinds"
)

const (
	headsPage   = 200
	recordsPage = 1000
	inboxPage   = 500
)

// walker reads the sagas of a database one by one, while nodes may use it.
type walker struct {
	*check
	store   journal.Store
	catalog *catalog.Catalog
	leases  map[string]bool
	inboxed map[uuid.UUID]bool // sagas that had inbox entries when the walk began
}

func (v *check) database(cfg invariant.Config) error {
	since, err := cli.ParseTime("--since", v.cmd.Since)
	if err != nil {
		return err
	}
	store, err := database.OpenReadOnly(v.app.Ctx, v.cmd.Database)
	if err != nil {
		return err
	}
	defer store.Close()
	w := &walker{check: v, store: store, catalog: catalog.New(store, catalog.Options{Kinds: kinds.All()}), inboxed: make(map[uuid.UUID]bool)}
	cfg.Nodes = w.leased
	v.checker = invariant.New(cfg)
	if v.cmd.Archive != "" {
		v.rows = make(map[uuid.UUID][sha256.Size]byte)
	}
	if err := w.walk(since); err != nil {
		return database.DescribeLocked(v.cmd.Database, database.Describe(v.cmd.Database, err))
	}
	if v.cmd.Archive == "" {
		return nil
	}
	return v.archive(w.defined) // after the database: a saga is in the archive before it leaves the database
}

// defined finds the definition of a saga of the archive.
func (w *walker) defined(s *invariant.Saga) error {
	d, lacking, err := w.define(s)
	if lacking != nil {
		w.lacks(d, lacking.Error())
	}
	return err
}

// walk checks one saga, or all that were started since a time, newest first.
func (w *walker) walk(since time.Time) error {
	if err := w.readInbox(); err != nil {
		return err
	}
	if w.cmd.Saga != "" {
		h, err := w.named(w.cmd.Saga)
		if err != nil {
			return err
		}
		return w.one(h)
	}
	progress := w.app.Progress("sagas", w.expected(since))
	defer progress.End()
	f := journal.Filter{Limit: headsPage}
	f.Started(since, time.Time{})
	for {
		list, err := w.store.Sagas(w.app.Ctx, f)
		if err != nil {
			return err
		}
		for _, h := range list.Heads {
			if err := w.one(h); err != nil {
				return err
			}
			progress.At(w.checker.Totals().Sagas)
		}
		if len(list.Heads) < headsPage {
			break
		}
		f.Before = list.Heads[len(list.Heads)-1].ID
	}
	if !since.IsZero() {
		return nil
	}
	return w.orphans()
}

// named finds the only saga whose id begins with a text, as the server does.
func (w *walker) named(text string) (journal.Head, error) {
	f := journal.Filter{Limit: 2}
	if len(text) < 8 || !f.Named(text) {
		return journal.Head{}, cli.Exit(cli.Usage, fmt.Errorf("--saga %s is not a saga's id, nor its first 8 characters or more", text))
	}
	list, err := w.store.Sagas(w.app.Ctx, f)
	switch {
	case err != nil:
		return journal.Head{}, err
	case len(list.Heads) == 0:
		return journal.Head{}, cli.Exit(cli.NotFound, fmt.Errorf("there is no saga %s in the database", text))
	case len(list.Heads) > 1:
		return journal.Head{}, cli.Exit(cli.Usage, fmt.Errorf("write more of the id: --saga %s begins those of %s (%s), %s (%s), and maybe others",
			text, list.Heads[0].ID, list.Heads[0].Definition, list.Heads[1].ID, list.Heads[1].Definition))
	}
	return list.Heads[0], nil
}

// expected returns the number of sagas to check, 0 if unknown.
func (w *walker) expected(since time.Time) int {
	st, err := w.store.Stats(w.app.Ctx)
	if err != nil || !since.IsZero() {
		return 0
	}
	n := int64(0)
	for _, of := range st.ByStatus {
		n += of
	}
	return int(n)
}

// orphans finds journals without rows, which no node would ever run.
func (w *walker) orphans() error {
	list, err := w.store.Orphans(w.app.Ctx, headsPage)
	if err != nil { // it scans all records, which may exceed the database's statement timeout
		w.app.Note("not checked: whether there are journals without rows: %v", err)
		return nil
	}
	for _, id := range list {
		w.checker.Add(invariant.Verdict{Violations: []invariant.Violation{{N: 12, Saga: id,
			Text: "its journal exists, but its row is missing: no node will ever run it; restore the row from a backup"}}})
	}
	return nil
}

func (w *walker) readInbox() error {
	return w.inbox(journal.InboxFilter{}, func(e journal.Entry) { w.inboxed[e.Saga] = true })
}

// inbox calls each for all entries of the filter.
func (w *walker) inbox(f journal.InboxFilter, each func(journal.Entry)) error {
	f.Limit = inboxPage
	for {
		list, err := w.store.Inbox(w.app.Ctx, f)
		if err != nil {
			return err
		}
		for _, e := range list {
			each(e)
		}
		if len(list) < inboxPage {
			return nil
		}
		f.After = list[len(list)-1]
	}
}

// one checks a saga. If the saga looks wrong, it is read once more: it may have changed between the
// reads of its row and its journal.
func (w *walker) one(h journal.Head) error {
	for try := 1; ; try++ {
		s, err := w.read(h)
		switch {
		case errors.Is(err, journal.ErrNotFound):
			return nil // deleted concurrently
		case errors.Is(err, journal.ErrBroken):
			if w.anchors != nil {
				w.anchors.See(h.ID)
			}
			w.remember(&s)
			w.checker.Add(invariant.Verdict{Violations: []invariant.Violation{{N: 2, Saga: h.ID, Seq: int64(len(s.Records)) + 1, Text: err.Error()}}})
			return nil
		case err != nil:
			return err
		}
		d, lacking, err := w.define(&s)
		if err != nil {
			return err
		}
		verdict := w.checker.Check(s)
		if errors.Is(lacking, errChanged) {
			verdict.Violations = append(verdict.Violations, invariant.Violation{N: 2, Saga: s.ID, Seq: 1, Text: lacking.Error()})
		}
		if try == 1 && (s.Head == nil || len(verdict.Violations) > 0) {
			continue
		}
		if lacking != nil {
			w.lacks(d, lacking.Error())
		}
		w.compare(&s)
		w.remember(&s)
		if s.Head == nil {
			w.moving++
		}
		w.checker.Add(verdict)
		return nil
	}
}

// remember remembers a saga for the comparison with the archive.
func (w *walker) remember(s *invariant.Saga) {
	if w.rows == nil {
		return
	}
	var last [sha256.Size]byte
	if n := len(s.Records); n > 0 && s.Head != nil && !s.Head.EndedAt.IsZero() {
		copy(last[:], s.Records[n-1].Hash)
	}
	w.rows[s.ID] = last
}

// read reads a saga's journal and its row. The row is nil if it changed in between.
func (w *walker) read(h journal.Head) (invariant.Saga, error) {
	ctx, s := w.app.Ctx, invariant.Saga{ID: h.ID}
	before, err := w.row(h)
	if err != nil {
		return s, err
	}
	for {
		page, err := w.store.Records(ctx, h.ID, int64(len(s.Records)), recordsPage)
		if err != nil {
			return s, err
		}
		s.Records = append(s.Records, page...)
		if len(page) < recordsPage {
			break
		}
	}
	if !before.EndedAt.IsZero() {
		s.Head = &before
		return s, nil
	}
	after, err := w.store.Saga(ctx, h.ID)
	if err != nil {
		return s, err
	}
	if after.Seq == before.Seq && after.Owner == before.Owner && after.Status == before.Status && after.WakeAt.Equal(before.WakeAt) && after.UpdatedAt.Equal(before.UpdatedAt) {
		s.Head = &before
	}
	return s, nil
}

// row reads a saga's row with its inbox entries. The row of a saga that had ended does not change,
// so it is not read again.
func (w *walker) row(h journal.Head) (journal.Head, error) {
	var err error
	if h.EndedAt.IsZero() {
		if h, err = w.store.Saga(w.app.Ctx, h.ID); err != nil {
			return h, err
		}
	}
	h.Inbox = []journal.Entry{}
	if h.EndedAt.IsZero() || w.inboxed[h.ID] {
		err = w.inbox(journal.InboxFilter{Saga: h.ID}, func(e journal.Entry) { h.Inbox = append(h.Inbox, e) })
	}
	return h, err
}

var errChanged = errors.New("was changed in the database")

// define finds the definition that the journal is pinned to: in the catalog, or among
// --definitions. lacking says why it is not available.
func (w *walker) define(s *invariant.Saga) (d saga.StartedData, lacking, err error) {
	d, bad := history.Started(s.Records)
	if bad != nil {
		return d, nil, nil //nolint:nilerr // reported as a violation
	}
	if s.Definition = w.defs[d.SHA256]; s.Definition != nil {
		return d, nil, nil
	}
	find := func() (*saga.Definition, error) { return w.catalog.Definition(w.app.Ctx, d.Definition, int(d.Version)) }
	if d.Session != nil || d.Action != "" {
		find = func() (*saga.Definition, error) { return w.catalog.Of(w.app.Ctx, &d) }
	}
	def, err := find()
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return d, errors.New("it is not in the database"), nil
	case errors.Is(err, saga.ErrUnusable):
		return d, err, nil
	case err != nil:
		return d, nil, err
	case def.SHA256 != d.SHA256:
		return d, fmt.Errorf("%s %s, which it runs, %w: its SHA-256 was %s, and is %s", d.Definition, d.Version, errChanged, d.SHA256, def.SHA256), nil
	}
	s.Definition = def
	return d, nil, nil
}

// leased reports whether a node has a lease, according to the last read of the leases. For a node
// without one it reads again.
func (w *walker) leased(node string) bool {
	if w.leases[node] {
		return true
	}
	nodes, err := w.store.Nodes(w.app.Ctx)
	if err != nil {
		return true // unknown; the next read reports the error
	}
	w.leases = make(map[string]bool, len(nodes))
	for _, n := range nodes {
		w.leases[n.Node] = true
	}
	return w.leases[node]
}
