package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"recourse/internal/cli"
	"recourse/saga"
)

// Problem is an error of the API (RFC 9457).
type Problem struct {
	Type   string         `json:"type"`
	Title  string         `json:"title"`
	Status int            `json:"status"`
	Detail string         `json:"detail"`
	Errors []saga.Finding `json:"errors"`
	Saga   string         `json:"saga"`
	Step   string         `json:"step"`

	retryAfter time.Duration // of the header; 0: none
}

// Error implements error, in the terms of the command line: one line, and one more for each finding
// that the line does not contain.
func (p *Problem) Error() string {
	if len(p.Errors) == 1 && p.Errors[0].Detail == p.Detail && p.Errors[0].Pointer != "" && p.Errors[0].Line == 0 {
		return InCommands(p.Errors[0].Pointer + ": " + p.Detail)
	}
	text := p.Title
	if p.Detail != "" && p.Detail != p.Title {
		text += ": " + p.Detail
	}
	if p.Saga != "" && !strings.Contains(text, p.Saga) {
		text += " (saga " + p.Saga + ")"
	}
	for _, f := range p.Errors {
		where := f.Pointer
		if f.Line > 0 {
			where = fmt.Sprintf("%d:%d", f.Line, f.Column)
		}
		if where == "" && f.Detail == p.Detail {
			continue
		}
		text += fmt.Sprintf("\n  %s: %s", strings.TrimPrefix(where+": "+f.Code, ": "), f.Detail)
	}
	return InCommands(text)
}

// Code returns the code of an error of the API, such as superseded; "" for any other error.
func Code(err error) string {
	p, ok := errors.AsType[*Problem](err)
	if !ok {
		return ""
	}
	return p.Type[strings.LastIndexByte(p.Type, ':')+1:]
}

// passing reports whether the same request may succeed later without a change: the server is at its
// limits, or cannot reach what it needs.
func (p *Problem) passing() bool {
	return Code(p) != "definition_unusable" && (p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable)
}

// problemOf reads an error response and adds the exit code.
func problemOf(status int, body []byte) error {
	var p Problem
	if json.Unmarshal(body, &p) != nil || p.Title == "" {
		p = Problem{Title: fmt.Sprintf("the server answered HTTP %d", status), Detail: "without saying why; is it a recourse server, or a proxy in between?"}
	}
	return cli.Exit(exitOfStatus(status), &p)
}

// exitOfStatus maps HTTP statuses to exit codes.
func exitOfStatus(status int) int {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusMethodNotAllowed, http.StatusNotAcceptable:
		return cli.Usage
	case http.StatusUnauthorized, http.StatusForbidden:
		return cli.Forbidden
	case http.StatusNotFound:
		return cli.NotFound
	case http.StatusConflict, http.StatusPreconditionFailed, http.StatusPreconditionRequired:
		return cli.Conflict
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return cli.Unreachable
	}
	return cli.Failed
}
