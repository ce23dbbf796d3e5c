package api

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"recourse/saga/machine"
)

// listSteps serves GET /v1/sagas/{id}/steps: all steps in the order of the definition, on one page.
func (s *server) listSteps(c echo.Context) error {
	if _, err := readQuery(c); err != nil {
		return err
	}
	l, views, err := s.stepsOf(c)
	if err != nil {
		return err
	}
	c.Response().Header().Set("ETag", seqTag(l.m.Seq()))
	return reply(c, http.StatusOK, page[machine.StepView]{Data: views})
}

// getStep serves GET /v1/sagas/{id}/steps/{path}.
func (s *server) getStep(c echo.Context) error {
	if _, err := readQuery(c); err != nil {
		return err
	}
	l, views, err := s.stepsOf(c)
	if err != nil {
		return err
	}
	return l.answerStep(c, http.StatusOK, views, param(c, "path"))
}

func (s *server) stepsOf(c echo.Context) (*live, []machine.StepView, error) {
	id, err := sagaID(c)
	if err != nil {
		return nil, nil, err
	}
	l, err := s.read(c.Request().Context(), id)
	if err != nil {
		return nil, nil, err
	}
	views, err := machine.Steps(l.m, l.records)
	return l, views, err
}

func (l *live) answerStep(c echo.Context, status int, views []machine.StepView, path string) error {
	at := slices.IndexFunc(views, func(v machine.StepView) bool { return v.Path == path })
	if at < 0 {
		return noStep(path).of(l.id)
	}
	c.Response().Header().Set("ETag", seqTag(l.m.Seq()))
	return reply(c, status, views[at])
}

func noStep(path string) *problem {
	return fail("step_not_found", "the definition has no step %.100q: GET …/steps lists them", path).at(path)
}
