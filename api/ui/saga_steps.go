package ui

import (
	"encoding/json"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"time"

	"recourse/journal"
	"recourse/saga"
)

// Bounds of what a page shows of a saga's steps. The step's own page shows the rest.
const (
	maxSteps    = 120
	maxAttempts = 40
	maxDocument = 6000 // bytes of a request or an output
)

// stepRow is a step in a page's list.
type stepRow struct {
	saga.StepView
	Saga     string
	Name     string // its path below the blocks that it lies in
	Depth    int
	Line     int             // in the definition; 0: not known
	Sent     int             // how often its request was sent, not counting status queries and its undoing
	Took     time.Duration   // from the first time on
	Earlier  int             // attempts that are left out
	Request  json.RawMessage // "" if it is cut
	Large    bool            // request or output are on the step's own page
	Wasted   string
	Currency string
	Child    string // the saga that it runs
	Advice   string // what to do about it
	Entry    string // the id of the inbox entry about it
	Folded   int    // a row that stands for so many others
	Unfold   string // the address of a page that lists them
}

// notReached is what a step is called that an ended saga has left pending: nothing will come of it
// any more.
const notReached = "not_reached"

// attention reports whether a step is one to look at first.
func attention(s saga.StepView) bool {
	switch s.Status {
	case saga.StepInDoubt, saga.StepHeld, saga.StepUndoFail, saga.StepFailed, saga.StepRunning, saga.StepWaiting, saga.StepUndoing:
		return true
	}
	return len(s.Attempts) > 1
}

// found are the steps whose paths have a text in them.
func (d *sagaPage) found(find string) []saga.StepView {
	if find == "" {
		return d.Steps
	}
	return slices.DeleteFunc(slices.Clone(d.Steps), func(s saga.StepView) bool { return !strings.Contains(s.Path, find) })
}

// stepsAt is the address of a saga's page that lists the steps with a text in their paths from one
// on.
func (d *sagaPage) stepsAt(find string, from int) string {
	q := url.Values{"from": {itoa(from)}}
	if find != "" {
		q.Set("step", find)
	}
	return path("sagas", d.Saga.ID) + "?" + q.Encode() + "#steps"
}

// part lists up to so many steps from one on, and gives the addresses of those before and after; ""
// for none.
func (d *sagaPage) part(find string, from, most int) (rows []stepRow, before, after string) {
	list := d.found(find)
	in := nestingOf(d.Def, nil)
	from = min(max(from, 0), len(list))
	to := min(from+most, len(list))
	for _, s := range list[from:to] {
		rows = append(rows, d.row(s, in.depth[saga.StepID(s.Path)]))
	}
	if from > 0 {
		before = d.stepsAt(find, max(from-most, 0))
	}
	if to < len(list) {
		after = d.stepsAt(find, to)
	}
	return rows, before, after
}

// rows lists the steps whose paths have a text in them; of too many the telling ones.
func (d *sagaPage) rows(find string, most int) []stepRow {
	list := d.found(find)
	in := nestingOf(d.Def, nil)
	keep := make([]bool, len(list))
	if len(list) > most {
		keep = kept(len(list), most, func(i int) bool { return attention(list[i]) })
	} else {
		for i := range keep {
			keep[i] = true
		}
	}
	var rows []stepRow
	for i, s := range list {
		last := len(rows) - 1
		switch {
		case keep[i]:
			rows = append(rows, d.row(s, in.depth[saga.StepID(s.Path)]))
		case last >= 0 && rows[last].Folded > 0:
			rows[last].Folded++
		default:
			rows = append(rows, stepRow{Folded: 1, Unfold: d.stepsAt(find, i)})
		}
	}
	return rows
}

func (d *sagaPage) row(s saga.StepView, depth int) stepRow {
	r := stepRow{StepView: s, Saga: d.Saga.ID, Depth: min(depth, 6), Currency: d.Saga.Cost.Currency, Request: s.Input, Wasted: wasted(s)}
	r.Name = laneName(&lane{path: s.Path})
	if s.Status == saga.Pending && d.ended() {
		r.Status = notReached
	}
	if d.Def != nil {
		if step := d.Def.Step(s.Path); step != nil {
			r.Line = step.Line
		}
	}
	r.Sent, r.Took = d.forward(s)
	if n := len(s.Attempts); n > maxAttempts {
		r.Earlier, r.Attempts = n-maxAttempts, s.Attempts[n-maxAttempts:]
	}
	r.Child = d.child(s)
	for _, e := range d.Entries {
		if e.Path == s.Path {
			r.Entry = e.ID
		}
	}
	r.Advice = advice(s, r.Entry != "")
	return r
}

// forward counts a step's own attempts, and says how long they took.
func (d *sagaPage) forward(s saga.StepView) (n int, took time.Duration) {
	var begin time.Time
	for _, a := range s.Attempts {
		if a.Query || a.Way != journal.Do {
			continue
		}
		if n++; n == 1 {
			begin = a.SentAt.Time
		}
		end := d.now
		if a.EndedAt != nil {
			end = a.EndedAt.Time
		}
		took = end.Sub(begin)
	}
	return n, took
}

// child is the id of the saga that a step runs; "" if it runs none.
func (d *sagaPage) child(s saga.StepView) string {
	var request saga.Request
	if s.Kind != "run" || json.Unmarshal(s.Input, &request) != nil || request.Child == nil {
		return ""
	}
	return request.Child.Saga
}

// short leaves large documents to the step's own page.
func (r stepRow) short() stepRow {
	if len(r.Request) > maxDocument {
		r.Request, r.Large = nil, true
	}
	if len(r.Output) > maxDocument {
		r.Output, r.Large = nil, true
	}
	return r
}

// advice says what can be done about a step that is not well.
func advice(s saga.StepView, asked bool) string {
	switch {
	case asked:
		return "The step needs a person. The request and the possible decisions are at the top of this page."
	case s.Status == saga.StepInDoubt:
		return "Its effect may or may not have happened. Nobody has to act: the request is repeated with the same key, or the remote service is asked."
	case s.Status == saga.StepUndoFail:
		return "Its effect is not undone. Undo it by hand in the remote service that got the request below, where you can find it by its key."
	case s.Status == saga.StepWaiting && len(s.Attempts) > 0:
		return "It is retried automatically, after the wait."
	}
	return ""
}

// wasted is what a step's failed attempts have cost; "" for nothing.
func wasted(s saga.StepView) string {
	sum := new(big.Rat)
	places := 0
	for _, a := range s.Attempts {
		if a.Cost == "" || a.Class == journal.Succeeded {
			continue
		}
		cost, ok := new(big.Rat).SetString(a.Cost)
		if !ok {
			continue
		}
		sum.Add(sum, cost)
		if _, after, ok := strings.Cut(a.Cost, "."); ok {
			places = max(places, len(after))
		}
	}
	if sum.Sign() == 0 {
		return ""
	}
	return sum.FloatString(places)
}

// showStep serves GET /sagas/{id}/steps/{path}: one step, uncut.
func showStep(v *request) error {
	d, err := v.dossier(v.r.PathValue("id"))
	if err != nil {
		return err
	}
	name := v.r.PathValue("path")
	at := slices.IndexFunc(d.Steps, func(s saga.StepView) bool { return s.Path == name })
	if at < 0 {
		return &problem{Status: 404, Title: "No such step", Detail: "the saga's page lists its steps; an iteration of a loop that has not begun has none yet"}
	}
	v.follows(d, time.Now())
	row := d.row(d.Steps[at], 0)
	row.Attempts, row.Earlier = d.Steps[at].Attempts, 0
	return v.render("saga-step", name, row)
}
