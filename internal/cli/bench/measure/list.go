package measure

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

// ListReport says how long lists take in a database full of sagas.
type ListReport struct {
	Session
	Runs []ListRun `json:"runs"`
}

// ListRun is one list, requested several times, one after another.
type ListRun struct {
	List     string  `json:"list"`
	Query    string  `json:"query"`    // of GET /v1/sagas; for a page, its address
	Rows     int     `json:"rows"`     // in its response, which was checked each time
	Requests int     `json:"requests"` // for one list
	Sagas    int     `json:"sagas"`    // in the database
	Seeded   float64 `json:"seeded_per_s"`
	Times    int     `json:"times"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Max      float64 `json:"max_ms"`
}

// ListConfig configures a session.
type ListConfig struct {
	Engine   Engine
	Database string
	Seed     Seeder
	Sagas    int
	Times    int // each list is requested so often, if that does not take too long
	Progress Progress
}

// most bounds the time for one list, which is requested at least three times.
const most = 10 * time.Second

// List fills a database with sagas of several definitions, labels and statuses, starts a server on
// it, and requests lists. It fails if a response does not have the right rows.
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
	r.Runs = append(r.Runs, ListRun{List: "counts, the first time", Times: 1, Requests: 1, P50: first, P99: first, Max: first})
	for _, path := range []string{"/v1/stats", "/metrics"} {
		run, err := c.timed(ListRun{List: "counts, " + path}, func() (int, int, error) {
			_, err := get(ctx, engine.URL+path)
			return 0, 1, err
		})
		if err != nil {
			return nil, err
		}
		r.Runs = append(r.Runs, run)
	}
	pages, err := c.pages(ctx, engine, all, newest, seeded.IDs)
	if err != nil {
		return nil, err
	}
	r.Runs = append(r.Runs, pages...)
	for i := range r.Runs {
		r.Runs[i].Sagas, r.Runs[i].Seeded = c.Sagas, seeded.PerSecond()
	}
	c.Progress(len(all), len(all), "done")
	return r, nil
}

// allThere compares the counts of sagas with the mix.
func (c *ListConfig) allThere(ctx context.Context, engine Process) error {
	want := make(map[string]int)
	for i := range c.Sagas {
		want[mix(i).status]++
	}
	st, err := statsOf(ctx, engine)
	if err == nil && !maps.Equal(st.Sagas, want) {
		err = fmt.Errorf("sagas by status: %v, want %v", st.Sagas, want)
	}
	return err
}

// ask requests a list repeatedly, and compares each response with the right ids.
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

// timed measures repeated calls.
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

// Print writes the report for people.
func (r *ListReport) Print(w io.Writer) error {
	r.head(w, fmt.Sprintf("GET /v1/sagas and the web page among %d sagas, one request at a time; all responses had the right rows", r.Runs[0].Sagas))
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
