package ui

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"recourse/saga"
)

// document is a version of a definition or an action, as the API returns it.
type document struct {
	Name      string         `json:"name"`
	Version   string         `json:"version"`
	SHA256    string         `json:"sha256"`
	CreatedAt saga.Time      `json:"created_at"`
	Archived  bool           `json:"archived"`
	Revived   bool           `json:"revived"` // by this request to publish it
	Warnings  []saga.Finding `json:"warnings"`
	Source    string         `json:"source"`
}

// Number returns the version without its v; 0 if it is invalid.
func (d document) Number() int { return versionNumber(d.Version) }

// definitionsView is the list of definitions or actions.
type definitionsView struct {
	Actions bool // the tab of actions
	Rows    []definitionRow
	Next    string // URL of the next page, "" for none
	First   string
	Gone    []definitionRow // archived definitions with live sagas
}

type definitionRow struct {
	document
	Live     int64 // live sagas
	Warnings int
	Unusable bool // this server cannot compile it
}

// showDefinitions serves GET /definitions.
func showDefinitions(v *request) error {
	q := v.r.URL.Query()
	page := definitionsView{Actions: q.Get("tab") == "actions"}
	what, own := "definitions", url.Values{}
	if page.Actions {
		what = "actions"
		own.Set("tab", what)
	}
	ask := url.Values{"limit": {"50"}}
	if cursor := q.Get("cursor"); cursor != "" {
		ask.Set("cursor", cursor)
		page.First = "/definitions?" + own.Encode()
	}
	var list struct {
		Data []document `json:"data"`
		Next string     `json:"next_cursor"`
	}
	if _, err := v.api.Get("/v1/"+what+"?"+ask.Encode(), &list); err != nil {
		return err
	}
	if list.Next != "" {
		own.Set("cursor", list.Next)
		page.Next = "/definitions?" + own.Encode()
	}
	live := map[string]int64{}
	if !page.Actions {
		var err error
		if live, err = v.live(); err != nil {
			return err
		}
	}
	for _, d := range list.Data {
		row := definitionRow{document: d, Live: live[d.Name]}
		if !page.Actions {
			def, err := v.cfg.Definitions.Definition(v.r.Context(), d.Name, d.Number())
			switch {
			case errors.Is(err, saga.ErrUnusable):
				row.Unusable = true
			case err != nil:
				return err
			default:
				row.Warnings = len(def.Warnings)
			}
		}
		delete(live, d.Name)
		page.Rows = append(page.Rows, row)
	}
	if page.Next == "" {
		if page.First != "" {
			if err := v.leavePublished(live); err != nil {
				return err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(live)) {
			page.Gone = append(page.Gone, definitionRow{document: document{Name: name, Archived: true}, Live: live[name]})
		}
	}
	return v.render("definitions", "Definitions", page)
}

// leavePublished deletes the names of definitions that are published and not archived: the list has
// them on its pages.
func (v *request) leavePublished(live map[string]int64) error {
	ask := url.Values{"limit": {"200"}}
	for len(live) > 0 {
		var list struct {
			Data []document `json:"data"`
			Next string     `json:"next_cursor"`
		}
		if _, err := v.api.Get("/v1/definitions?"+ask.Encode(), &list); err != nil {
			return err
		}
		for _, d := range list.Data {
			delete(live, d.Name)
		}
		if list.Next == "" {
			break
		}
		ask.Set("cursor", list.Next)
	}
	return nil
}

// live counts the live sagas of each definition that was published, not those of sessions and of
// runs of an action.
func (v *request) live() (map[string]int64, error) {
	var stats struct {
		Live map[string]int64 `json:"live"`
	}
	if _, err := v.api.Get("/v1/stats", &stats); err != nil {
		return nil, err
	}
	maps.DeleteFunc(stats.Live, func(name string, _ int64) bool { return strings.HasPrefix(name, saga.SessionPrefix) })
	return stats.Live, nil
}
