package ui

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"recourse/api/rest"
	"recourse/api/ui/controls"
	"recourse/saga"
)

// mostTogether is the maximum of entries in one joint decision.
const mostTogether = 100

var tooMany = "at most " + strconv.Itoa(mostTogether) + " are decided together"

// group is the entries of one kind and one definition.
type group struct {
	Kind, Definition, Title string
	Count                   int
}

// groupOf returns the name of an entry's group.
func groupOf(e entry) string { return e.Kind + "/" + e.Definition }

// groupsOf counts the entries of each group that the user may decide together.
func groupsOf(list []entry, w who) map[string]int {
	groups := map[string]int{}
	for _, e := range list {
		switch {
		case e.Path == "" || e.Kind == saga.InboxBudget || e.Kind == saga.InboxRepeat:
		case e.Kind == saga.InboxApproval && !w.Can("decide"), e.Kind != saga.InboxApproval && !w.Can("operate"):
		default:
			groups[groupOf(e)]++
		}
	}
	return groups
}

// sortedGroups returns the groups with more than one entry, in the order of the list.
func sortedGroups(list []entry, counts map[string]int) []group {
	var out []group
	for _, e := range list {
		g := group{e.Kind, e.Definition, kindTitles[e.Kind], counts[groupOf(e)]}
		if g.Count > 1 && !slices.Contains(out, g) {
			out = append(out, g)
		}
	}
	return out
}

// bulkView shows a joint decision before or after it is made.
type bulkView struct {
	Kind, Title, Definition string
	Entries                 []bulkEntry
	Left                    []leftOut
	Outcomes                []outcome
	Approval                bool
	Back                    string
	Key                     string // prefix of the Idempotency-Keys, so that a form sent twice is applied once
	Outcome, Reason         string
	Results                 []result
	Good, Bad               int
	Problem                 *rest.Problem
	Group                   string // the group that is decided in parts; "" for selected entries
	From, To                string // cursors of the group before these entries and after them
	After                   int    // entries of the group after these
	Further                 bool   // there may be more: the inbox was not read to its end
}

// bulkEntry is an entry of a joint decision.
type bulkEntry struct {
	entryForms
	Item string // the state that was shown, which the form sends back
}

// leftOut is a selected entry that cannot be decided with the others.
type leftOut struct {
	entry
	Why string
}

// result is the result for one entry.
type result struct {
	Saga, Path, Title string
	Problem           *rest.Problem // nil if the decision was applied
	Note              string
}

// item is the state of an entry that the confirmation page showed, as its form sends it back.
type item struct{ saga, id, path, etag, shown, title string }

func (i item) String() string {
	return url.Values{"saga": {i.saga}, "id": {i.id}, "path": {i.path}, "etag": {i.etag}, "shown": {i.shown}, "title": {i.title}}.Encode()
}

func parseItem(text string) (item, bool) {
	q, err := url.ParseQuery(text)
	if err != nil {
		return item{}, false
	}
	i := item{q.Get("saga"), q.Get("id"), q.Get("path"), q.Get("etag"), q.Get("shown"), q.Get("title")}
	return i, i.saga != "" && i.path != ""
}

// Rest returns the number of entries after those that are decided together; "" for none.
func (p bulkView) Rest() string {
	switch {
	case p.After == 0 && p.Further:
		return "perhaps some"
	case p.After == 0:
		return ""
	}
	n := strconv.Itoa(p.After)
	if p.Further {
		n += " or more"
	}
	return n
}

// Taken counts the entries of this part, including those left out.
func (p bulkView) Taken() int { return len(p.Entries) + len(p.Left) }

// confirmBulk serves POST /inbox/together. It shows the entries before the decision, and changes
// nothing.
func confirmBulk(v *request) error {
	v.still = true
	f := v.posted()
	page := bulkView{Back: "/inbox?" + queryOf(f.Get("back"))}
	list, left, err := v.picked(f)
	if err != nil {
		return err
	}
	page.Left = left
	if page.Group = f.Get("group"); page.Group != "" {
		page.From = f.Get("from")
		if list, err = v.part(&page); err != nil {
			return err
		}
	}
	if len(list) == 0 && page.Group != "" {
		return &rest.Problem{Status: http.StatusUnprocessableEntity, Title: "None of these entries is in the inbox any longer", Detail: "go back to the inbox for its current entries"}
	}
	if len(list) == 0 {
		return &rest.Problem{Status: http.StatusUnprocessableEntity, Title: "No entry is selected, or none of them is in the inbox any longer", Detail: "go back to the inbox, and select entries of one kind and one definition"}
	}
	page.Kind, page.Definition, page.Approval = list[0].Kind, list[0].Definition, list[0].Kind == saga.InboxApproval
	page.Title = kindTitles[page.Kind]
	for _, e := range list {
		forms := v.forms(e, page.Back, nil)
		why := ""
		switch {
		case groupOf(e) != groupOf(list[0]):
			why = "it is of another kind or definition than the first"
		case e.Path == "" || forms.Budget():
			why = "it needs a decision of its own"
		case slices.ContainsFunc(forms.Fields(), func(f *controls.Control) bool { return f.Required }):
			why = "its approval needs data of its own"
		case len(page.Entries) > 0 && !sameDecisions(page.Entries[0].entryForms, forms):
			why = "a decision means something else for it than for the first one, such as for a step that is undone"
		}
		if why != "" {
			page.Left = append(page.Left, leftOut{e, why})
			continue
		}
		page.Entries = append(page.Entries, bulkEntry{forms, item{e.Saga, e.ID, e.Path, e.ETag, e.ShownHash, e.Title}.String()})
	}
	page.Outcomes = common(page.Entries)
	if page.Key, err = newKey(); err != nil {
		return err
	}
	return v.render("inbox-together", "Decide together", page)
}

