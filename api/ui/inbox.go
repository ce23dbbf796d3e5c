package ui

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"recourse/saga"
)

// inboxView is what waits for people.
type inboxView struct {
	Filter  inboxFilter
	Kinds   []kindCount
	Entries []inboxEntry
	Groups  []group // of entries on this page that can be decided together
	Names   []string
	Here    string // the page's address, to come back to
	Next    string // the address of the next page, "" for none
	First   string
	Cut     bool // not all of the inbox was looked through
	Problem *problem
}

type inboxFilter struct {
	Kind, Definition, Saga string
	Any                    bool
}

// kindCount is one of the links above the list.
type kindCount struct {
	Kind  string // "" for all
	Count int64
	Link  string
	Here  bool
}

// inboxEntry is an entry with what its page needs to know beside it.
type inboxEntry struct {
	entryForms
	Cost *saga.CostView // of a saga that waits for money
	Many bool           // others of its kind and definition are on the page
}

// Seen is the budget that the reader sees: it is not raised if it is another by then.
func (e inboxEntry) Seen() string {
	if e.Cost == nil {
		return ""
	}
	return budgetText(*e.Cost)
}

// inboxKinds are the kinds of entries, in the order of the links.
var inboxKinds = []string{saga.InboxApproval, saga.InboxInDoubt, saga.InboxStuck, saga.InboxHeld, saga.InboxBudget}

// kindTitles say what the kinds are about.
var kindTitles = map[string]string{
	saga.InboxApproval: "approval", saga.InboxInDoubt: "in doubt", saga.InboxStuck: "stuck", saga.InboxHeld: "held credentials", saga.InboxBudget: "budget",
}

// kindMarks are their signs.
var kindMarks = map[string]string{
	saga.InboxApproval: "☞", saga.InboxInDoubt: "?", saga.InboxStuck: "!", saga.InboxHeld: "×", saga.InboxBudget: "¤",
}

// Sizes of a page of the inbox, and how much of it a filter by definition looks through at once.
const (
	inboxPage = 25
	inboxLook = 2000
)

// showInbox serves GET /inbox.
func showInbox(v *request) error { return v.inbox(http.StatusOK, nil) }

// inbox answers with the inbox; was is the raise of a budget that has just been refused, or nil.
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
			if was != nil && was.Typed.Get("saga") == e.Saga {
				shown.Tried, page.Problem = was, nil
			}
		}
		shown.Checks = v.checks(e, nil)
		page.Entries = append(page.Entries, shown)
	}
	page.Groups = sortedGroups(list, groups)
	page.Names = v.names()
	return v.renderAs(status, "inbox", "Inbox", page)
}

// inboxPart reads one page of the API's inbox, from a cursor on.
func (v *request) inboxPart(ask url.Values, cursor string) (list []entry, next string, err error) {
	ask.Del("cursor")
	if cursor != "" {
		ask.Set("cursor", cursor)
	}
	var got struct {
		Data []entry `json:"data"`
		Next string  `json:"next_cursor"`
	}
	_, err = v.api.get("/v1/inbox?"+ask.Encode(), &got)
	return got.Data, got.Next, err
}

// entries reads a page of the inbox. The API does not filter by definition, so that is done here:
// next may come with an empty page.
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
	for looked := 0; looked < inboxLook; {
		got, next, err := v.inboxPart(ask, cursor)
		if err != nil {
			return nil, "", err
		}
		for _, e := range got {
			if f.Definition == "" || e.Definition == f.Definition {
				list = append(list, e)
			}
		}
		looked, cursor = looked+len(got), next
		if cursor == "" || f.Definition == "" || len(list) >= inboxPage {
			break
		}
	}
	return list, cursor, nil
}

// kinds are the links to each kind, which keep the rest of the filter.
func (v *request) kinds(f inboxFilter) ([]kindCount, error) {
	var stats struct {
		Inbox map[string]int64 `json:"inbox"`
	}
	if _, err := v.api.get("/v1/stats", &stats); err != nil {
		return nil, err
	}
	all := kindCount{Here: f.Kind == ""}
	for _, n := range stats.Inbox {
		all.Count += n
	}
	list := []kindCount{all}
	for _, kind := range inboxKinds {
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

// costOf is what a saga has cost; nil if it cannot be read.
func (v *request) costOf(id string) *saga.CostView {
	var view saga.View
	if _, err := v.api.get(path("v1", "sagas", id), &view); err != nil {
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
	if err := v.raise(id, f.Get("seen"), body); err != nil {
		var p *problem
		if !errors.As(err, &p) || p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden {
			return err
		}
		v.still = true
		return v.inbox(p.Status, &tried{Do: "budget", Typed: f, Problem: p})
	}
	return v.done("/inbox?"+v.r.URL.RawQuery, "The budget of saga "+short(id)+" is raised, and the saga continues.")
}

// raise changes a saga's budget if it is what the reader has seen, whatever else goes on in the
// saga.
func (v *request) raise(id, seen string, body any) error {
	at := path("v1", "sagas", id)
	for range commandTries {
		var view saga.View
		if _, err := v.api.get(at, &view); err != nil {
			return err
		}
		if budgetText(view.Cost) != seen {
			return &problem{Status: http.StatusPreconditionFailed, Title: "The budget has changed since you opened the page", Detail: "Nothing was done. The page now shows the current state: check it, then decide."}
		}
		if _, err := v.api.send(http.MethodPatch, at, body, asOf(view.Seq), nil); !hasMoved(err) {
			return err
		}
	}
	return tooFast()
}

// queryOf is the query of an address of the inbox, to come back to.
func queryOf(back string) string {
	u, err := url.Parse(back)
	if err != nil {
		return ""
	}
	return u.Query().Encode()
}
