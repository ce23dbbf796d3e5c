package remote

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"recourse/internal/cli"
	"recourse/saga"
	"recourse/saga/dsl"
)

// checkOnServer asks the server for the errors of all files, because it knows its variables, sinks
// and MCP servers, and refuses warnings with --strict. Nothing is published by that.
func checkOnServer(a *cli.App, cl *Client, todo []publishing) error {
	bad := false
	progress := a.Progress("checked by the server", len(todo))
	defer progress.End()
	for i, p := range todo {
		progress.At(i)
		found, err := validate(cl, p.src)
		if err != nil {
			return err
		}
		if len(found) > 0 && (p.together || p.pinned && cl.has(p)) {
			found = slices.DeleteFunc(found, dueToOthers)
		}
		progress.End()
		for _, f := range found {
			a.Note("%v", dsl.Error{File: p.file, Line: f.Line, Column: f.Column, Pointer: f.Pointer, Code: f.Code, Detail: f.Detail})
			bad = true
		}
	}
	if bad {
		return errUnfit()
	}
	return nil
}

func errUnfit() error {
	return cli.Exit(cli.Usage, errors.New("nothing was published: fix the errors above first"))
}

// validate returns the errors for which the server would not publish a document.
func validate(cl *Client, src []byte) ([]saga.Finding, error) {
	var v struct {
		Errors []saga.Finding `json:"errors"`
	}
	r, err := cl.Do(Call{Method: http.MethodPost, Path: "/v1/validate", Body: src, Header: map[string]string{"Content-Type": "application/yaml"}})
	if err != nil {
		return nil, err
	}
	return v.Errors, r.Into(&v)
}

// has reports whether the server has a definition with this text already. Publishing it again keeps
// the versions of its actions, and a check without publishing takes the newest ones.
func (c *Client) has(p publishing) bool {
	var d Document
	_, err := c.Get("/v1/definitions/"+url.PathEscape(p.name), &d)
	return err == nil && d.Source == string(p.src)
}

// dueToOthers reports whether an error of a definition may be due to the text of an action that it
// uses, or of a definition that it runs, which the server does not have yet, or has in another
// version. The other errors name something that only the server's settings can provide.
func dueToOthers(f saga.Finding) bool {
	switch f.Code {
	case "unknown_sink", "unknown_server":
		return false
	case "unknown_var": // at `use`, it is a variable of the action
		return strings.HasSuffix(f.Pointer, "/use")
	}
	return true
}
