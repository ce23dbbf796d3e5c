package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"recourse/internal/httptext"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/kinds/http"
)

// Result is the body of the answer to a call.
type Result struct {
	Content    json.RawMessage `json:"content"`
	Structured json.RawMessage `json:"structured,omitempty"`
	IsError    bool            `json:"is_error"`
}

// Codes of answers, in addition to those of package egress and of http steps. With the first four,
// the call was not sent.
const (
	CodeToolMissing  = "mcp_tool_missing" // the server has no such tool
	CodeToolWrites   = "mcp_tool_writes"  // a status check, or a step with fresh_for, must not call it
	CodeUnauthorized = "mcp_unauthorized" // the server rejects the credentials
	CodeNotReady     = "mcp_not_ready"    // the server is away, or does not speak the protocol

	CodeRefused      = "mcp_refused"        // the server has not called the tool
	CodeError        = "mcp_error"          // the server has failed; the tool may have been called
	CodeSessionEnded = "mcp_session_ended"  // the server does not know the session, and did nothing
	CodeInput        = "mcp_input_required" // the tool asks a person something
	CodeToolError    = "tool_error"         // the tool says that it has failed
)

// Refusal reports whether a JSON-RPC error says that the tool was not called: the message could not
// be parsed (-32700) or is invalid (-32600), the method or the tool does not exist (-32601,
// -32602), headers and message differ (-32020), or the client lacks a capability (-32021) or a
// revision (-32022). Servers use the other codes for failures of the tool, too.
func Refusal(code int64) bool {
	switch code {
	case -32700, -32600, -32601, -32602, -32020, -32021, -32022:
		return true
	}
	return false
}

// Judge implements saga.Call.
func (b *Body) Judge(r saga.Request, a saga.Answer) saga.Verdict {
	class := b.class(r, a)
	if class == journal.Succeeded {
		return b.Read(r, a)
	}
	return saga.Verdict{Class: class, Error: failed(r, a)}
}

// noEffect reports whether a call certainly has no effect. The answer's hint is newer than the
// request's.
func (b *Body) noEffect(r saga.Request, a saga.Answer) bool {
	return b.reads || r.Hinted(a.Hint).Reads()
}

func (b *Body) class(r saga.Request, a saga.Answer) journal.Class {
	switch {
	case !a.Sent && (a.Code == CodeToolMissing || a.Code == CodeToolWrites):
		return journal.Refused
	case !a.Sent && (a.Code == saga.CodeServerMissing || a.Code == CodeUnauthorized):
		return journal.Held
	case a.Sent && a.Code == CodeRefused:
		return journal.Refused
	case a.Sent && a.Code == CodeSessionEnded:
		return journal.Transient
	}
	return http.Class(a, b.noEffect(r, a))
}

// Read implements saga.Reader. A tool that reports an error may have had an effect before, so only
// the error of a read is definite, unless the author's `expect.refused` says so.
func (b *Body) Read(r saga.Request, a saga.Answer) saga.Verdict {
	class := journal.InDoubt
	res, err := resultOf(a.Body)
	switch {
	case err != nil:
		if b.noEffect(r, a) {
			class = journal.Transient
		}
		return saga.Verdict{Class: class, Error: &saga.Failure{Code: "body_invalid", Title: fmt.Sprintf("the answer of %s is no result of a tool", target(r)), Detail: err.Error()}}
	case res.IsError:
		if b.noEffect(r, a) {
			class = journal.Refused
		}
		return saga.Verdict{Class: class, Error: &saga.Failure{Code: CodeToolError, Title: target(r) + " reports an error", Detail: httptext.Clip(res.text(), maxSaid)}}
	case len(res.Structured) > 0 && string(res.Structured) != "null":
		return saga.Verdict{Class: journal.Succeeded, Output: res.Structured}
	}
	return saga.Verdict{Class: journal.Succeeded, Output: httptext.QuoteJSON(res.text())}
}

// Records implements saga.Reader: the output is enough.
func (b *Body) Records() bool { return false }

const maxSaid = 500 // bytes of a tool's error in a failure

// resultOf decodes the body of an answer.
func resultOf(body json.RawMessage) (Result, error) {
	var r Result
	if len(body) == 0 || body[0] != '{' {
		return Result{}, errors.New("it is no object")
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return Result{}, errors.New("it is no object with content, structured and is_error")
	}
	if r.Content == nil {
		return Result{}, errors.New("it has no content")
	}
	return r, nil
}

// text joins the texts of the content.
func (r *Result) text() string {
	var content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(r.Content, &content) != nil {
		return ""
	}
	var texts []string
	for _, c := range content {
		if c.Type == "text" {
			texts = append(texts, c.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// titles are the beginnings of titles, by code.
var titles = map[string]string{
	saga.CodeServerMissing: "the configuration has no such MCP server",
	CodeToolMissing:        "the MCP server has no such tool",
	CodeToolWrites:         "a status check, or a step with fresh_for, calls read-only tools only",
	CodeUnauthorized:       "the MCP server rejects the credentials",
	CodeNotReady:           "the MCP server is not ready",
	CodeRefused:            "the MCP server refuses the call",
	CodeError:              "the MCP server has failed",
	CodeSessionEnded:       "the MCP server has ended the session",
	CodeInput:              "the tool asks for an input, which a saga cannot give",
}

func failed(r saga.Request, a saga.Answer) *saga.Failure {
	if title := titles[a.Code]; title != "" {
		return &saga.Failure{Code: a.Code, Title: title + " (" + target(r) + ")", Detail: a.Detail}
	}
	return http.Failed(saga.Request{Method: "tools/call"}, a, target(r))
}
