package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"recourse/saga"
	"recourse/saga/dsl"
)

// validation is the response of POST /v1/validate.
type validation struct {
	OK       bool           `json:"ok"`
	Errors   []saga.Finding `json:"errors"`
	Warnings []saga.Finding `json:"warnings"`
}

// validate serves POST /v1/validate: it checks a definition or an action, given as YAML or JSON, or
// as text in {"definition": "…"}. It stores nothing.
func (s *server) validate(c echo.Context) error {
	src, err := s.source(c)
	if err != nil {
		return err
	}
	if isJSON(mediaType(c)) {
		src = wrapped(src)
	}
	v := validation{OK: true, Errors: []saga.Finding{}, Warnings: []saga.Finding{}}
	warnings, err := s.check(c, src)
	var errs *dsl.Errors
	switch {
	case errors.As(err, &errs):
		v.OK, v.Errors = false, errs.Findings()
	case err != nil:
		return err
	}
	v.Warnings = append(v.Warnings, warnings...)
	return reply(c, http.StatusOK, v)
}

// check compiles a document of either kind.
func (s *server) check(c echo.Context, src []byte) ([]saga.Finding, error) {
	// Only callers who may publish the document may learn which secrets the server has.
	mayPublish := callerOf(c).can(opPublish)
	if dsl.IsAction(src) {
		a, errs := s.cfg.Catalog.CompileAction("action.yaml", src)
		if errs != nil {
			return nil, errs
		}
		if !mayPublish {
			return a.Warnings, nil
		}
		return s.actionWarnings(a), nil
	}
	def, err := s.cfg.Catalog.Compile(c.Request().Context(), "definition.yaml", src)
	if err != nil {
		return nil, err
	}
	if !mayPublish {
		absent, err := s.cfg.Catalog.MissingDefinitions(c.Request().Context(), def)
		return slices.Concat(def.Warnings, absent), err
	}
	return s.warnings(c.Request().Context(), def)
}

// wrapped returns the definition in {"definition": …}, given as text or as an object; src if it is
// not wrapped.
func wrapped(src []byte) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(src, &fields) != nil || len(fields) != 1 || fields["definition"] == nil {
		return src
	}
	var text string
	if json.Unmarshal(fields["definition"], &text) == nil {
		return []byte(text)
	}
	return fields["definition"]
}
