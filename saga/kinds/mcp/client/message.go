package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"recourse/internal/egress"
	"recourse/internal/httptext"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/kinds/mcp"
)

// The revisions of the protocol.
const (
	stateless = "2026-07-28" // each request says all that the server has to know
	legacy    = "2025-11-25" // begins with initialize, and may have a session
)

// accepted are the revisions that a server may answer initialize with.
var accepted = []string{legacy, "2025-06-18", "2025-03-26", "2024-11-05"}

// The names in the _meta of requests of the stateless revision.
const (
	metaRevision     = "io.modelcontextprotocol/protocolVersion"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
)

// message is a message of JSON-RPC 2.0.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// String returns the text of the server, as it is: [httptext.Redactor.Detail] makes it short.
func (e *rpcError) String() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// reply is the answer to a request.
type reply struct {
	status int // of HTTP; 200 for a process
	result json.RawMessage
	err    *rpcError
}

// encode returns a request, or a notification if id is 0, in one line.
func encode(id int64, method string, params map[string]any) ([]byte, error) {
	m := message{JSONRPC: "2.0", Method: method}
	if len(params) > 0 {
		m.Params = params
	}
	if id != 0 {
		m.ID = fmt.Append(nil, id)
	}
	return journal.Encode(m)
}

// errOther says that a message is not the response to a request, but a request or a notification.
var errOther = errors.New("it is not the response")

// decode reads the response to a request. An error without an id is the response to the only
// request of an exchange.
func decode(text []byte, id int64) (reply, error) {
	var m message
	switch err := json.Unmarshal(text, &m); {
	case err != nil || m.JSONRPC != "2.0":
		return reply{}, errors.New("the answer is no message of JSON-RPC 2.0")
	case m.Method != "":
		return reply{}, errOther
	}
	mine := string(bytes.TrimSpace(m.ID)) == fmt.Sprint(id)
	switch {
	case m.Error != nil && (mine || len(m.ID) == 0 || string(m.ID) == "null"):
		return reply{err: m.Error}, nil
	case mine && m.Result != nil:
		return reply{result: m.Result}, nil
	}
	return reply{}, errOther
}

// failure says why there is no reply.
type failure struct {
	sent       bool
	status     int
	code, why  string
	body       json.RawMessage
	headers    map[string]string
	retryAfter time.Duration
}

// after returns the answer to a call.
func (f *failure) after() saga.Answer {
	return saga.Answer{Sent: f.sent, Status: f.status, Code: f.code, Detail: f.why, Body: f.body, Headers: f.headers, RetryAfter: f.retryAfter}
}

// before returns the answer to a call that was not sent, because the server was not ready.
func (f *failure) before() saga.Answer {
	a := saga.Answer{Code: f.code, Detail: f.why, RetryAfter: f.retryAfter}
	switch {
	case f.status == http.StatusUnauthorized || f.status == http.StatusProxyAuthRequired:
		a.Code = mcp.CodeUnauthorized
	case f.sent || f.code == "":
		a.Code = mcp.CodeNotReady
	}
	return a
}

// answer returns the answer to a call of a tool.
func (r *reply) answer(redact *httptext.Redactor) saga.Answer {
	a := saga.Answer{Sent: true, Status: r.status}
	if r.err != nil {
		a.Detail = r.err.String()
		a.Body, _, _ = httptext.EncodeBody(httptext.JSON, saga.Encode(map[string]any{"error": map[string]any{"code": r.err.Code, "message": r.err.Message}}), redact)
		switch {
		case mcp.Refusal(r.err.Code):
			a.Code = mcp.CodeRefused
		case r.status >= 200 && r.status <= 299:
			a.Code = mcp.CodeError
		}
		return a
	}
	var out struct {
		Content    json.RawMessage `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool            `json:"isError"`
		Type       string          `json:"resultType"`
	}
	err := json.Unmarshal(r.result, &out)
	if err == nil && out.Type == "input_required" {
		a.Code, a.Detail = mcp.CodeInput, "its result is input_required"
		return a
	}
	if len(out.Content) == 0 || string(out.Content) == "null" {
		out.Content = json.RawMessage("[]")
	}
	doc, encodeErr := journal.Encode(mcp.Result{Content: out.Content, Structured: out.Structured, IsError: out.IsError})
	if err = errors.Join(err, encodeErr); err != nil {
		a.Code, a.Detail = egress.CodeBodyInvalid, "the result of the tool is not one of MCP"
		return a
	}
	a.Body, a.Code, a.Detail = httptext.EncodeBody(httptext.JSON, doc, redact)
	return a
}
