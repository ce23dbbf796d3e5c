package ui

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/api/rest"
	"recourse/api/ui/controls"
	"recourse/api/ui/facts"
	"recourse/api/ui/format"
	"recourse/api/ui/outline"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/machine"
)

// startView is the form that starts a saga.
type startView struct {
	document
	Newest     bool
	Fields     []*controls.Control
	Labels     string // one name=value per line
	Budget     string
	Stubs      string // outputs for the plan, as JSON
	WrongStubs string
	Key        string // the Idempotency-Key: a form starts one saga, even if it is sent twice
	Own        string // the definition's own budget
	Problem    *rest.Problem
	Plan       *planView
}

// planView is the plan of a start.
type planView struct {
	machine.Plan
	Rest []plannedUndo // compensations in their order
}

// Pivots reports whether the plan has a pivot.
func (p planView) Pivots() bool {
	return slices.ContainsFunc(p.Steps, func(s machine.PlannedStep) bool { return s.Pivot })
}

type plannedUndo struct {
	Path string
	*machine.Planned
}

// showStart serves GET /definitions/{name}/start?version=v2.
func showStart(v *request) error {
	if !v.who.Can("start") {
		return &rest.Problem{Status: http.StatusForbidden, Title: "Your role may not start sagas", Detail: "ask somebody with the role client, operator or admin"}
	}
	page, err := v.startForm(v.r.URL.Query().Get("version"))
	if err != nil {
		return err
	}
	return v.render("definition-start", "Start "+page.Name, page)
}

// startForm returns the empty form for a version; "" is the newest.
func (v *request) startForm(version string) (*startView, error) {
	v.still = true
	page := &startView{}
	name := v.r.PathValue("name")
	var err error
	if page.document, _, err = v.document("definitions", name, version); err != nil {
		return nil, err
	}
	newest, _, err := v.document("definitions", name, "")
	if err != nil {
		return nil, err
	}
	page.Newest = newest.Version == page.Version
	def, err := v.cfg.Definitions.Definition(v.r.Context(), name, page.Number())
	switch {
	case err != nil && !errors.Is(err, saga.ErrUnusable):
		return nil, err
	case err != nil:
		return nil, &rest.Problem{Status: http.StatusServiceUnavailable, Title: "This server cannot run the definition", Detail: "start the saga on a server with the release that published it"}
	}
	o := outline.Of(def.Source)
	page.Fields = controls.Of(dsl.Document(def.Input), "/input", o.Order)
	page.Own = facts.Limits(def.Budget)
	page.Key, err = newKey()
	return page, err
}

// newKey returns a new Idempotency-Key.
func newKey() (string, error) {
	id, err := uuid.NewV4()
	return id.String(), err
}

// startSaga serves POST /definitions/{name}/start: it plans a saga, or starts it.
func startSaga(v *request) error {
	if err := v.r.ParseForm(); err != nil {
		return &rest.Problem{Status: http.StatusBadRequest, Title: "The form cannot be read", Detail: "go back and send it again"}
	}
	form := v.r.PostForm
	page, err := v.startForm(form.Get("version"))
	if err != nil {
		return err
	}
	page.Labels, page.Budget, page.Stubs = form.Get("labels"), form.Get("budget"), form.Get("stubs")
	if key := form.Get("key"); key != "" {
		page.Key = key
	}
	controls.Fill(page.Fields, form)
	body, ok := page.request(form.Get("do") == "plan")
	if !ok {
		return v.startAgain(page, &rest.Problem{Status: http.StatusUnprocessableEntity, Title: "The input is incomplete", Detail: "nothing was started or sent: fix the marked fields"})
	}
	if form.Get("do") == "plan" {
		var plan machine.Plan
		if _, err := v.api.Do(v.r.Context(), http.MethodPost, "/v1/plan", body, nil, &plan); err != nil {
			return v.startRefused(page, err)
		}
		page.Plan = &planView{Plan: plan, Rest: undone(plan)}
		return v.render("definition-start", "Plan of "+page.Name, page)
	}
	var begun machine.View
	// The start continues even if the user leaves the page; sending the form again returns the same
	// saga.
	r, err := v.api.Do(context.WithoutCancel(v.r.Context()), http.MethodPost, "/v1/sagas", body, http.Header{"Idempotency-Key": {page.Key}}, &begun)
	if err != nil {
		return v.startRefused(page, err)
	}
	notice := "Started."
	if r.Header.Get("Idempotency-Replayed") != "" {
		notice = "This saga was started before, by the same form."
	}
	return v.done("/sagas/"+begun.ID, notice)
}

// request returns the body of a start or of a plan; ok is false if a field is invalid.
func (p *startView) request(plan bool) (body []byte, ok bool) {
	input, ok := controls.Document(p.Fields)
	req := struct {
		Definition string            `json:"definition"`
		Version    string            `json:"version"`
		Input      json.RawMessage   `json:"input,omitempty"`
		Budget     string            `json:"budget,omitempty"`
		Labels     map[string]string `json:"labels,omitempty"`
		Stubs      json.RawMessage   `json:"stubs,omitempty"`
	}{Definition: p.Name, Version: p.Version, Input: input, Budget: strings.TrimSpace(p.Budget), Labels: map[string]string{}}
	for _, l := range format.Lines(p.Labels) {
		if name, value, found := strings.Cut(l, "="); found {
			req.Labels[strings.TrimSpace(name)] = strings.TrimSpace(value)
		} else if strings.TrimSpace(l) != "" {
			req.Labels[strings.TrimSpace(l)] = "" // the API reports the error
		}
	}
	if stubs := strings.TrimSpace(p.Stubs); plan && stubs != "" {
		if req.Stubs = json.RawMessage(stubs); !json.Valid(req.Stubs) {
			p.WrongStubs = `this is not JSON: write an object, such as {"charge": {"id": "ch_1"}}`
			return nil, false
		}
	}
	body, err := journal.Encode(req)
	return body, ok && err == nil
}

// startRefused shows the form with the API's findings.
func (v *request) startRefused(page *startView, err error) error {
	var p *rest.Problem
	if !errors.As(err, &p) || p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden {
		return err
	}
	if strings.HasSuffix(p.Type, ":idempotency_key_reused") {
		again := *p
		again.Title, again.Detail = "This form has already started a saga", "its input was different. To start another saga with the current input, press Start again."
		if page.Key, err = newKey(); err != nil {
			return err
		}
		p = &again
	}
	return v.startAgain(page, p)
}

func (v *request) startAgain(page *startView, p *rest.Problem) error {
	shown := *p
	shown.Errors = controls.Blame(page.Fields, p.Errors)
	if len(p.Errors) > 0 {
		shown.Detail = "Nothing was started or sent. Fix the marked fields."
	}
	page.Problem = &shown
	return v.renderAs(p.Status, "definition-start", "Start "+page.Name, page)
}

// undone lists the compensations in the order in which they would run.
func undone(p machine.Plan) []plannedUndo {
	var list []plannedUndo
	for _, at := range p.Undo {
		i := slices.IndexFunc(p.Steps, func(s machine.PlannedStep) bool { return s.Path == at })
		u := plannedUndo{Path: at}
		if i >= 0 {
			u.Planned = p.Steps[i].Undo
		}
		list = append(list, u)
	}
	return list
}
