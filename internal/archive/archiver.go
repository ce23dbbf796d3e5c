package archive

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Store is what an archiver needs of the database.
type Store interface {
	journal.Retention
	journal.Schedules
	Records(ctx context.Context, saga uuid.UUID, after int64, limit int) ([]journal.Record, error)
	Blobs(ctx context.Context, saga uuid.UUID, hashes [][sha256.Size]byte) ([]journal.Blob, error)
	Saga(ctx context.Context, id uuid.UUID) (journal.Head, error)
	Nodes(ctx context.Context) ([]journal.NodeInfo, error)
}

// Schedules in which archivers leave a mark. They are no cron triggers: those have names with a
// slash.
const (
	markArchived = "~archive"     // the database has an archive
	markRun      = "~archive.run" // an archiver has done all that there was to do
)

// Archived reports whether a database has an archive. Then no server may delete expired sagas that
// it has not archived.
func Archived(ctx context.Context, store journal.Schedules) (bool, error) {
	fired, err := store.Fired(ctx)
	return !fired[markArchived].IsZero(), err
}

// Config configures an Archiver.
type Config struct {
	Store  Store
	Bucket Bucket
	Node   func() string    // the id of this process in Store.Nodes
	Now    func() time.Time // the store's clock
	Log    *slog.Logger
	// Wait is how long an expired saga waits at most for others, so that objects are large. They do
	// not wait once there are MaxSagas.
	Wait     time.Duration
	Every    time.Duration // 1m: between searches for expired sagas, give or take a quarter
	MaxSagas int           // 20,000 sagas are listed, and archived, together
	MaxBytes int           // 32 MiB of journals in an object, unless it has only one
}

// Archiver archives sagas whose retention has ended, and deletes them from the database.
type Archiver struct {
	cfg Config

	mu      sync.Mutex
	stats   Stats
	refused map[uuid.UUID]time.Time // sagas that cannot be archived: when to try again
	failing bool                    // the last run failed, and was logged
}

// Stats are counts since the start of the process, and what the last search has found.
type Stats struct {
	Sagas, Objects, Bytes int64 // archived and read back
	Failures              int64 // runs that failed
	Refused               int   // expired sagas whose journals are not sound, so that they stay in the database
	// Overdue is how long the oldest expired saga waits in the database beyond Config.Wait. It is
	// zero on a node whose turn it is not.
	Overdue time.Duration
}

// New returns an archiver.
func New(c Config) *Archiver {
	c.Every = cmp.Or(c.Every, time.Minute)
	c.MaxSagas = cmp.Or(c.MaxSagas, 20_000)
	c.MaxBytes = cmp.Or(c.MaxBytes, 32<<20)
	return &Archiver{cfg: c, refused: make(map[uuid.UUID]time.Time)}
}

// Stats returns the archiver's counts.
func (a *Archiver) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.Refused = len(a.refused)
	return a.stats
}

