package ui

import (
	"errors"
	"regexp"
	"strconv"

	"recourse/api/rest"
	"recourse/api/ui/facts"
	"recourse/api/ui/format"
	"recourse/api/ui/graph"
	"recourse/saga"
)

// definitionView is the page of one version of a definition.
type definitionView struct {
	document
	Versions []document // newest first
	More     bool       // there are older versions
	Newest   bool       // this is the newest version
	Before   string     // the version before this one, "" for none
	Live     int
	Broken   bool // this server cannot compile it
	Lines    []listingLine
	About    string
	Facts    []facts.Fact
	Triggers []facts.Fact
	Efforts  []facts.Effort
	Graph    graph.Drawing
	Action   bool   // it is an action
	Self     string // the page's URL
}

// listingLine is a line of a document with its findings.
type listingLine struct {
	N     int
	Text  string
	Found []saga.Finding
	Wrong bool // it has an error
}

// document reads a version of a definition or an action; "" is the newest.
func (v *request) document(of, name, version string) (d document, etag string, err error) {
	at := rest.Path("v1", of, name)
	if version != "" {
		at += rest.Path("versions", version)
	}
	r, err := v.api.Get(at, &d)
	if err != nil {
		return d, "", err
	}
	return d, r.Header.Get("ETag"), nil
}

// versions lists the versions of a definition or an action, newest first, and reports whether there
// are more.
func (v *request) versions(of, name string) (list []document, more bool, err error) {
	var page struct {
		Data []document `json:"data"`
		Next string     `json:"next_cursor"`
	}
	_, err = v.api.Get(rest.Path("v1", of, name, "versions")+"?limit=100", &page)
	return page.Data, page.Next != "", err
}

// showDefinition serves GET /definitions/{name}?version=v2.
func showDefinition(v *request) error {
	v.still = true // a version never changes
	page, err := v.version("definitions")
	if err != nil {
		return err
	}
	live, err := v.live()
	if err != nil {
		return err
	}
	page.Live = int(live[page.Name])
	def, err := v.cfg.Definitions.Definition(v.r.Context(), page.Name, page.Number())
	switch {
	case errors.Is(err, saga.ErrUnusable):
		page.Broken = true
		return v.render("definition", page.Name, page)
	case err != nil:
		return err
	}
	page.About, page.Facts, page.Triggers, page.Efforts = def.Description, facts.Of(def), facts.Triggers(def), facts.Efforts(def)
	page.Graph = graph.Draw(def)
	return v.render("definition", page.Name, page)
}

// showAction serves GET /actions/{name}?version=v2.
func showAction(v *request) error {
	v.still = true
	page, err := v.version("actions")
	if err != nil {
		return err
	}
	return v.render("definition-action", page.Name, page)
}

// version reads the page of a version of either kind.
func (v *request) version(of string) (definitionView, error) {
	var page definitionView
	name, want := v.r.PathValue("name"), v.r.URL.Query().Get("version")
	var err error
	if page.document, _, err = v.document(of, name, want); err != nil {
		return page, err
	}
	if page.Versions, page.More, err = v.versions(of, name); err != nil {
		return page, err
	}
	for i, d := range page.Versions {
		if d.Version != page.Version {
			continue
		}
		page.Newest = i == 0
		if i+1 < len(page.Versions) {
			page.Before = page.Versions[i+1].Version
		}
	}
	page.Lines = numbered(page.Source, nil, page.Warnings)
	page.Action, page.Self = of == "actions", rest.Path(of, page.Name)
	return page, nil
}

// numbered returns a document's lines with their findings.
func numbered(source string, errors, warnings []saga.Finding) []listingLine {
	list := format.Lines(source)
	lines := make([]listingLine, len(list))
	for i, text := range list {
		lines[i] = listingLine{N: i + 1, Text: text}
	}
	put := func(found []saga.Finding, wrong bool) {
		for _, f := range found {
			if at := f.Line - 1; at >= 0 && at < len(lines) {
				lines[at].Found = append(lines[at].Found, f)
				lines[at].Wrong = lines[at].Wrong || wrong
			}
		}
	}
	put(errors, true)
	put(warnings, false)
	return lines
}

var versionForm = regexp.MustCompile(`^v[1-9][0-9]{0,8}$`)

func versionNumber(v string) int {
	if !versionForm.MatchString(v) {
		return 0
	}
	n, err := strconv.Atoi(v[1:])
	if err != nil {
		return 0
	}
	return n
}
