package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
)

// leastName is the minimum length of an abbreviated saga id. A shorter one is the same for all
// sagas of some hours.
const leastName = 8

// maxCandidates is the maximum of sagas that a problem lists if an abbreviated id is ambiguous.
const maxCandidates = 5

// isName reports whether a text may be an abbreviated id.
func isName(text string) bool { return len(text) >= leastName && new(journal.Filter).Named(text) }

// sagaID returns the saga id in the path. Only the canonical form of an id is found.
func sagaID(c echo.Context) (uuid.UUID, error) { return parseSagaID(param(c, "id")) }

func parseSagaID(text string) (uuid.UUID, error) {
	id, err := uuid.FromString(text)
	if err != nil || id.String() != text || id.IsNil() {
		return uuid.Nil, fail("saga_not_found", "a saga's id is a UUID in lower case, or its first %d characters or more", leastName)
	}
	return id, cellOf(id)
}

// cellOf refuses an id of another cell. There is only the home cell so far; an id that says
// otherwise comes from an installation with several.
func cellOf(id uuid.UUID) error {
	if cell := journal.IDCell(id); cell != 0 {
		return fail("unknown_cell", "the id %s is of cell %d, which this server does not serve: send the request to a server of that cell's installation", id, cell)
	}
	return nil
}

// wholeID replaces an abbreviated saga id in the path by the whole id, before the handler runs.
func (s *server) wholeID(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		id, err := s.sagaNamed(c.Request().Context(), param(c, "id"))
		if err != nil {
			return err
		}
		if !id.IsNil() {
			values := slices.Clone(c.ParamValues())
			values[slices.Index(c.ParamNames(), "id")] = id.String()
			c.SetParamValues(values...)
		}
		return next(c)
	}
}

// wholeSaga does the same for the parameter saga of a list.
func (s *server) wholeSaga(ctx context.Context, q *query) error {
	id, err := s.sagaNamed(ctx, q.Get("saga"))
	if err == nil && !id.IsNil() {
		q.Set("saga", id.String())
	}
	return err
}

// sagaNamed returns the only saga whose id begins with a text. It returns Nil if the text is a
// whole id, or not the beginning of one in lower case. Errors: saga_not_found, ambiguous_id.
func (s *server) sagaNamed(ctx context.Context, text string) (uuid.UUID, error) {
	if !isName(text) || len(text) == len(uuid.Nil.String()) || text != strings.ToLower(text) {
		return uuid.Nil, nil
	}
	f := journal.Filter{Limit: maxCandidates + 1}
	f.Named(text)
	list, err := s.cfg.Store.Sagas(ctx, f)
	if err != nil {
		return uuid.Nil, err
	}
	if len(list.Heads) == 0 {
		archived, err := s.archivedNamed(ctx, text)
		if err != nil {
			return uuid.Nil, err
		}
		for i := range archived {
			list.Heads = append(list.Heads, archived[i].Head())
		}
	}
	switch {
	case len(list.Heads) == 0:
		return uuid.Nil, fail("saga_not_found", "no saga's id begins with %s: GET /v1/sagas lists the sagas", text)
	case len(list.Heads) == 1:
		return list.Heads[0].ID, nil
	}
	var named []string
	for _, h := range list.Heads[:min(len(list.Heads), maxCandidates)] {
		named = append(named, fmt.Sprintf("%s (%s, %s)", h.ID, h.Definition, h.Status))
	}
	if len(list.Heads) > maxCandidates {
		named = append(named, "and others")
	}
	return uuid.Nil, fail("ambiguous_id", "send more characters of the id: %s matches %s", text, strings.Join(named, ", "))
}
