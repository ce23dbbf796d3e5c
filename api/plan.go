package api

import (
	"encoding/json"
	"net/http"

	"github.com/labstack/echo/v4"

	"recourse/saga"
	"recourse/saga/machine"
)

// plan serves POST /v1/plan: the requests that a start would send. It sends nothing.
func (s *server) plan(c echo.Context) error {
	o, err := s.readObject(c, "definition", "version", "input", "stubs", "budget", "labels")
	if err != nil {
		return err
	}
	version, budget := o.version(), o.budget()
	options := machine.StartOptions{Version: version, Input: o.raw("input"), Vars: s.cfg.Vars, Budget: budget, Labels: o.labels(false), Actor: callerOf(c).name}
	var stubs map[string]json.RawMessage
	o.into("stubs", &stubs, "an object that maps steps' paths to their outputs")
	def, err := s.planned(c, o, version)
	if err != nil {
		return err
	}
	if err := o.err(); err != nil {
		return err
	}
	for _, path := range sortedKeys(stubs) {
		if def.Step(path) == nil {
			o.bad("/stubs/"+path, "unknown_step", "the definition has no step %.63q", path)
		}
	}
	if len(o.wrong) > 0 {
		return fail("invalid_plan", "%s", o.wrong[0].Detail).with(o.wrong...)
	}
	if budget != nil && budget.Currency == "" {
		budget.Currency = def.Currency
	}
	data, findings := machine.BeginPlan(def, options)
	if len(findings) > 0 {
		return fail("invalid_plan", "fix the fields in `errors`: a start would be refused, too").with(findings...)
	}
	plan, err := machine.MakePlan(def, data, stubs, s.cfg.Engine.Now())
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, plan)
}

// planned returns the definition to plan, given by the name of a published one or as text.
func (s *server) planned(c echo.Context, o *object, version int) (*saga.Definition, error) {
	raw := o.raw("definition")
	var text string
	if raw == nil || string(raw) == "null" {
		o.bad("/definition", "missing_field", "name a published definition, or give one as YAML text or as an object")
		return nil, o.err()
	}
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	if nameForm.MatchString(text) {
		def, _, err := s.pick(c.Request().Context(), text, version)
		return def, err
	}
	return s.cfg.Catalog.Compile(c.Request().Context(), "definition.yaml", []byte(text))
}
