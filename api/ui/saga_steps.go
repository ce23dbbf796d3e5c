package ui

import (
	"encoding/json"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"recourse/api/rest"
	"recourse/api/ui/format"
	"recourse/api/ui/timeline"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// Bounds of the steps on a saga's page. The step's own page shows the rest.
const (
	maxSteps    = 120
	maxAttempts = 40
	maxDocument = 6000 // bytes of a request or an output
)

// stepRow is a row in the list of steps.
type stepRow struct {
	machine.StepView
	Saga     string
	Name     string // its path without the enclosing blocks
	Depth    int
	Line     int             // line in the definition; 0 if unknown
	Sent     int             // attempts, without status checks and compensations
	Took     time.Duration   // from the start of the first attempt
	Earlier  int             // number of omitted attempts
	Request  json.RawMessage // empty if it is too large
	Large    bool            // request or output are only on the step's own page
	Wasted   string
	Currency string
	Child    string // the saga that it started
	Advice   string // advice for the user
	Entry    string // the id of its inbox entry
	Folded   int    // number of rows that this one stands for
	Unfold   string // URL of a page that lists them
	Call     *callFacts
	Ask      *askPage // on its own page
}

// notReached is the status shown for a pending step of an ended saga, which will never run.
const notReached = "not_reached"

// attention reports whether a step is among the most relevant ones.
func attention(s machine.StepView) bool {
	switch s.Status {
	case machine.StepInDoubt, machine.StepHeld, machine.StepUndoFail, machine.StepFailed, machine.StepRunning, machine.StepWaiting, machine.StepUndoing:
		return true
	}
	return len(s.Attempts) > 1
}

// found returns the steps whose paths contain a text.
func (d *sagaPage) found(find string) []machine.StepView {
	if find == "" {
		return d.Steps
	}
	return slices.DeleteFunc(slices.Clone(d.Steps), func(s machine.StepView) bool { return !strings.Contains(s.Path, find) })
}

// stepsAt returns the URL of a saga's page that lists the steps whose paths contain a text, from a
// position on.
func (d *sagaPage) stepsAt(find string, from int) string {
	q := url.Values{"from": {strconv.Itoa(from)}}
	if find != "" {
		q.Set("step", find)
	}
	return rest.Path("sagas", d.Saga.ID) + "?" + q.Encode() + "#steps"
}

// part lists steps from a position on, and returns the URLs of those before and after; "" for none.
func (d *sagaPage) part(find string, from, most int) (rows []stepRow, before, after string) {
	list := d.found(find)
	in := timeline.NestingOf(d.Def, nil)
	from = min(max(from, 0), len(list))
	to := min(from+most, len(list))
	for _, s := range list[from:to] {
		rows = append(rows, d.row(s, in.Depth(s.Path)))
	}
	if from > 0 {
		before = d.stepsAt(find, max(from-most, 0))
	}
	if to < len(list) {
		after = d.stepsAt(find, to)
	}
	return rows, before, after
}

// rows lists the steps whose paths contain a text; if there are too many, the most relevant ones.
func (d *sagaPage) rows(find string, most int) []stepRow {
	list := d.found(find)
	in := timeline.NestingOf(d.Def, nil)
	keep := make([]bool, len(list))
	if len(list) > most {
		keep = timeline.Kept(len(list), most, func(i int) bool { return attention(list[i]) })
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
			rows = append(rows, d.row(s, in.Depth(s.Path)))
		case last >= 0 && rows[last].Folded > 0:
			rows[last].Folded++
		default:
			rows = append(rows, stepRow{Folded: 1, Unfold: d.stepsAt(find, i)})
		}
	}
	return rows
}

func (d *sagaPage) row(s machine.StepView, depth int) stepRow {
	r := stepRow{StepView: s, Saga: d.Saga.ID, Depth: min(depth, 6), Currency: d.Saga.Cost.Currency, Request: s.Input, Wasted: wasted(s)}
	r.Name = format.StepName(s.Path)
	if s.Status == machine.Pending && d.ended() {
		r.Status = notReached
	}
	if d.Def != nil && d.Published() {
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
	r.Advice = d.advice(s, r.Entry != "")
	if d.Session != nil {
		if facts, ok := d.Session.calls[s.Path]; ok {
			r.Call = &facts
		}
	}
	return r
}

// forward returns the number and the duration of a step's own attempts.
func (d *sagaPage) forward(s machine.StepView) (n int, took time.Duration) {
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

// child returns the id of the saga that a step started; "" for none.
func (d *sagaPage) child(s machine.StepView) string {
	var request saga.Request
	if s.Kind != "run" || json.Unmarshal(s.Input, &request) != nil || request.Child == nil {
		return ""
	}
	return request.Child.Saga
}

// short omits large documents, which the step's own page shows.
func (r stepRow) short() stepRow {
	if len(r.Request) > maxDocument {
		r.Request, r.Large = nil, true
	}
	if len(r.Output) > maxDocument {
		r.Output, r.Large = nil, true
	}
	return r
}

// advice returns advice about a step that has not succeeded.
func (d *sagaPage) advice(s machine.StepView, asked bool) string {
	switch {
	case asked:
		return "The step needs a person. The request and the possible decisions are at the top of this page."
	case s.Status == machine.StepInDoubt && !d.finds(s):
		return "Its effect may or may not have happened, and nothing is sent to find it out. Look for its key in the remote service."
	case s.Status == machine.StepInDoubt:
		return "Its effect may or may not have happened. Nobody has to act: the request is repeated with the same key, or the remote service is asked."
	case s.Status == machine.StepUndoFail:
		return "Its effect is not undone. Undo it by hand in the remote service that got the request below, where you can find it by its key."
	case s.Status == machine.StepWaiting && len(s.Attempts) > 0:
		return "It is retried automatically, after the wait."
	}
	return ""
}

// finds reports whether the saga finds out itself whether a step in doubt has happened: it waits
// for a response, or sends another request. It does not if the step has ended in doubt.
func (d *sagaPage) finds(s machine.StepView) bool {
	_, waits := d.wait(s, d.lastIntents([]machine.StepView{s}))
	return waits && !d.ended()
}

// wasted returns the cost of a step's failed attempts; "" for none.
func wasted(s machine.StepView) string {
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
	d, err := v.readSaga(v.r.PathValue("id"))
	if err != nil {
		return err
	}
	name := v.r.PathValue("path")
	at := slices.IndexFunc(d.Steps, func(s machine.StepView) bool { return s.Path == name })
	if at < 0 {
		return &rest.Problem{Status: 404, Title: "No such step", Detail: "the saga's page lists its steps; an iteration of a loop that has not begun has none yet"}
	}
	v.follows(d, time.Now())
	row := d.row(d.Steps[at], 0)
	row.Attempts, row.Earlier = d.Steps[at].Attempts, 0
	if row.Ask, err = v.askPage(d, name); err != nil {
		return err
	}
	v.still = v.still || row.Ask != nil && !row.Ask.Ended.IsZero()
	return v.render("saga-step", name, row)
}

// stepLink returns the link to a step on the page: to its row if it is listed, otherwise to a
// search for it.
func stepLink(id string, listed map[string]bool) func(string) string {
	return func(p string) string {
		anchor := "#step-" + url.PathEscape(p)
		if listed[p] {
			return anchor
		}
		return rest.Path("sagas", id) + "?step=" + url.QueryEscape(p) + anchor
	}
}
