package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/internal/archive"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// records reads records as journal.Log does. If the saga is in the archive and not in the database,
// it reads them there.
func (s *server) records(ctx context.Context, id uuid.UUID, after int64, limit int) ([]journal.Record, error) {
	list, err := s.cfg.Store.Records(ctx, id, after, limit)
	if !errors.Is(err, journal.ErrNotFound) {
		return list, err
	}
	e, archiveErr := s.inArchive(ctx, id)
	if e == nil {
		return nil, cmp.Or(archiveErr, err)
	}
	all, err := s.cfg.Archive.Records(ctx, *e)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errArchive, err)
	}
	return sliceAfter(all, after, limit), nil
}

// sliceAfter returns up to limit records after a seq.
func sliceAfter(all []journal.Record, after int64, limit int) []journal.Record {
	all = all[min(max(after, 0), int64(len(all))):]
	return all[:min(limit, len(all))]
}

// errArchive means that the archive does not respond, or that an object of it is damaged.
var errArchive = errors.New("the archive cannot be read")

// inArchive finds a saga in the archive; nil if it is not there, or there is no archive.
func (s *server) inArchive(ctx context.Context, id uuid.UUID) (*archive.Entry, error) {
	if s.cfg.Archive == nil {
		return nil, nil
	}
	e, err := s.cfg.Archive.Find(ctx, id)
	switch {
	case errors.Is(err, archive.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errArchive, err)
	}
	return &e, nil
}

// read is load for requests that change nothing: they also find archived sagas.
func (s *server) read(ctx context.Context, id uuid.UUID) (*live, error) {
	l, err := s.load(ctx, id)
	if !absent(err) {
		return l, err
	}
	e, archiveErr := s.inArchive(ctx, id)
	if e == nil {
		return nil, cmp.Or(archiveErr, err)
	}
	l, err = s.loadFrom(ctx, id, s.records)
	if err == nil {
		l.archived = &machine.Archived{Object: e.Object, At: saga.Time{Time: e.ArchivedAt}}
	}
	return l, err
}

// absent reports whether an error says that there is no such saga or session.
func absent(err error) bool {
	var p *problem
	return errors.As(err, &p) && (p.Type == problemType+"saga_not_found" || p.Type == problemType+"session_not_found")
}

// refuseArchived wraps a handler that does not read the archive: a saga that it does not find may
// be there.
func (s *server) refuseArchived(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := next(c)
		if !absent(err) {
			return err
		}
		id, bad := uuid.FromString(param(c, "id"))
		if bad != nil {
			return err
		}
		e, archiveErr := s.inArchive(c.Request().Context(), id)
		if e == nil {
			return cmp.Or(archiveErr, err)
		}
		return fail("saga_archived", "it ended, and is in the archive since %s, where nothing changes it: GET /v1/sagas/%s shows it; start a new saga to do its work again", saga.Time{Time: e.ArchivedAt}, id).of(id)
	}
}

// readsArchive reports whether a route finds archived sagas.
func readsArchive(r *route) bool {
	return r.method == http.MethodGet && strings.HasPrefix(r.path, ofSaga)
}

// archivedNamed lists some archived sagas whose ids begin with a text.
func (s *server) archivedNamed(ctx context.Context, text string) ([]archive.Entry, error) {
	first, last, ok := journal.NamedRange(text)
	if s.cfg.Archive == nil || !ok {
		return nil, nil
	}
	list, err := s.cfg.Archive.Range(ctx, first, last, maxCandidates+1)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errArchive, err)
	}
	return list, nil
}
