package ui

import (
	"context"
	"html/template"
	"net/http"
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
	"recourse/saga/history"
	"recourse/saga/machine"
)

// sagaView is a saga's page.
type sagaView struct {
	*sagaPage
	Who      who
	Problem  *rest.Problem // problem of a refused command whose form the page no longer has
	Why      *reason
	Took     time.Duration
	Remains  []remnant
	Doubts   []remnant
	Forms    []entryForms
	Trace    string // URL of its trace; "" for none
	Children []child
	Waits    []wait
	More     int // number of waits that are not listed
	Actions  []action
	Timeline template.HTML
	Story    []storyLine
	Lines    []sourceLine
	Rows     []stepRow
	Find     string // the text that steps are searched for
	Part     bool   // Rows are all steps from a position on, not the most relevant ones
	Before   string // URL of the steps before, "" for none
	After    string
	Money    moneyView
}

// remnant is an effect that remains.
type remnant struct{ Path, Why, Link string }

// maxRemains is the maximum of remaining effects on a page.
const maxRemains = 60

// DoubtsMore returns how many steps in doubt are not listed.
func (p sagaView) DoubtsMore() int { return len(p.Saga.Doubts) - len(p.Doubts) }

// FormsMore returns how many inbox entries are not listed.
func (p sagaView) FormsMore() int { return max(len(p.Saga.Open)-len(p.Forms), 0) }

// RemainsMore returns how many remaining effects are not listed.
func (p sagaView) RemainsMore() int { return len(p.Saga.Residual) - len(p.Remains) }

// child is a saga that a step has started.
type child struct{ Path, ID string }

// reason explains why a saga did not, or will not, reach its goal.
type reason struct {
	Word  string // Undone, Failed, Being undone
	Step  string
	Title string
	More  string
}

// showSaga serves GET /sagas/{id}.
func showSaga(v *request) error { return v.sagaPage(http.StatusOK, nil) }

// sagaPage responds with a saga's page; was is a refused command, or nil.
func (v *request) sagaPage(status int, was *tried) error {
	began := time.Now()
	d, err := v.readSaga(v.r.PathValue("id"))
	if err != nil {
		return err
	}
	page := sagaView{sagaPage: d, Who: v.who, Why: reasonOf(d.Saga), Actions: d.actions(v.who, was), Lines: d.source(), Money: d.money(),
		Find: strings.TrimSpace(v.r.URL.Query().Get("step")), Took: d.now.Sub(d.Saga.CreatedAt.Time)}
	if d.Saga.EndedAt != nil {
		page.Took = d.Saga.EndedAt.Sub(d.Saga.CreatedAt.Time)
	}
	page.Problem = page.forms(v, was)
	listed := page.list(v.r.URL.Query().Get("from"))
	for _, s := range d.Steps {
		if id := d.child(s); id != "" && len(page.Children) < maxWaits {
			page.Children = append(page.Children, child{s.Path, id})
		}
	}
	link := stepLink(d.Saga.ID, listed)
	if d.Session != nil {
		link = d.sessionLink(link)
	}
	for _, r := range d.Saga.Residual[:min(len(d.Saga.Residual), maxRemains)] {
		page.Remains = append(page.Remains, remnant{r.Path, r.Why, link(r.Path)})
	}
	for _, r := range d.Saga.Doubts[:min(len(d.Saga.Doubts), maxRemains)] {
		page.Doubts = append(page.Doubts, remnant{r.Path, r.Why, link(r.Path)})
	}
	page.Waits, page.More = d.waits(link)
	page.Timeline = timeline.Draw(d.Records, timeline.NestingOf(d.Def, d.Steps), d.now, d.ended(), link)
	page.Story = d.story(link)
	if v.cfg.TraceURL != "" && d.Saga.TraceID != "" {
		page.Trace = strings.ReplaceAll(v.cfg.TraceURL, "{trace_id}", url.PathEscape(d.Saga.TraceID))
	}
	v.follows(d, began)
	return v.renderAs(status, "saga", d.name()+" "+format.Short(d.Saga.ID), page)
}

// list lists the steps, or the activity of a session: from a position on, or the most relevant
// ones. It returns the paths of the listed steps.
func (p *sagaView) list(position string) map[string]bool {
	listed := map[string]bool{}
	from, err := strconv.Atoi(position)
	p.Part = err == nil
	if p.Session != nil {
		if from = max(from, 0); !p.Part {
			from = -1
		}
		p.Session.Rows, p.Before, p.After = p.activity(p.Find, from, maxSteps)
		for _, r := range p.Session.Rows {
			if r.Step != nil {
				listed[r.Step.Path] = true
			}
		}
		return listed
	}
	rows := p.rows(p.Find, maxSteps)
	if p.Part {
		rows, p.Before, p.After = p.part(p.Find, from, maxSteps)
	}
	for _, r := range rows {
		listed[r.Path] = true
		p.Rows = append(p.Rows, r.short())
	}
	return listed
}

// forms adds the forms of the saga's inbox entries. It returns the problem of the refused command,
// if no form on the page belongs to it.
func (p *sagaView) forms(v *request, was *tried) *rest.Problem {
	found := slices.ContainsFunc(p.Actions, func(a action) bool { return a.Tried != nil })
	for _, e := range p.Entries {
		f := v.forms(e, rest.Path("sagas", p.Saga.ID), was)
		if f.Checks = p.asked(e); f.Checks == nil {
			f.Checks = v.checks(e, &p.Saga)
		}
		if p.Session != nil {
			f.Compared = comparison(e, p.Session.view)
		}
		found = found || f.Tried != nil
		p.Forms = append(p.Forms, f)
	}
	if was == nil || found {
		return nil
	}
	return was.Problem
}

// asked returns the step's last status check, as it was sent to the remote service; nil if none was
// sent.
func (d *sagaPage) asked(e entry) []check {
	for _, r := range slices.Backward(d.Records) {
		if t := history.TrackOf(&r); !t.Check || t.Step != e.Path || r.Kind != journal.Intent {
			continue
		}
		if intent, ok := history.DataOf[saga.IntentData](&r); ok && intent.Request != nil {
			return []check{{Says: "Repeat its status check:", Request: intent.Request.String()}}
		}
	}
	return nil
}

// follows makes the live stream wait for the saga's next record. A page that is slow to render is
// rendered less often, so that it uses only a part of a processor. While attempts are in flight
// their bars grow, so the wait is short.
func (v *request) follows(d *sagaPage, began time.Time) {
	if d.ended() {
		v.still = true
		return
	}
	if d.machine == nil { // only its row is readable, which cannot be followed
		return
	}
	wait := 20 * time.Second
	if d.inFlight() {
		wait = 2 * time.Second
	}
	id, seq := d.Saga.ID, d.machine.Seq()
	drawn := time.Since(began)
	v.wake = func(ctx context.Context) {
		v.api.Grown(ctx, id, seq, wait)
		select {
		case <-ctx.Done():
		case <-time.After(4 * drawn):
		}
	}
}

// reasonOf describes a saga's reason; nil if it has none.
func reasonOf(s machine.View) *reason {
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
		r.Word = "Stuck while being undone"
	}
	if !strings.HasPrefix(s.Reason.Code, "step_") && s.Reason.Code != "rejected" {
		r.Step = "" // the step is only the one that was running
	}
	return r
}
