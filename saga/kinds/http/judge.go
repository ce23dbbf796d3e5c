package http

import (
	"encoding/json"
	"fmt"
	nethttp "net/http"
	"net/url"
	"strings"

	"recourse/internal/httptext"
	"recourse/journal"
	"recourse/saga"
)

// Judge implements saga.Call by the table in docs/concepts.md. Only writes can be in doubt; a
// request without effect is retried.
func (b *Body) Judge(r saga.Request, a saga.Answer) saga.Verdict {
	class := Class(a, b.ReadOnly())
	if class == journal.Succeeded {
		return saga.Verdict{Class: class, Output: a.Body}
	}
	r.Method = b.method
	return saga.Verdict{Class: class, Error: Failed(r, a, b.origin)}
}

// Gone implements saga.Remover: a DELETE of a resource that does not exist has nothing to do (RFC
// 9110, sections 15.5.5 and 15.5.11).
func (b *Body) Gone(a saga.Answer) bool {
	return b.method == "DELETE" && a.Code == "" && (a.Status == 404 || a.Status == 410)
}

// Codes of requests that cannot be sent as they are, so that a retry is of no use.
const (
	CodeURLInvalid     = "url_invalid"     // not an http(s) URL with a host, or a URL with user:password
	CodeRequestInvalid = "request_invalid" // a method, header or body that cannot be sent
)

// Class classifies an answer by its status and code alone. readOnly says that the request has no
// effect.
func Class(a saga.Answer, readOnly bool) journal.Class {
	doubt := journal.InDoubt
	if readOnly {
		doubt = journal.Transient
	}
	switch {
	case !a.Sent:
		return unsent(a.Code)
	case a.Status == 0:
		return doubt
	case a.Status >= 200 && a.Status <= 299:
		if a.Code == "" {
			return journal.Succeeded
		}
		if readOnly && a.Code == "body_too_large" {
			return journal.Refused // it will be as large the next time
		}
		return doubt
	}
	return byStatus(a.Status, doubt)
}

// unsent distinguishes failures that may pass from failures that stay until a person acts.
func unsent(code string) journal.Class {
	switch code {
	case "egress_denied", CodeURLInvalid, CodeRequestInvalid:
		return journal.Refused
	case saga.CodeSecretMissing:
		return journal.Held // like rejected credentials: a person must provide it, and until then nothing is undone
	}
	return journal.Transient
}

func byStatus(status int, doubt journal.Class) journal.Class {
	switch {
	case status == 408 || status == 425 || status == 429:
		return journal.Transient
	case status == 401 || status == 407:
		return journal.Held
	case status >= 400 && status <= 499:
		return journal.Refused
	case status >= 300 && status <= 399:
		// 301, 302 and 303 may follow a write that took effect ("see the result there").
		if doubt == journal.InDoubt && status <= 303 && status != 300 {
			return journal.InDoubt
		}
		return journal.Refused
	}
	return doubt
}

// Failed describes a failure. Its title contains the host, or origin if r has none, never a path, a
// query or a user.
func Failed(r saga.Request, a saga.Answer, origin string) *saga.Failure {
	host := origin
	if u, err := url.Parse(r.URL); err == nil && u.Host != "" {
		host = u.Host
	}
	if a.Status == 0 || a.Status <= 299 {
		code := a.Code
		if code == "" {
			code = "no_answer"
		}
		return &saga.Failure{Code: code, Title: fmt.Sprintf("%s (%s %s)", wentWrong(code), r.Method, host), Detail: a.Detail}
	}
	title := fmt.Sprintf("HTTP %d from %s", a.Status, host)
	if text := nethttp.StatusText(a.Status); text != "" {
		title = fmt.Sprintf("HTTP %d %s from %s", a.Status, text, host)
	}
	detail := said(a.Body)
	if detail == "" {
		detail = a.Detail
	}
	return &saga.Failure{Code: fmt.Sprintf("http_%d", a.Status), Title: title, Detail: detail}
}

func wentWrong(code string) string {
	switch code {
	case "timeout":
		return "no response in time"
	case "connection":
		return "the connection failed"
	case "dns":
		return "the host's name was not found"
	case "tls":
		return "the secure connection could not be made"
	case "egress_denied":
		return "the address is not one that steps may reach"
	case saga.CodeSecretMissing:
		return "a secret is missing"
	case "body_cut":
		return "the response was cut off"
	case "body_too_large":
		return "the response is too large"
	case "body_invalid":
		return "the response is not the JSON that it is declared as"
	case "interrupted":
		return "the sender stopped before the response"
	case "no_answer":
		return "no response"
	}
	return "the call failed: " + strings.ReplaceAll(code, "_", " ")
}

// maxSaid limits the quote of the remote service's explanation.
const maxSaid = 500

// said finds an explanation in an error's body: problem details (RFC 9457), or {error: {message}},
// {error: text} and {message: text}, which many APIs use.
func said(body json.RawMessage) string {
	var doc map[string]json.RawMessage
	if json.Unmarshal(body, &doc) != nil {
		return ""
	}
	text := func(raw json.RawMessage) string {
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return ""
		}
		return s
	}
	found := text(doc["detail"])
	var inner map[string]json.RawMessage
	for _, next := range []func() string{
		func() string { return text(doc["title"]) },
		func() string {
			if json.Unmarshal(doc["error"], &inner) != nil {
				return text(doc["error"])
			}
			return text(inner["message"])
		},
		func() string { return text(doc["message"]) },
	} {
		if found == "" {
			found = next()
		}
	}
	return httptext.Clip(strings.TrimSpace(httptext.Printable(found)), maxSaid)
}
