package ui

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"recourse/api/rest"
	"recourse/api/ui/format"
	"recourse/saga"
	"recourse/saga/machine"
)

// inboxView is the page of the inbox.
type inboxView struct {
	Filter  inboxFilter
	Kinds   []kindCount
	Entries []inboxEntry
	Groups  []group // groups of entries on this page that can be decided together
	Names   []string
	Here    string // the page's URL, to return to
	Next    string // URL of the next page, "" for none
	First   string
	Cut     bool // the inbox was not read to its end
	Problem *rest.Problem
}

type inboxFilter struct {
	Kind, Definition, Saga string
	Any                    bool
}

// kindCount is a link above the list.
type kindCount struct {
	Kind  string // "" for all
	Count int64
	Link  string
	Here  bool
}

// inboxEntry is an entry with the additional data for its page.
type inboxEntry struct {
	entryForms
	Cost *saga.CostView // cost of a saga that needs a higher budget
	Many bool           // the page has others of its kind and definition
}

// Seen returns the budget that the user sees. A raise is refused if the budget has changed since.
func (e inboxEntry) Seen() string {
	if e.Cost == nil {
		return ""
	}
	return budgetText(*e.Cost)
}

// kindTitles are the titles of the kinds.
var kindTitles = map[string]string{
	saga.InboxApproval: "approval", saga.InboxInDoubt: "in doubt", saga.InboxStuck: "stuck", saga.InboxHeld: "held credentials", saga.InboxBudget: "budget",
	saga.InboxExhausted: "on hold",
	saga.InboxSession:   "lost session", saga.InboxRepeat: "repetition",
}

// kindMarks are the symbols of the kinds.
var kindMarks = map[string]string{
	saga.InboxApproval: "☞", saga.InboxInDoubt: "?", saga.InboxStuck: "!", saga.InboxHeld: "×", saga.InboxBudget: "¤", saga.InboxExhausted: "‖",
	saga.InboxSession: "⏏", saga.InboxRepeat: "≟",
}

// Sizes of a page of the inbox, and of the part of the inbox that a filter by definition reads for
// one page.
const (
	inboxPage    = 25
	maxInboxScan = 2000
)

// showInbox serves GET /inbox.
func showInbox(v *request) error { return v.inbox(http.StatusOK, nil) }

// inbox responds with the inbox. was is a refused raise of a budget, or a refused decision about a
// session; nil: none.
func (v *request) inbox(status int, was *tried) error {
	q := v.r.URL.Query()
	page := inboxView{Filter: inboxFilter{Kind: q.Get("kind"), Definition: strings.TrimSpace(q.Get("definition")), Saga: strings.TrimSpace(q.Get("saga"))}}
	if was != nil {
		page.Problem = was.Problem
	}
	own := url.Values{}
	for _, name := range []string{"kind", "definition", "saga"} {
		if value := strings.TrimSpace(q.Get(name)); value != "" {
			own.Set(name, value)
			page.Filter.Any = true
		}
	}
	page.Here, page.First = "/inbox?"+own.Encode(), ""
	cursor := q.Get("cursor")
	if cursor != "" {
		page.First = page.Here
	}
	list, next, err := v.entries(page.Filter, cursor)
	if err != nil {
		return err
	}
	page.Cut = next != "" && len(list) == 0
	if next != "" {
		own.Set("cursor", next)
		page.Next = "/inbox?" + own.Encode()
	}
	if page.Kinds, err = v.kinds(page.Filter); err != nil {
		return err
	}
	groups := groupsOf(list, v.who)
	for _, e := range list {
		shown := inboxEntry{entryForms: v.forms(e, page.Here, nil), Many: groups[groupOf(e)] > 1}
		if shown.Budget() {
			shown.Cost = v.costOf(e.Saga)
		}
		if was != nil && was.Typed.Get("saga") == e.Saga && (shown.Budget() && was.Do == "budget" || shown.Session() && was.Do == "session") {
			shown.Tried, page.Problem = was, nil
		}
		shown.Checks, shown.Compared = v.checks(e, nil), comparison(e, v.callOf(e.Saga))
		page.Entries = append(page.Entries, shown)
	}
	page.Groups = sortedGroups(list, groups)
	page.Names = v.names()
	return v.renderAs(status, "inbox", "Inbox", page)
}

// inboxPart reads one page of the API's inbox.
func (v *request) inboxPart(ask url.Values, cursor string) (list []entry, next string, err error) {
	ask.Del("cursor")
	if cursor != "" {
		ask.Set("cursor", cursor)
	}
	var got struct {
		Data []entry `json:"data"`
		Next string  `json:"next_cursor"`
	}
	_, err = v.api.Get("/v1/inbox?"+ask.Encode(), &got)
	return got.Data, got.Next, err
}