// picked reads the selected entries in their present state.
func (v *request) picked(f url.Values) (list []entry, left []leftOut, err error) {
	bySaga := map[string][]entry{}
	for _, pick := range f["entry"] {
		id, at, ok := strings.Cut(pick, "/")
		if !ok {
			continue
		}
		if len(list) == mostTogether {
			left = append(left, leftOut{entry{ID: at, Saga: id}, tooMany})
			continue
		}
		of, seen := bySaga[id]
		if !seen {
			if of, err = v.entriesOf(id); err != nil {
				return nil, nil, err
			}
			bySaga[id] = of
		}
		i := slices.IndexFunc(of, func(e entry) bool { return e.ID == at })
		if i < 0 {
			left = append(left, leftOut{entry{ID: at, Saga: id}, "it is no longer in the inbox"})
			continue
		}
		list = append(list, of[i])
	}
	return list, left, nil
}

// entriesOf reads all inbox entries of a saga.
func (v *request) entriesOf(id string) (list []entry, err error) {
	ask := url.Values{"limit": {"200"}, "saga": {id}}
	for cursor, more := "", true; more; more = cursor != "" {
		var got []entry
		if got, cursor, err = v.inboxPart(ask, cursor); err != nil {
			return nil, err
		}
		list = append(list, got...)
	}
	return list, nil
}

// part reads the next entries of a page's group, after From, and counts the entries after those, up
// to the scan limit.
func (v *request) part(page *bulkView) (list []entry, err error) {
	kind, definition, _ := strings.Cut(page.Group, "/")
	from := placeOf(page.From)
	ask := url.Values{"limit": {"200"}, "kind": {kind}}
	cursor, to := from.cursor, from
	for scanned := 0; len(list) == 0 || scanned < maxInboxScan; scanned += 200 {
		got, next, err := v.inboxPart(ask, cursor)
		if err != nil {
			return nil, err
		}
		for _, e := range got {
			switch {
			case e.Definition != definition || !from.before(e):
			case len(list) < mostTogether:
				list = append(list, e)
				to = place{cursor, e.Since.UnixMilli(), e.ID}
			default:
				page.After++
			}
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	page.Further, page.To = cursor != "", to.String()
	return list, nil
}

// place is an entry's position in the inbox, which is ordered by since and id, with the cursor of
// the API's page that contains it.
type place struct {
	cursor string
	since  int64 // milliseconds
	id     string
}

func (p place) String() string {
	return url.Values{"cursor": {p.cursor}, "since": {strconv.FormatInt(p.since, 10)}, "id": {p.id}}.Encode()
}

// placeOf parses a place; invalid text is before all entries.
func placeOf(text string) place {
	q, _ := url.ParseQuery(text)
	since, _ := strconv.ParseInt(q.Get("since"), 10, 64)
	return place{q.Get("cursor"), since, q.Get("id")}
}

// before reports whether an entry comes after the place.
func (p place) before(e entry) bool {
	since := e.Since.UnixMilli()
	return since > p.since || since == p.since && e.ID > p.id
}

// sameDecisions reports whether the outcomes that two entries have in common mean the same for
// both. To leave out a step, for example, leaves its effect if the step is to be undone.
func sameDecisions(a, b entryForms) bool {
	others := b.Outcomes()
	return !slices.ContainsFunc(a.Outcomes(), func(o outcome) bool {
		return slices.ContainsFunc(others, func(other outcome) bool {
			return other.Word == o.Word && (other.Title != o.Title || other.Then != o.Then)
		})
	})
}

// common returns the outcomes that every entry can have.
func common(entries []bulkEntry) []outcome {
	if len(entries) == 0 {
		return nil
	}
	var list []outcome
	for _, o := range entries[0].Outcomes() {
		if !slices.ContainsFunc(entries, func(e bulkEntry) bool { return !slices.Contains(e.Actions, o.Word) }) {
			list = append(list, o)
		}
	}
	return list
}
