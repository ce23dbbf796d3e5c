package ui

import (
	"net/url"

	"recourse/api/rest"
	"recourse/api/ui/diff"
)

// diffView is the difference between two versions.
type diffView struct {
	Name     string
	From, To document
	Lines    []diff.Line
	Versions []document
}

// showDiff serves GET /definitions/{name}/diff?from=v1&to=v2.
func showDiff(v *request) error {
	v.still = true
	name, q := v.r.PathValue("name"), v.r.URL.Query()
	if q.Get("from") == "" || q.Get("to") == "" {
		return &rest.Problem{Status: 400, Title: "Two versions are needed", Detail: "name two of them: /definitions/" + url.PathEscape(name) + "/diff?from=v1&to=v2"}
	}
	page := diffView{Name: name}
	var err error
	if page.From, _, err = v.document("definitions", name, q.Get("from")); err != nil {
		return err
	}
	if page.To, _, err = v.document("definitions", name, q.Get("to")); err != nil {
		return err
	}
	if page.Versions, _, err = v.versions("definitions", name); err != nil {
		return err
	}
	page.Lines = diff.Lines(page.From.Source, page.To.Source)
	return v.render("definition-diff", name+" "+page.From.Version+" → "+page.To.Version, page)
}
