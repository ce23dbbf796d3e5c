package measure

import (
	"fmt"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"
)

// mixed is saga i of the mix, as lists show it.
type mixed struct {
	definition, status string
	labels             map[string]string
}

// rare is how many sagas have the rare label: the oldest ones.
const rare = 20

func mix(i int) mixed {
	m := mixed{definition: "nap-" + []string{"de", "fr", "pt"}[i%3], status: "waiting", labels: map[string]string{"customer": fmt.Sprintf("c-%d", i%1000), "tier": "standard"}}
	switch {
	case i%10 == 0:
		m.definition, m.status = "refusal", "compensated"
	case i%2 == 0:
		m.definition, m.status = "note", "succeeded"
	}
	if i%50 == 1 {
		m.labels["tier"] = "gold"
	}
	if i < rare {
		m.labels["batch"] = "pilot"
	}
	return m
}

// list is a query, and the sagas that its response must have.
type list struct {
	name, query string
	match       func(mixed) bool
	has         func(uuid.UUID) bool // nil: any
	skip        int                  // pages that are skipped
	walk        bool                 // reads to the last page
}

// listPage is the lists' limit.
const listPage = 100

// lists returns the lists of sagas with these ids, newest first.
func lists(newest []uuid.UUID) []list {
	every, none := func(mixed) bool { return true }, func(mixed) bool { return false }
	pilot := func(m mixed) bool { return m.labels["batch"] != "" }
	gold := func(m mixed) bool { return m.labels["tier"] == "gold" }
	deep := max(min(1000, len(newest)/listPage/2), 1)
	// At returns a time before which so many tenths of the sagas started.
	at := func(n int) time.Time { return idTime(newest[n*(len(newest)-1)/10]) }
	first := newest[len(newest)-1].String()[:13]
	after, before := func(id uuid.UUID) bool { return idTime(id).After(at(6)) }, func(id uuid.UUID) bool { return idTime(id).Before(at(4)) }
	since, until := "started_after="+at(6).Format(time.RFC3339Nano), "started_before="+at(4).Format(time.RFC3339Nano)
	return []list{
		{name: "first page", match: every},
		{name: fmt.Sprintf("page %d", deep), match: every, skip: deep - 1},
		{name: "status", query: "status=compensated", match: func(m mixed) bool { return m.status == "compensated" }},
		{name: "statuses: none", query: "status=stuck,paused,compensating", match: none},
		{name: "definition", query: "definition=nap-fr", match: func(m mixed) bool { return m.definition == "nap-fr" }},
		{name: "status, definition", query: "status=waiting&definition=nap-de", match: func(m mixed) bool { return m.status == "waiting" && m.definition == "nap-de" }},
		{name: "status, definition: none", query: "status=compensated&definition=note", match: none},
		{name: "label, 1 in 50", query: "label.tier=gold", match: gold},
		{name: "label, 1 in 1000", query: "label.customer=c-17", match: func(m mixed) bool { return m.labels["customer"] == "c-17" }},
		{name: "label, the oldest 20", query: "label.batch=pilot", match: pilot},
		{name: "label of most, status, definition: none", query: "label.tier=standard&status=succeeded&definition=refusal", match: none},
		{name: "text, 1 in 50", query: "q=gold", match: gold},
		{name: "text, none", query: "q=zebra", match: none},
		{name: "text, the oldest 20", query: "q=pilot", match: pilot},
		{name: "text, the oldest 20, to the end", query: "q=pilot", match: pilot, walk: true},
		{name: "text, status: none", query: "q=zebra&status=waiting", match: none},
		{name: "text, label: the oldest 20", query: "q=PILOT&label.batch=pilot", match: pilot},
		{name: "text, the oldest's id", query: "q=" + first, match: every, has: func(id uuid.UUID) bool { return strings.HasPrefix(id.String(), first) }},
		{name: "after", query: since, match: every, has: after},
		{name: "before", query: until, match: every, has: before},
		{name: "between, status, label", query: since + "&" + until + "&status=waiting&label.tier=gold", match: func(m mixed) bool { return m.status == "waiting" && gold(m) },
			has: func(id uuid.UUID) bool { return after(id) && before(id) }},
		{name: "before, text: none", query: until + "&q=zebra", match: none},
	}
}

// idTime returns the time in a UUIDv7.
func idTime(id uuid.UUID) time.Time {
	at, err := uuid.TimestampFromV7(id)
	if err != nil {
		return time.Time{}
	}
	t, err := at.Time()
	if err != nil {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond)
}

// rows returns the first ids that the response must have.
func (l *list) rows(newest []int, ids []uuid.UUID) []uuid.UUID {
	var out []uuid.UUID
	skip := l.skip * listPage
	for _, n := range newest {
		if !l.match(mix(n)) || l.has != nil && !l.has(ids[n]) {
			continue
		}
		if skip--; skip < 0 {
			out = append(out, ids[n])
		}
		if len(out) == listPage {
			break
		}
	}
	return out
}

// view has the checked fields of a row.
type view struct {
	ID, Definition, Status string
	Labels                 map[string]string
}

// listed is a response.
type listed struct {
	Data []view
	Next string    `json:"next_cursor"`
	Back time.Time `json:"looked_back_to"`
}

// right returns an error unless the response has the right rows, in order. It may have fewer only
// if there is a next page, and the search has not reached the missing rows yet.
func (p *listed) right(l list, want []uuid.UUID) error {
	for i, v := range p.Data {
		if !l.match(mixed{v.Definition, v.Status, v.Labels}) {
			return fmt.Errorf("it has saga %s, which is a %s of %s with labels %v", v.ID, v.Status, v.Definition, v.Labels)
		}
		if i >= len(want) || v.ID != want[i].String() {
			return fmt.Errorf("row %d is saga %s, want another saga or none", i, v.ID)
		}
	}
	if n := len(p.Data); n < len(want) && (p.Next == "" || p.Back.Before(idTime(want[n]))) {
		return fmt.Errorf("it has %d rows, without saga %s, but searched back to %s", n, want[n], p.Back)
	}
	return nil
}
