package ui

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"recourse/api/rest"
	"recourse/api/ui/diff"
	"recourse/api/ui/outline"
	"recourse/saga"
	"recourse/saga/replay"
)

// publishView is the form that publishes a definition or an action.
type publishView struct {
	Name     string // the existing name; "" for a new one
	Action   bool
	Newest   string // the version that the text is based on
	ETag     string // ETag of that version; "" for none
	Source   string
	Problem  *rest.Problem
	Checked  bool // the text was checked
	Errors   []saga.Finding
	Warnings []saga.Finding
	Lines    []listingLine
	Changes  []diff.Line // from the newest version to this text
	Archived bool
	Replayed *replayedView // the result of a replay; nil: none was asked for
}

// replayedView says how sagas that have ended would have run.
type replayedView struct {
	Total  int
	Counts []verdictCount
	Data   []replayedSaga // those that differ
}

type verdictCount struct {
	Verdict replay.Verdict
	Count   int
}

type replayedSaga struct {
	Saga string `json:"saga"`
	replay.Result
}

// replayed is the number of sagas that the page replays.
const replayed = 100

// showPublish serves GET /publish?definition=name, ?action=name, or neither.
func showPublish(v *request) error {
	v.still = true
	page := publishView{Source: "saga: my-saga\nsteps:\n  - id: hello\n    set: {text: hello}\n"}
	of, name := "definitions", v.r.URL.Query().Get("definition")
	if name == "" {
		of, name = "actions", v.r.URL.Query().Get("action")
	}
	if name != "" {
		d, etag, err := v.document(of, name, "")
		if err != nil {
			return err
		}
		page = publishView{Name: name, Action: of == "actions", Newest: d.Version, ETag: etag, Source: d.Source, Archived: d.Archived}
	}
	if !v.who.Can("publish") {
		return &rest.Problem{Status: http.StatusForbidden, Title: "Your role may not publish", Detail: "ask somebody with the role admin"}
	}
	return v.render("definition-publish", page.title(), page)
}

func (p *publishView) title() string {
	if p.Name == "" {
		return "Publish a definition"
	}
	return "Publish a new version of " + p.Name
}

// publish serves POST /publish: it checks a text, or publishes it.
func publish(v *request) error {
	v.still = true
	if err := v.r.ParseForm(); err != nil {
		return &rest.Problem{Status: http.StatusBadRequest, Title: "The form cannot be read", Detail: "go back and send it again"}
	}
	form := v.r.PostForm
	source := strings.ReplaceAll(form.Get("source"), "\r\n", "\n") // browsers send CRLF
	page := publishView{Name: form.Get("name"), Action: form.Get("action") != "", Newest: form.Get("newest"), ETag: form.Get("etag"), Source: source}
	if err := v.check(&page); err != nil {
		return err
	}
	if page.Name != "" {
		if d, _, err := v.document(page.of(), page.Name, ""); err == nil {
			page.Changes, page.Archived = diff.Lines(d.Source, page.Source), d.Archived
		}
	}
	if form.Get("do") == "replay" && page.Name != "" && !page.Action && len(page.Errors) == 0 {
		if err := v.replay(&page); err != nil {
			return err
		}
	}
	if form.Get("do") != "publish" || len(page.Errors) > 0 {
		status := http.StatusOK
		if len(page.Errors) > 0 {
			status = http.StatusUnprocessableEntity
		}
		return v.renderAs(status, "definition-publish", page.title(), page)
	}
	return v.put(&page)
}

func (p *publishView) of() string {
	if p.Action {
		return "actions"
	}
	return "definitions"
}

var yamlType = http.Header{"Content-Type": {"application/yaml"}}

// check validates the text with the API.
func (v *request) check(page *publishView) error {
	var found struct {
		Errors   []saga.Finding `json:"errors"`
		Warnings []saga.Finding `json:"warnings"`
	}
	_, err := v.api.Do(v.r.Context(), http.MethodPost, "/v1/validate", []byte(page.Source), yamlType, &found)
	if err != nil {
		return err
	}
	page.Checked, page.Errors, page.Warnings = true, found.Errors, found.Warnings
	page.Lines = numbered(page.Source, page.Errors, page.Warnings)
	return nil
}

