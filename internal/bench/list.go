package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"
)

// ListReport is how long lists take of a database full of sagas.
type ListReport struct {
	Session
	Runs []ListRun `json:"runs"`
}

// ListRun is one list, asked for several times, one after the other.
type ListRun struct {
	List     string  `json:"list"`
	Query    string  `json:"query"`    // of GET /v1/sagas
	Rows     int     `json:"rows"`     // in its answer; which was right each time
	Requests int     `json:"requests"` // for one answer
	Sagas    int     `json:"sagas"`    // in the database
	Seeded   float64 `json:"seeded_per_s"`
	Times    int     `json:"times"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Max      float64 `json:"max_ms"`
}

// ListConfig is a session.
type ListConfig struct {
	Engine   Engine
	Database string
	Seed     Seeder
	Sagas    int
	Times    int // each list is asked for so often, if it does not take too long
	Progress Progress
}

// most is how long one list is asked for, but at least three times.
const most = 10 * time.Second

// mixed is saga i of the mix: what its list shows.
type mixed struct {
	definition, status string
	labels             map[string]string
}

// rare is how many sagas, the oldest, have a label that no others have.
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

// list is a query, and which sagas must be in its answer.
type list struct {
	name, query string
	match       func(mixed) bool
	has         func(uuid.UUID) bool // nil: any
	skip        int                  // pages before it
	walk        bool                 // on to the last page
}

// listPage is the lists' limit.
const listPage = 100

// lists are of sagas with these ids, the newest first.
func lists(newest []uuid.UUID) []list {
	every, none := func(mixed) bool { return true }, func(mixed) bool { return false }
	pilot := func(m mixed) bool { return m.labels["batch"] != "" }
	gold := func(m mixed) bool { return m.labels["tier"] == "gold" }
	deep := max(min(1000, len(newest)/listPage/2), 1)
	at := func(n int) time.Time { return idTime(newest[n*(len(newest)-1)/10]) } // a time with so many tenths of the sagas behind it
	first := newest[len(newest)-1].String()[:13]
	after, before := func(id uuid.UUID) bool { return idTime(id).After(at(6)) }, func(id uuid.UUID) bool { return idTime(id).Before(at(4)) }
	since, until := "started_after="+at(6).Format(time.RFC3339Nano), "started_before="+at(4).Format(time.RFC3339Nano)
	return []list{
		{name: "first page", match: every},
		{name: fmt.Sprintf("page %d", deep), match: every, skip: deep - 1},
		{name: "status", query: "status=compensated", match: func(m mixed) bool { return m.status == "compensated" }},
		{name: "statuses that none has", query: "status=stuck,paused,compensating", match: none},
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

// idTime is the millisecond in a UUIDv7.
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

// rows are the first ids that must be in the answer, of the sagas that are listed newest first.
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

// List fills a database with sagas of several definitions, labels and statuses, starts
// a server on it, and asks for lists. It fails if an answer has not the rows that it must have.
func List(ctx context.Context, c ListConfig) (*ListReport, error) {
	db, err := openDatabase(ctx, c.Database) // seeding commits, too
	if err != nil {
		return nil, err
	}
	db.close(ctx)
	seeded, err := c.Seed(ctx, Seeding{
		Definitions: map[string]string{
			"nap-de":  "saga: nap-de\nsteps:\n  - {id: pause, sleep: 10d}\n",
			"nap-fr":  "saga: nap-fr\nsteps:\n  - {id: pause, sleep: 20d}\n",
			"nap-pt":  "saga: nap-pt\nsteps:\n  - {id: pause, sleep: 30d}\n",
			"note":    "saga: note\nsteps:\n  - {id: note, set: noted}\n",
			"refusal": "saga: refusal\nsteps:\n  - {id: refuse, fail: sold out}\n",
		},
		Sagas:    c.Sagas,
		Of:       func(i int, _ time.Time) Seed { m := mix(i); return Seed{Definition: m.definition, Labels: m.labels} },
		Progress: c.Progress,
	})
	if err != nil {
		return nil, err
	}
	engine, err := c.Engine.Start()
	if err != nil {
		return nil, err
	}
	counted := time.Now()
	if err := c.allThere(ctx, engine); err != nil {
		return nil, err
	}
	first := ms(time.Since(counted))
	newest := make([]int, len(seeded.IDs)) // the sagas as lists show them
	for i := range newest {
		newest[i] = i
	}
	slices.SortFunc(newest, func(a, b int) int { return bytes.Compare(seeded.IDs[b][:], seeded.IDs[a][:]) })
	ids := make([]uuid.UUID, len(newest))
	for i, n := range newest {
		ids[i] = seeded.IDs[n]
	}
	r := &ListReport{Session: Session{Workload: "list", Rounds: 1}}
	all := lists(ids)
	for i, l := range all {
		c.Progress(i, len(all), l.name)
		run, err := c.ask(ctx, engine, l, l.rows(newest, seeded.IDs))
		if err != nil {
			return nil, fmt.Errorf("the list by %s: %w", l.name, err)
		}
		r.Runs = append(r.Runs, run)
	}
	r.Runs = append(r.Runs, ListRun{List: "counts, for the first time", Times: 1, Requests: 1, P50: first, P99: first, Max: first})
	for _, path := range []string{"/v1/stats", "/metrics"} {
		run, err := c.timed(ListRun{List: path}, func() (int, int, error) {
			_, err := get(ctx, engine.URL+path)
			return 0, 1, err
		})
		if err != nil {
			return nil, err
		}
		r.Runs = append(r.Runs, run)
	}
	for i := range r.Runs {
		r.Runs[i].Sagas, r.Runs[i].Seeded = c.Sagas, seeded.PerSecond()
	}
	c.Progress(len(all), len(all), "done")
	return r, nil
}

// allThere compares how many sagas there are with the mix.
func (c *ListConfig) allThere(ctx context.Context, engine Process) error {
	want := make(map[string]int)
	for i := range c.Sagas {
		want[mix(i).status]++
	}
	st, err := statsOf(ctx, engine)
	if err == nil && !maps.Equal(st.Sagas, want) {
		err = fmt.Errorf("there are sagas by status %v, and should be %v", st.Sagas, want)
	}
	return err
}

// view is what is looked at of a row.
type view struct {
	ID, Definition, Status string
	Labels                 map[string]string
}

// listed is an answer.
type listed struct {
	Data []view
	Next string    `json:"next_cursor"`
	Back time.Time `json:"looked_back_to"`
}

// ask asks for a list again and again and compares each answer with the ids it must have.
func (c *ListConfig) ask(ctx context.Context, engine Process, l list, want []uuid.UUID) (ListRun, error) {
	query := fmt.Sprintf("limit=%d", listPage)
	if l.query != "" {
		query += "&" + l.query
	}
	page := func(cursor string) (listed, error) {
		if cursor != "" {
			cursor = "&cursor=" + url.QueryEscape(cursor)
		}
		return decoded[listed](get(ctx, engine.URL+"/v1/sagas?"+query+cursor))
	}
	cursor := ""
	for range l.skip {
		p, err := page(cursor)
		if err != nil {
			return ListRun{}, err
		}
		cursor = p.Next
	}
	return c.timed(ListRun{List: l.name, Query: query}, func() (rows, requests int, err error) {
		p, err := page(cursor)
		requests = 1
		for all := p; l.walk && err == nil && p.Next != ""; requests++ {
			p, err = page(p.Next)
			all.Data, all.Next, all.Back = append(all.Data, p.Data...), p.Next, p.Back
			if p.Next == "" {
				p = all
			}
		}
		if err == nil {
			err = p.right(l, want)
		}
		return len(p.Data), requests, err
	})
}

// timed does something again and again.
func (c *ListConfig) timed(run ListRun, do func() (rows, requests int, err error)) (ListRun, error) {
	var took Took
	for began := time.Now(); len(took.All) < c.Times && (len(took.All) < 3 || time.Since(began) < most); {
		at := time.Now()
		var err error
		run.Rows, run.Requests, err = do()
		took.All = append(took.All, time.Since(at))
		if err != nil {
			return run, err
		}
	}
	slices.Sort(took.All)
	run.Times, run.P50, run.P99, run.Max = len(took.All), ms(took.Quantile(.5)), ms(took.Quantile(.99)), ms(took.Quantile(1))
	return run, nil
}

// right fails unless an answer has the rows that it must have, in order. It may have fewer only if it goes on, and has looked
// back to those that it leaves out.
func (p *listed) right(l list, want []uuid.UUID) error {
	for i, v := range p.Data {
		if !l.match(mixed{v.Definition, v.Status, v.Labels}) {
			return fmt.Errorf("saga %s is in it, which is a %s of %s with labels %v", v.ID, v.Status, v.Definition, v.Labels)
		}
		if i >= len(want) || v.ID != want[i].String() {
			return fmt.Errorf("row %d is saga %s, which should be another or none", i, v.ID)
		}
	}
	if n := len(p.Data); n < len(want) && (p.Next == "" || p.Back.Before(idTime(want[n]))) {
		return fmt.Errorf("it has %d rows, and leaves out saga %s; it looked back to %s", n, want[n], p.Back)
	}
	return nil
}

// Print writes the report for people.
func (r *ListReport) Print(w io.Writer) error {
	r.head(w, fmt.Sprintf("GET /v1/sagas among %d sagas, one request at a time; each answer had the rows that it must have", r.Runs[0].Sagas))
	var rows [][]string
	for _, l := range r.Runs {
		rows = append(rows, strings.Split(fmt.Sprintf("%s|%d|%d|%d|%.2f|%.2f|%.2f", l.List, l.Rows, l.Requests, l.Times, l.P50, l.P99, l.Max), "|"))
	}
	if err := table(w, []string{"list", "rows", "requests", "times", "p50 ms", "p99", "max"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nthe sagas were seeded at %.0f/s\n", r.Runs[0].Seeded)
	return err
}
