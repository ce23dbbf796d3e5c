package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"recourse/saga"
	"recourse/saga/dsl"
)

// maxPayload is the maximum size of a signal's payload, in bytes.
const maxPayload = 256 << 10

// signalled is the response to a signal.
type signalled struct {
	ID   string `json:"id"`
	Saga string `json:"saga"`
	Name string `json:"name"`
}

// signal serves POST /v1/sagas/{id}/signals/{name}. The body is the payload.
func (s *server) signal(c echo.Context) error {
	payload, err := s.body(c)
	if err != nil {
		return err
	}
	switch t := mediaType(c); {
	case len(payload) > maxPayload:
		return fail("body_too_large", "a signal's payload has at most %d bytes: send a reference, and let a step fetch the content", maxPayload)
	case len(payload) > 0 && t != "" && !isJSON(t):
		return fail("unsupported_media_type", "send the payload as JSON, with Content-Type: application/json, not %.60s", t)
	}
	if len(payload) > 0 {
		if p := strictJSON(payload); p != nil {
			return p
		}
	}
	l, err := s.named(c)
	if err != nil {
		return err
	}
	name := param(c, "name")
	cmd := saga.Command{Do: saga.Signal{Name: name, Data: payload}}
	if known := l.def.Signals(); !slices.Contains(known, name) {
		return unknownSignal(l.def.Name, name, known).of(l.id)
	}
	if err := callerOf(c).maySignal(l.def.Name, l.m.Starter(), name); err != nil {
		return err
	}
	id, _, err := l.send(c, cmd) // a signal that no node has read in time is stored nevertheless
	if err != nil {
		return err
	}
	return reply(c, http.StatusAccepted, signalled{ID: id.String(), Saga: l.id.String(), Name: name})
}

func unknownSignal(definition, name string, known []string) *problem {
	if len(known) == 0 {
		return fail("unknown_signal", "%s has no step that waits for a signal", definition)
	}
	hint := dsl.Suggest(name, known)
	if hint == "" {
		hint = "; there are " + strings.Join(known, ", ")
	}
	return fail("unknown_signal", "no step of %s waits for a signal %.130q%s", definition, name, hint)
}
