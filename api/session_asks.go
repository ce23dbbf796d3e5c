package api

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"recourse/saga"
	"recourse/saga/kinds/ask"
	"recourse/saga/machine"
)

// askView is a session's request to a model, with its contents as far as they are stored.
type askView struct {
	Path   string             `json:"path"`
	Life   int                `json:"life"`
	Route  string             `json:"route"` // openai/chat/completions
	Model  string             `json:"model,omitempty"`
	Status machine.CallStatus `json:"status"` // running, succeeded or failed
	// Request is the body as the agent has sent it, except for white space and the order of
	// members; nil: none, not kept, or erased.
	Request json.RawMessage `json:"request,omitempty"`
	Answer  *answerView     `json:"answer,omitempty"` // nil: none, or erased
	Error   *saga.Failure   `json:"error,omitempty"`
}

// answerView is the answer to a request, as the agent has got it.
type answerView struct {
	Type string `json:"content_type"`
	Text string `json:"text"`
}

// getAsk serves GET /v1/sessions/{id}/asks/{path}.
func (s *server) getAsk(c echo.Context) error {
	if _, err := readQuery(c); err != nil {
		return err
	}
	l, err := s.readSession(c)
	if err != nil {
		return err
	}
	path := param(c, "path")
	a := l.models.At(path)
	if a == nil {
		return fail("call_not_found", "the session has no request %.100q to a model: its journal lists them", path).of(l.id)
	}
	v := askView{Path: a.Path, Life: a.Life, Route: a.Question.Route, Model: a.Question.Model, Status: machine.CallRunning}
	switch {
	case a.Output != nil:
		v.Status = machine.CallSucceeded
	case a.Ended:
		v.Status = machine.CallFailed
	}
	if a.Failure != nil {
		v.Error = a.Failure.Error
	}
	question, output := a.Question, a.Output // they do not change, but the index may grow
	ctx := c.Request().Context()
	c.(*call).letGo()
	v.Request, err = question.Assemble(func(hash string) ([]byte, error) { return l.content(ctx, hash) })
	if err != nil && !errors.Is(err, ask.ErrErased) {
		return err
	}
	if output == nil {
		return reply(c, http.StatusOK, v)
	}
	content, err := l.content(ctx, output.Answer)
	switch {
	case err == nil:
		v.Answer = &answerView{Type: output.Type, Text: string(content)}
	case !errors.Is(err, ask.ErrErased):
		return err
	}
	return reply(c, http.StatusOK, v)
}
