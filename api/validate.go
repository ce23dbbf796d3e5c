package api

import (
	"encoding/json"
	"net/http"

	"github.com/labstack/echo/v4"

	"recourse/saga"
)

// validation is what is wrong with a definition, or might be.
type validation struct {
	OK       bool           `json:"ok"`
	Errors   []saga.Finding `json:"errors"`
	Warnings []saga.Finding `json:"warnings"`
}

// validate serves POST /v1/validate: a definition as YAML or JSON, or as text in
// {"definition": "…"}. Nothing is kept.
func (s *server) validate(c echo.Context) error {
	src, err := s.source(c)
	if err != nil {
		return err
	}
	if isJSON(mediaType(c)) {
		src = wrapped(src)
	}
	v := validation{OK: true, Errors: []saga.Finding{}, Warnings: []saga.Finding{}}
	def, errs := s.cfg.Catalog.Compile("definition.yaml", src)
	if errs != nil {
		v.OK, v.Errors = false, errs.Findings()
	} else {
		v.Warnings = append(v.Warnings, def.Warnings...)
	}
	return reply(c, http.StatusOK, v)
}

// wrapped is the definition in {"definition": …}, as text or itself; src if it is not wrapped.
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
