package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/kinds/ask"
	"recourse/saga/machine"
)

// recordsPage is the number of records per read of the store.
const recordsPage = 1000

// live is a saga loaded from its journal; it can follow the journal as it grows.
type live struct {
	s       *server
	id      uuid.UUID
	def     *saga.Definition
	m       *machine.Machine
	records []journal.Record
	source  recordsSource
	// archived says where in the archive it is; nil: it is in the database.
	archived *machine.Archived
	bytes    int // of the records' data

	// For a session, which the requests of its agent share: the attempts and the requests to models
	// in the records, and the lock, which is held while a request does not wait. See
	// sharedSessions.
	log    *history.Steps
	models *ask.Index
	shared *sharedSession
	opener string // the key of the role agent that opened it; "": someone else did
}

// recordsSource reads records as journal.Log does.
type recordsSource func(ctx context.Context, id uuid.UUID, after int64, limit int) ([]journal.Record, error)

// named loads the saga in the request's path. Errors: those of sagaID and load.
func (s *server) named(c echo.Context) (*live, error) {
	id, err := sagaID(c)
	if err != nil {
		return nil, err
	}
	return s.load(c.Request().Context(), id)
}

// load reads a saga's journal. Errors: saga_not_found, and those of the catalog.
func (s *server) load(ctx context.Context, id uuid.UUID) (*live, error) {
	return s.loadFrom(ctx, id, s.cfg.Store.Records)
}

func (s *server) loadFrom(ctx context.Context, id uuid.UUID, source recordsSource) (*live, error) {
	first, err := source(ctx, id, 0, recordsPage)
	if err != nil {
		return nil, sagaError(id, err)
	}
	d, err := history.Started(first)
	if err != nil {
		return nil, fmt.Errorf("saga %s: %w: %w", id, saga.ErrUnreadable, err)
	}
	def, err := s.cfg.Catalog.Of(ctx, &d)
	if errors.Is(err, saga.ErrUnusable) {
		return nil, fmt.Errorf("saga %s: %w", id, err)
	}
	if err != nil {
		return nil, err
	}
	l := &live{s: s, id: id, def: def, m: machine.New(def, id), source: source}
	for page := first; ; {
		if err := l.take(page); err != nil {
			return nil, err
		}
		if len(page) < recordsPage {
			return l, nil
		}
		if page, err = source(ctx, id, l.m.Seq(), recordsPage); err != nil {
			return nil, sagaError(id, err)
		}
	}
}

func (l *live) take(page []journal.Record) error {
	for i := range page {
		l.bytes += len(page[i].Data)
		if err := l.m.Apply(page[i]); err != nil {
			return err
		}
		if l.log == nil {
			continue
		}
		if err := l.index(&page[i]); err != nil {
			return err
		}
	}
	l.records = append(l.records, page...)
	return nil
}

// more reads the records that were appended since the last read.
func (l *live) more(ctx context.Context) error {
	for {
		page, err := l.source(ctx, l.id, l.m.Seq(), recordsPage)
		if err != nil {
			return sagaError(l.id, err)
		}
		if err := l.take(page); err != nil {
			return err
		}
		if len(page) < recordsPage {
			return nil
		}
	}
}

func (l *live) ended() bool { return l.m.Status().Terminal() }

// await follows the saga until holds is true, and returns whether it is. It gives up after wait,
// and when the server stops.
func (l *live) await(ctx context.Context, wait time.Duration, holds func() bool) (bool, error) {
	feed := l.s.cfg.Engine.Follow(l.id)
	defer feed.Stop()
	// The first read comes after Follow, so that a record in between is not missed.
	if err := l.more(ctx); err != nil {
		return false, err
	}
	return l.follow(ctx, feed, wait, holds)
}

// awaitShared is await for a request of a session, whose feed began before the session was read.
func (l *live) awaitShared(c echo.Context, wait time.Duration, holds func() bool) (bool, error) {
	return l.follow(c.Request().Context(), c.(*call).feed, wait, holds)
}

// follow is await with a feed that began before the last read.
func (l *live) follow(ctx context.Context, feed *journal.Feed, wait time.Duration, holds func() bool) (bool, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	poll := time.NewTicker(l.s.cfg.Limits.Poll)
	defer poll.Stop()
	for !holds() {
		if wait, err := l.idle(ctx, feed.Grown(), poll.C, timer.C); !wait {
			return false, err
		}
		if err := l.next(ctx, feed); err != nil {
			return false, err
		}
	}
	return true, nil
}

// next is more for a reader that has a feed.
func (l *live) next(ctx context.Context, feed *journal.Feed) error {
	if list := feed.After(l.m.Seq()); list != nil {
		return l.take(list)
	}
	return l.more(ctx)
}

// idle waits for a reason to read the journal again. again is false when the wait is over. It
// releases the lock of a shared session meanwhile.
func (l *live) idle(ctx context.Context, grown <-chan struct{}, poll, timer <-chan time.Time) (again bool, _ error) {
	if e := l.shared; e != nil {
		e.waiting++
		<-e.turn
		defer func() {
			e.turn <- struct{}{}
			e.waiting--
		}()
	}
	select {
	case <-grown:
	case <-poll:
	case <-timer:
		return false, nil
	case <-l.s.cfg.Done:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return true, nil
}

func noSaga(id uuid.UUID) *problem {
	return fail("saga_not_found", "check the id; a saga is deleted when its retention has passed").of(id)
}

// sagaError adds the saga's id to an error of the store.
func sagaError(id uuid.UUID, err error) error {
	if errors.Is(err, journal.ErrNotFound) {
		return noSaga(id)
	}
	return fmt.Errorf("saga %s: %w", id, err)
}
