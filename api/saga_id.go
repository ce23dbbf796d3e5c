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

// leastName is how much of an id stands for it: any less is the same for all sagas of some hours.
const leastName = 8

// maxCandidates is how many sagas a problem names when an id's beginning is that of several.
const maxCandidates = 5

// isName tells what may be an id's beginning.
func isName(text string) bool { return len(text) >= leastName && new(journal.Filter).Named(text) }

// sagaID is the path's saga. What is no id in its one canonical form names nothing.
func sagaID(c echo.Context) (uuid.UUID, error) {
	text := param(c, "id")
	id, err := uuid.FromString(text)
	if err != nil || id.String() != text || id.IsNil() {
		return uuid.Nil, fail("saga_not_found", "a saga's id is a UUID in lower case, as its start answered, or its first %d characters or more", leastName)
	}
	return id, nil
}

// wholeID has a route's handler see the whole id of the path's saga where a request has only its
// beginning.
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

// wholeSaga does the same for a list of one saga.
func (s *server) wholeSaga(ctx context.Context, q *query) error {
	id, err := s.sagaNamed(ctx, q.Get("saga"))
	if err == nil && !id.IsNil() {
		q.Set("saga", id.String())
	}
	return err
}

// sagaNamed is the only saga whose id begins with a text; Nil if the text is not an id's beginning
// in lower case, or is a whole id. Errors: saga_not_found, ambiguous_id.
func (s *server) sagaNamed(ctx context.Context, text string) (uuid.UUID, error) {
	if !isName(text) || len(text) == len(uuid.Nil.String()) || text != strings.ToLower(text) {
		return uuid.Nil, nil
	}
	f := journal.Filter{Limit: maxCandidates + 1}
	f.Named(text)
	list, err := s.cfg.Store.Sagas(ctx, f)
	switch {
	case err != nil:
		return uuid.Nil, err
	case len(list.Heads) == 0:
		return uuid.Nil, fail("saga_not_found", "no saga's id begins with %s: GET /v1/sagas lists those that there are", text)
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
	return uuid.Nil, fail("ambiguous_id", "send more characters of the id: %s is the beginning of %s", text, strings.Join(named, ", "))
}