// replay tries the text on the newest sagas that have ended.
func (v *request) replay(page *publishView) error {
	var found struct {
		Data     []replayedSaga         `json:"data"`
		Verdicts map[replay.Verdict]int `json:"verdicts"`
	}
	body := saga.Encode(map[string]any{"definition": page.Source, "limit": replayed})
	_, err := v.api.Do(v.r.Context(), http.MethodPost, rest.Path("v1", "definitions", page.Name, "replay"), body, http.Header{"Content-Type": {"application/json"}}, &found)
	if p, ok := errors.AsType[*rest.Problem](err); ok {
		page.Problem = p
		return nil
	}
	if err != nil {
		return err
	}
	page.Replayed = &replayedView{Total: len(found.Data)}
	for _, verdict := range replay.Verdicts {
		if n := found.Verdicts[verdict]; n > 0 {
			page.Replayed.Counts = append(page.Replayed.Counts, verdictCount{verdict, n})
		}
	}
	for _, r := range found.Data {
		if r.Verdict != replay.Same {
			page.Replayed.Data = append(page.Replayed.Data, r)
		}
	}
	return nil
}

// put publishes a text without errors.
func (v *request) put(page *publishView) error {
	name, of, header := page.Name, page.of(), yamlType.Clone()
	if name == "" {
		name, page.Action = outline.Name([]byte(page.Source))
		if name == "" {
			page.Problem = &rest.Problem{Title: "The source has no name", Detail: "start it with saga: and a name, or action: and a name"}
			return v.renderAs(http.StatusUnprocessableEntity, "definition-publish", page.title(), page)
		}
		of = page.of()
		header.Set("If-None-Match", "*")
	} else {
		header.Set("If-Match", page.ETag)
	}
	var d document
	r, err := v.api.Do(context.WithoutCancel(v.r.Context()), http.MethodPut, rest.Path("v1", of, name), []byte(page.Source), header, &d)
	var p *rest.Problem
	switch {
	case errors.As(err, &p) && p.Status == http.StatusPreconditionFailed:
		return v.outrun(page, name)
	case errors.As(err, &p) && p.Status == http.StatusUnprocessableEntity:
		page.Problem, page.Errors = p, nil
		return v.renderAs(p.Status, "definition-publish", page.title(), page)
	case err != nil:
		return err
	}
	notice := "Published as " + d.Version + ": new sagas run it, and live sagas keep their version."
	if r.Status == http.StatusOK {
		notice = "Nothing was published: " + d.Version + " is the same."
	}
	switch {
	case d.Revived && page.Action:
		notice += " The action is no longer archived: new definitions may use it."
	case d.Revived:
		notice += " The definition is no longer archived: it takes new sagas again."
	}
	return v.done("/"+of+"/"+url.PathEscape(name), notice)
}

// outrun shows a version that someone else has published in the meantime; the next Publish is based
// on it.
func (v *request) outrun(page *publishView, name string) error {
	d, etag, err := v.document(page.of(), name, "")
	if err != nil {
		return err
	}
	title := "There is a " + name + " already"
	if page.Newest != "" {
		title = d.Version + " was published in the meantime"
	}
	page.Problem = &rest.Problem{Title: title, Detail: "nothing was published. Below is what your text would change in " + d.Version + ": correct it, or publish it anyway."}
	page.Name, page.Newest, page.ETag, page.Changes = name, d.Version, etag, diff.Lines(d.Source, page.Source)
	return v.renderAs(http.StatusPreconditionFailed, "definition-publish", page.title(), page)
}

// archive serves POST /definitions/{name}/archive.
func archive(v *request) error { return v.archive("definitions") }

// archiveAction serves POST /actions/{name}/archive.
func archiveAction(v *request) error { return v.archive("actions") }

func (v *request) archive(of string) error {
	name := v.r.PathValue("name")
	if v.r.PostFormValue("sure") != name {
		return &rest.Problem{Status: http.StatusUnprocessableEntity, Title: "Archive " + name + "?", Detail: "go back and write its name into the field: nothing was archived"}
	}
	if _, err := v.api.Do(v.r.Context(), http.MethodDelete, rest.Path("v1", of, name), nil, nil, nil); err != nil {
		return err
	}
	return v.done("/"+of+"/"+url.PathEscape(name), "Archived: it starts no new sagas. Publishing it again revives it.")
}
