package ui

import (
	"context"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"recourse/journal"
	"recourse/saga"
)

// sagaView is what a saga's page shows.
type sagaView struct {
	*sagaPage
	Who      who
	Problem  *problem // of an order that was refused, when its form is not there any more
	Why      *reason
	Took     time.Duration
	Remains  []remnant
	Doubts   []remnant
	Forms    []entryForms
	Trace    string // where its trace is; "" for nowhere
	Children []child
	Waits    []wait
	More     int // waits that are not listed
	Actions  []action
	Timeline template.HTML
	Story    []storyLine
	Lines    []sourceLine
	Rows     []stepRow
	Find     string // which steps are looked for
	Part     bool   // Rows are all steps from one on, not the telling ones
	Before   string // the address of those before, "" for none
	After    string
	Money    moneyView
}

// remnant is an effect that remains.
type remnant struct{ Path, Why, Link string }

// maxRemains is how many of them a page lists.
const maxRemains = 60

// DoubtsMore is how many steps in doubt are not listed.
func (p sagaView) DoubtsMore() int { return len(p.Saga.Doubts) - len(p.Doubts) }

// RemainsMore is how many effects that remain are not listed.
func (p sagaView) RemainsMore() int { return len(p.Saga.Residual) - len(p.Remains) }

// child is a saga that a step runs.
type child struct{ Path, ID string }

// reason is why a saga did not, or will not, reach its goal.
type reason struct {
	Word  string // Undone, Failed, Being undone
	Step  string
	Title string
	More  string
}

// showSaga serves GET /sagas/{id}.
func showSaga(v *request) error { return v.sagaPage(http.StatusOK, nil) }

// sagaPage answers with a saga's page; was is an order that has just been refused, or nil.
func (v *request) sagaPage(status int, was *tried) error {
	began := time.Now()
	d, err := v.dossier(v.r.PathValue("id"))
	if err != nil {
		return err
	}
	page := sagaView{sagaPage: d, Who: v.who, Why: reasonOf(d.Saga), Actions: d.actions(v.who, was), Lines: d.source(), Money: d.money(),
		Find: strings.TrimSpace(v.r.URL.Query().Get("step")), Took: d.now.Sub(d.Saga.CreatedAt.Time)}
	if d.Saga.EndedAt != nil {
		page.Took = d.Saga.EndedAt.Sub(d.Saga.CreatedAt.Time)
	}
	page.Problem = page.forms(v, was)
	listed := map[string]bool{}
	rows := d.rows(page.Find, maxSteps)
	if from, err := strconv.Atoi(v.r.URL.Query().Get("from")); err == nil {
		page.Part = true
		rows, page.Before, page.After = d.part(page.Find, from, maxSteps)
	}
	for _, r := range rows {
		listed[r.Path] = true
		page.Rows = append(page.Rows, r.short())
	}
	for _, s := range d.Steps {
		if id := d.child(s); id != "" && len(page.Children) < maxWaits {
			page.Children = append(page.Children, child{s.Path, id})
		}
	}
	link := stepLink(d.Saga.ID, listed)
	for _, r := range d.Saga.Residual[:min(len(d.Saga.Residual), maxRemains)] {
		page.Remains = append(page.Remains, remnant{r.Path, r.Why, link(r.Path)})
	}
	for _, r := range d.Saga.Doubts[:min(len(d.Saga.Doubts), maxRemains)] {
		page.Doubts = append(page.Doubts, remnant{r.Path, r.Why, link(r.Path)})
	}
	page.Waits, page.More = d.waits(link)
	page.Timeline, page.Story = d.timeline(link), d.story(link)
	if v.cfg.TraceURL != "" && d.Saga.TraceID != "" {
		page.Trace = strings.ReplaceAll(v.cfg.TraceURL, "{trace_id}", url.PathEscape(d.Saga.TraceID))
	}
	v.follows(d, began)
	return v.renderAs(status, "saga", d.Saga.Definition+" "+short(d.Saga.ID), page)
}

// forms makes the forms of the saga's inbox entries. It returns why an order was refused, if none
// of the page's forms is that order's.
func (p *sagaView) forms(v *request, was *tried) *problem {
	found := slices.ContainsFunc(p.Actions, func(a action) bool { return a.Tried != nil })
	for _, e := range p.Entries {
		f := v.forms(e, path("sagas", p.Saga.ID), was)
		if f.Checks = p.asked(e); f.Checks == nil {
			f.Checks = v.checks(e, &p.Saga)
		}
		found = found || f.Tried != nil
		p.Forms = append(p.Forms, f)
	}
	if was == nil || found {
		return nil
	}
	return was.Problem
}

// asked is how the other side has been asked what became of a request: as its status query did. It
// is nil if none has left.
func (d *sagaPage) asked(e entry) []check {
	for i := len(d.Records) - 1; i >= 0; i-- {
		step, query := saga.SplitQuery(d.Records[i].Path)
		var intent saga.IntentData
		if query && step == e.Path && d.Records[i].Kind == journal.Intent && json.Unmarshal(d.Records[i].Data, &intent) == nil && intent.Request != nil {
			return []check{{Says: "Repeat its status query:", Request: intent.Request.String()}}
		}
	}
	return nil
}

// follows has the live stream wait for the saga's next record. A page that takes long to draw is
// drawn less often, so that it costs no more than a part of a processor; attempts under way grow,
// so those are not waited for as long.
func (v *request) follows(d *sagaPage, began time.Time) {
	if d.ended() {
		v.still = true
		return
	}
	if d.machine == nil { // its row is all there is: nothing can be waited for
		return
	}
	wait := 20 * time.Second
	if d.inFlight() {
		wait = 2 * time.Second
	}
	id, seq := d.Saga.ID, d.machine.Seq()
	drawn := time.Since(began)
	v.wake = func(ctx context.Context) {
		v.api.grown(ctx, id, seq, wait)
		select {
		case <-ctx.Done():
		case <-time.After(4 * drawn):
		}
	}
}

// reasonOf puts a saga's reason in words; nil if it has none.
func reasonOf(s saga.View) *reason {
	if s.Reason == nil || s.Status == saga.Succeeded {
		return nil
	}
	r := &reason{Word: "Being undone", Step: s.Reason.Step, Title: s.Reason.Title, More: s.Reason.Detail}
	switch s.Status {
	case saga.Compensated:
		r.Word = "Undone"
	case saga.Failed:
		r.Word = "Failed"
	case saga.Stuck:
		r.Word = "Stuck on its way back"
	}
	if !strings.HasPrefix(string(s.Reason.Code), "step_") && s.Reason.Code != "rejected" {
		r.Step = "" // the step is only where it stood
	}
	return r
}
