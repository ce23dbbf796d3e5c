package api

import (
	"net/http"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/saga/compare"
)

// compare serves GET /v1/sagas/{id}/compare/{other}, and the same for sessions: how the steps of
// two sagas differ. Either may still run.
func (s *server) compare(c echo.Context) error {
	if _, err := readQuery(c); err != nil {
		return err
	}
	id, err := sagaID(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	other, err := s.otherID(c)
	if err != nil {
		return err
	}
	here, err := s.read(ctx, id)
	if err != nil {
		return err
	}
	there, err := s.read(ctx, other)
	if err != nil {
		return err
	}
	if (here.def.Session == nil) != (there.def.Session == nil) {
		return fail("not_comparable", "one of them is a saga and the other a session: compare two of the same sort").of(id)
	}
	res, err := compare.Sagas(here.m, there.m, here.records, there.records)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, res)
}

// otherID returns the id of the saga to compare with; its first characters are enough.
func (s *server) otherID(c echo.Context) (uuid.UUID, error) {
	text := param(c, "other")
	if id, err := s.sagaNamed(c.Request().Context(), text); err != nil || !id.IsNil() {
		return id, err
	}
	return parseSagaID(text)
}