// Run archives until ctx is done.
func (a *Archiver) Run(ctx context.Context) {
	for {
		a.report(ctx, a.Once(ctx))
		wait := a.cfg.Every - a.cfg.Every/4 + rand.N(a.cfg.Every/2+1)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// report logs the first of several errors in a row, and their end.
func (a *Archiver) report(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.stats.Failures++
	}
	switch {
	case err != nil && !a.failing:
		a.cfg.Log.Error("could not archive sagas whose retention has ended: they stay in the database, which grows; the node will retry", "archive", a.cfg.Bucket.String(), "error", err)
	case err == nil && a.failing:
		a.cfg.Log.Info("archiving works again", "archive", a.cfg.Bucket.String())
	}
	a.failing = err != nil
}

// Once archives all sagas whose retention has ended, if one of them has waited long enough, or
// there are many, and it is this node's turn.
func (a *Archiver) Once(ctx context.Context) error {
	now := a.cfg.Now()
	fired, err := a.cfg.Store.Fired(ctx)
	if err != nil {
		return err
	}
	began := fired[markArchived]
	if began.IsZero() {
		began = now
		if err := a.cfg.Store.SetFired(ctx, markArchived, now); err != nil {
			return err
		}
	}
	page, next, err := a.page(ctx, journal.Head{})
	if err != nil {
		return err
	}
	if len(page) == 0 || len(page) < a.cfg.MaxSagas && now.Sub(page[0].DeleteAt) < a.cfg.Wait {
		a.rest(now, page)
		return a.cfg.Store.SetFired(ctx, markRun, now)
	}
	mine, err := a.turn(ctx, now, cmp.Or(fired[markRun], began))
	if err != nil {
		return err
	}
	if !mine {
		a.rest(now, nil)
		return nil
	}
	a.note(now.Sub(page[0].DeleteAt) - a.cfg.Wait)
	for len(page) > 0 {
		if err := a.archive(ctx, page); err != nil {
			return err
		}
		if page, next, err = a.page(ctx, next); err != nil {
			return err
		}
	}
	a.rest(now, nil)
	return a.cfg.Store.SetFired(ctx, markRun, now)
}

// page lists expired sagas after one, without those that were refused a short time ago. It also
// returns the last one of the page, from which to continue. It is empty at the end of the list.
func (a *Archiver) page(ctx context.Context, after journal.Head) ([]journal.Head, journal.Head, error) {
	for {
		list, err := a.cfg.Store.ListExpired(ctx, after, a.cfg.MaxSagas)
		if err != nil || len(list) == 0 {
			return nil, after, err
		}
		after = list[len(list)-1]
		if left := a.notRefused(list); len(left) > 0 {
			return left, after, nil
		}
	}
}

// tryRefused is how long a saga that cannot be archived is left alone.
const tryRefused = time.Hour

func (a *Archiver) notRefused(list []journal.Head) (left []journal.Head) {
	now := a.cfg.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range list {
		if until, ok := a.refused[h.ID]; !ok || !now.Before(until) {
			left = append(left, h)
		}
	}
	return left
}

// refuse leaves a saga in the database because its journal is not sound.
func (a *Archiver) refuse(saga uuid.UUID, why error) {
	a.mu.Lock()
	_, known := a.refused[saga]
	a.refused[saga] = a.cfg.Now().Add(tryRefused)
	a.mu.Unlock()
	if !known {
		a.cfg.Log.Error("this saga cannot be archived, so it stays in the database: check it with `recourse verify --database … --saga ID`", "saga", saga, "error", why)
	}
}

// note remembers how long the oldest of the expired sagas that this node must archive is overdue.
func (a *Archiver) note(overdue time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.Overdue = max(overdue, 0)
}

// rest notes that this node has nothing to archive: it has done everything, or it is the turn of
// another node. It forgets the refused sagas that were due for another try, except those that wait
// with others: they have left the database in the meantime, or the other node tries them.
func (a *Archiver) rest(now time.Time, waiting []journal.Head) {
	waits := make(map[uuid.UUID]bool, len(waiting))
	for _, h := range waiting {
		waits[h.ID] = true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stats.Overdue = 0
	maps.DeleteFunc(a.refused, func(id uuid.UUID, until time.Time) bool { return !now.Before(until) && !waits[id] })
}

// standIn is how long the node whose turn it is may fail before the others archive, too.
const standIn = 15 * time.Minute

// turn reports whether this node archives. One is enough: the first of those that are alive. If
// there are two, because a lease has just ended, each archives the same, which only costs space.
// lastRun is when an archiver last did all that there was to do or, before that, when there was
// first an archiver.
func (a *Archiver) turn(ctx context.Context, now, lastRun time.Time) (bool, error) {
	if now.Sub(lastRun) > standIn {
		return true, nil
	}
	nodes, err := a.cfg.Store.Nodes(ctx)
	if err != nil {
		return false, err
	}
	self := a.cfg.Node()
	for _, n := range nodes {
		if n.Node < self && (n.ExpiresAt.IsZero() || n.ExpiresAt.After(now)) {
			return false, nil
		}
	}
	return true, nil
}

// group is the sagas of a definition that have ended on one day.
type group struct{ day, definition string }

// archive archives a page of sagas, each group for itself.
func (a *Archiver) archive(ctx context.Context, page []journal.Head) error {
	groups := make(map[group][]journal.Head)
	var order []group
	for _, h := range page {
		g := group{day(h.EndedAt), h.Definition}
		if groups[g] == nil {
			order = append(order, g)
		}
		groups[g] = append(groups[g], h)
	}
	for _, g := range order {
		for list := groups[g]; len(list) > 0; {
			p, left, err := a.build(ctx, g, list)
			if err == nil {
				err = a.move(ctx, p)
			}
			if err != nil {
				return fmt.Errorf("archive %s of %s: %w", g.definition, g.day, err)
			}
			list = left
		}
	}
	return nil
}

// recordsPage is how many records are read at once.
const recordsPage = 1000

// journalOf reads the whole journal of a saga.
func (a *Archiver) journalOf(ctx context.Context, saga uuid.UUID) (records []journal.Record, err error) {
	for {
		page, err := a.cfg.Store.Records(ctx, saga, int64(len(records)), recordsPage)
		if err != nil {
			return nil, err
		}
		records = append(records, page...)
		if len(page) < recordsPage {
			return records, nil
		}
	}
}

// part is an object with journals before it is stored.
type part struct {
	id      uuid.UUID
	key     string
	object  []byte
	entries []Entry // in the order of the object
}

// build reads the first of the sagas, as many as an object may have, and returns the rest. Sagas
// that are not sound are left out.
func (a *Archiver) build(ctx context.Context, g group, list []journal.Head) (p *part, left []journal.Head, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, nil, err
	}
	p = &part{id: id, key: partKey(g.day, g.definition, id)}
	w, err := newPacker()
	if err != nil {
		return nil, nil, err
	}
	at := a.cfg.Now()
	for len(list) > 0 && w.size < a.cfg.MaxBytes {
		h := &list[0]
		list = list[1:]
		if err := a.add(ctx, p, w, h, at); err != nil {
			return nil, nil, err
		}
	}
	p.object, err = w.end()
	return p, list, err
}

// add adds a saga to an object.
func (a *Archiver) add(ctx context.Context, p *part, w *packer, h *journal.Head, at time.Time) error {
	records, err := a.journalOf(ctx, h.ID)
	if errors.Is(err, journal.ErrNotFound) {
		return nil // deleted meanwhile
	}
	if err == nil {
		err = sound(h.ID, records, h.Seq)
	}
	if errors.Is(err, journal.ErrBroken) {
		a.refuse(h.ID, err)
		return nil
	} else if err != nil {
		return err
	}
	hashes, err := a.cfg.Store.BlobHashes(ctx, h.ID)
	if err != nil {
		return err
	}
	if len(hashes) == 0 && isSession(h.Definition) {
		if exists, err := a.exists(ctx, h.ID); err != nil || !exists {
			return err
		}
	}
	for i := range records {
		line, err := lineOf(h.ID, &records[i])
		if err == nil {
			err = w.line(line)
		}
		if err != nil {
			return err
		}
	}
	p.entries = append(p.entries, entryOf(h, records[len(records)-1].Hash, p.key, at, len(hashes)))
	return nil
}