// entries reads a page of the inbox. The API does not filter by definition, so this function does:
// an empty page may have a next one.
func (v *request) entries(f inboxFilter, cursor string) (list []entry, next string, err error) {
	ask := url.Values{"limit": {"25"}}
	if f.Definition != "" {
		ask.Set("limit", "200")
	}
	if f.Kind != "" {
		ask.Set("kind", f.Kind)
	}
	if f.Saga != "" {
		ask.Set("saga", f.Saga)
	}
	for scanned := 0; scanned < maxInboxScan; {
		got, next, err := v.inboxPart(ask, cursor)
		if err != nil {
			return nil, "", err
		}
		for _, e := range got {
			if f.Definition == "" || e.Definition == f.Definition {
				list = append(list, e)
			}
		}
		scanned, cursor = scanned+len(got), next
		if cursor == "" || f.Definition == "" || len(list) >= inboxPage {
			break
		}
	}
	return list, cursor, nil
}

// kinds returns the links to each kind, which keep the rest of the filter.
func (v *request) kinds(f inboxFilter) ([]kindCount, error) {
	var stats struct {
		Inbox map[string]int64 `json:"inbox"`
	}
	if _, err := v.api.Get("/v1/stats", &stats); err != nil {
		return nil, err
	}
	all := kindCount{Here: f.Kind == ""}
	for _, n := range stats.Inbox {
		all.Count += n
	}
	list := []kindCount{all}
	for _, kind := range saga.InboxKinds {
		list = append(list, kindCount{Kind: kind, Count: stats.Inbox[kind], Here: f.Kind == kind})
	}
	for i := range list {
		q := url.Values{}
		for name, value := range map[string]string{"kind": list[i].Kind, "definition": f.Definition, "saga": f.Saga} {
			if value != "" {
				q.Set(name, value)
			}
		}
		list[i].Link = "/inbox?" + q.Encode()
	}
	return list, nil
}

// costOf returns a saga's cost; nil if it cannot be read.
func (v *request) costOf(id string) *saga.CostView {
	var view machine.View
	if _, err := v.api.Get(rest.Path("v1", "sagas", id), &view); err != nil {
		return nil
	}
	return &view.Cost
}

// raiseBudget serves POST /inbox/budget.
func raiseBudget(v *request) error {
	f := v.posted()
	id := f.Get("saga")
	v.r.URL.RawQuery = queryOf(f.Get("back"))
	body := map[string]any{"reason": f.Get("reason"), "budget": budgetOf(f)}
	now, err := v.raise(id, f.Get("seen"), body)
	if err != nil {
		var p *rest.Problem
		if !errors.As(err, &p) || p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden {
			return err
		}
		v.still = true
		return v.inbox(p.Status, &tried{Do: "budget", Typed: f, Problem: p})
	}
	return v.done("/inbox?"+v.r.URL.RawQuery, raised(now))
}

// raised says what a saga does after its budget was raised; nil: no node has read the command yet.
func raised(now *machine.View) string {
	if now == nil {
		return unread
	}
	text := "The budget of saga " + format.Short(now.ID) + " is now " + budgetText(now.Cost)
	switch {
	case now.Status == saga.PausedStatus:
		return text + ". It is paused: it continues when somebody resumes it."
	case len(now.Open) > 0:
		return text + ". It still waits for a person: the inbox says for what."
	}
	return text + ", and the saga continues."
}

// raise changes a saga's budget if it is still the one that the user saw. Other changes of the saga
// do not matter. It returns the saga after that; nil if no node has read the command yet.
func (v *request) raise(id, seen string, body any) (*machine.View, error) {
	at := rest.Path("v1", "sagas", id)
	for range commandTries {
		var view machine.View
		if _, err := v.api.Get(at, &view); err != nil {
			return nil, err
		}
		if budgetText(view.Cost) != seen {
			return nil, &rest.Problem{Status: http.StatusPreconditionFailed, Title: "The budget has changed since you opened the page", Detail: "Nothing was done. The page now shows the current state: check it, then decide."}
		}
		var now machine.View
		switch r, err := v.api.Send(http.MethodPatch, at, body, asOf(view.Seq), &now); {
		case hasMoved(err):
			continue
		case err != nil:
			return nil, err
		case r.Unread():
			return nil, nil
		}
		return &now, nil
	}
	return nil, tooFast()
}

// queryOf returns the query of a URL of the inbox, to return to.
func queryOf(back string) string {
	u, err := url.Parse(back)
	if err != nil {
		return ""
	}
	return u.Query().Encode()
}
