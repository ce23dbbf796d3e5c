package ui

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"recourse/api/rest"
	"recourse/api/ui/activity"
	"recourse/api/ui/format"
	"recourse/api/ui/timeline"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/machine"
)

// sessionView is what the page of a session has besides that of a saga.
type sessionView struct {
	*activity.Log
	Name     string
	Policy   *saga.SessionData
	Attached bool
	Needed   bool      // the session goes on, so it needs a process
	Since    time.Time // since when it has none; zero: it has one, needs none, or has had none
	Rows     []activityRow

	calls   map[string]callFacts // by path
	summary [][]machine.CallView // by the place of their status in summaries
}

// callFacts are what a step's row shows of a session's call or own step.
type callFacts struct {
	*activity.Step
	View *machine.CallView
}

// readSession reads what only a session has.
func (d *sagaPage) readSession(k *followed) {
	m := k.machine
	p := m.Definition().Session
	s := &sessionView{Log: &k.activity, Name: p.Name, Policy: p.Data, Needed: !m.Closed(), calls: make(map[string]callFacts)}
	_, _, s.Attached = m.Life()
	_, s.Since, _ = m.Gone()
	calls := machine.Calls(m, &k.log)
	for _, o := range machine.OwnSteps(m, &k.log) {
		calls = append(calls, machine.CallView{Path: o.Path, Status: o.Status, Input: o.Input, Output: o.Output, Error: o.Error, WaitsFor: o.WaitsFor, Undo: o.Undo})
	}
	s.summary = make([][]machine.CallView, len(summaries))
	for _, c := range calls {
		if step := s.Step(c.Path); step != nil {
			s.calls[c.Path] = callFacts{step, &c}
		}
		at := slices.IndexFunc(summaries, func(p summaryPart) bool { return slices.Contains(p.of, c.Status) })
		s.summary[at] = append(s.summary[at], c)
	}
	d.Session = s
}

// view returns a call or own step; nil if there is none.
func (s *sessionView) view(path string) *machine.CallView { return s.calls[path].View }

// summaryPart is a part of a session's summary: its calls and own steps with some statuses.
type summaryPart struct {
	title string
	mark  string // a status, for its symbol and colour
	of    []machine.CallStatus
}

// summaries are the parts, as the summary for the session's agent has them.
var summaries = []summaryPart{
	{"Done", "succeeded", []machine.CallStatus{machine.CallSucceeded}},
	{"In progress", "running", []machine.CallStatus{machine.CallRunning, machine.CallWaiting}},
	{"May have happened", "in_doubt", []machine.CallStatus{machine.CallInDoubt}},
	{"Failed, without an effect", "failed", []machine.CallStatus{machine.CallFailed}},
	{"Undone", "undone", []machine.CallStatus{machine.CallUndone}},
}

// summaryList is a part of the summary on the page.
type summaryList struct {
	Title, Mark string
	Count       int
	Calls       []summaryCall // the last ones
	More        string        // URL of a page that lists all, if there are more
}

type summaryCall struct {
	Path, Link    string
	Input, Result string // cut
}

// mostSummed is the most calls in a part of the summary.
const mostSummed = 8

// Summary lists what the session has done, without parts that have no calls.
func (d *sagaPage) Summary() (list []summaryList) {
	if d.Session == nil {
		return nil
	}
	for i, p := range summaries {
		calls := d.Session.summary[i]
		if len(calls) == 0 {
			continue
		}
		part := summaryList{Title: p.title, Mark: p.mark, Count: len(calls)}
		if len(calls) > mostSummed {
			part.More = d.stepsAt("", 0)
		}
		for _, c := range calls[max(len(calls)-mostSummed, 0):] {
			result := string(c.Output)
			switch {
			case c.WaitsFor != "":
				result = "waits for: " + c.WaitsFor
			case c.Error != nil && c.Status != machine.CallSucceeded:
				result = c.Error.Error()
			}
			const most = 90
			part.Calls = append(part.Calls, summaryCall{c.Path, d.stepPage(c.Path), format.Cut(most, saga.VisibleText(string(c.Input))), format.Cut(most, saga.VisibleText(result))})
		}
		list = append(list, part)
	}
	return list
}

// Noun says what the page is about.
func (d *sagaPage) Noun() string {
	if saga.IsSession(d.Saga.Definition) {
		return "session"
	}
	return "saga"
}

// name returns what the saga or session is called.
func (d *sagaPage) name() string {
	if d.Noun() == "session" {
		return strings.TrimPrefix(d.Saga.Definition, saga.SessionPrefix)
	}
	return d.Saga.Definition
}

// Published reports whether the saga's definition was published, so that it has a page. A session's
// was compiled from its first record.
func (d *sagaPage) Published() bool { return !strings.HasPrefix(d.Saga.Definition, saga.SessionPrefix) }

// activityRow is a row in the list of a session's activity. Besides Folded, one field is set.
type activityRow struct {
	Life   *activity.Life
	Moment *activity.Moment
	Link   string // of the moment's step
	Step   *stepRow
	Asks   *askGroup
	Folded int    // number of rows that this one stands for
	Unfold string // URL of a page that lists them
}

// askGroup is a folded group of requests to models.
type askGroup struct {
	First    string // the path of the first request
	Count    int
	Models   []string
	Tokens   saga.TokensView
	Cost     string
	Diverged int
	Failed   int
	Open     int
	Asks     []askRow
	List     string // URL of a page that lists them, if Asks is empty
}

// askRow is one of them.
type askRow struct {
	*activity.Ask
	Link, From string // URLs of its page, and of that of the request from which it differs
	FromLife   int    // the life of that request
	Status     string
	Cost       string // with its currency
	Took       time.Duration
}

// mostAskRows is the most requests to models that a page lists.
const mostAskRows = 400

// foundItems returns the items of which a step's path contains a text.
func (s *sessionView) foundItems(find string) []activity.Item {
	if find == "" {
		return s.Items
	}
	var list []activity.Item
	for _, i := range s.Items {
		if asks := slices.DeleteFunc(slices.Clone(i.Asks), func(a *activity.Ask) bool { return !strings.Contains(a.Path, find) }); len(asks) > 0 {
			list = append(list, activity.Item{Asks: asks})
		}
		if i.Step != nil && strings.Contains(i.Step.Path, find) {
			list = append(list, i)
		}
	}
	return list
}

// activity lists items from a position on, and returns the URLs of those before and after; "" for
// none. A negative position lists the most relevant items, in order.
func (d *sagaPage) activity(find string, from, most int) (rows []activityRow, before, after string) {
	list := d.Session.foundItems(find)
	b := activityBuilder{d: d, steps: make(map[string]machine.StepView, len(d.Steps)), left: mostAskRows}
	for _, s := range d.Steps {
		b.steps[s.Path] = s
	}
	if from >= 0 {
		from = min(from, len(list))
		to := min(from+most, len(list))
		for i, item := range list[from:to] {
			b.add(item, d.stepsAt(find, from+i))
		}
		if from > 0 {
			before = d.stepsAt(find, max(from-most, 0))
		}
		if to < len(list) {
			after = d.stepsAt(find, to)
		}
		return b.rows, before, after
	}
	keep := slices.Repeat([]bool{true}, len(list))
	if len(list) > most {
		keep = timeline.Kept(len(list), most, func(i int) bool { return b.attention(list[i]) })
	}
	for i, item := range list {
		last := len(b.rows) - 1
		switch {
		case keep[i]:
			b.add(item, d.stepsAt(find, i))
		case last >= 0 && b.rows[last].Folded > 0:
			b.rows[last].Folded++
		default:
			b.rows = append(b.rows, activityRow{Folded: 1, Unfold: d.stepsAt(find, i)})
		}
	}
	return b.rows, "", ""
}

// activityBuilder makes the rows of items.
type activityBuilder struct {
	d     *sagaPage
	steps map[string]machine.StepView
	rows  []activityRow
	left  int // how many more requests to models the page may list
}

// attention reports whether an item is among the most relevant ones.
func (b *activityBuilder) attention(i activity.Item) bool {
	if i.Step != nil {
		return attention(b.steps[i.Step.Path])
	}
	return i.Asks == nil || slices.ContainsFunc(i.Asks, func(a *activity.Ask) bool { return a.Diverged != nil || a.Failed != "" || a.Ended.IsZero() })
}

// add adds the row of an item. here is the URL of a page that begins with it.
func (b *activityBuilder) add(i activity.Item, here string) {
	d := b.d
	switch {
	case i.Life != nil:
		b.rows = append(b.rows, activityRow{Life: i.Life})
	case i.Moment != nil:
		row := activityRow{Moment: i.Moment}
		if i.Moment.Path != "" {
			row.Link = d.stepPage(i.Moment.Path)
		}
		b.rows = append(b.rows, row)
	case i.Step != nil:
		if s, ok := b.steps[i.Step.Path]; ok {
			row := d.row(s, 0).short()
			b.rows = append(b.rows, activityRow{Step: &row})
		}
	default:
		g := d.group(i.Asks)
		if len(i.Asks) > b.left && b.left < mostAskRows {
			g.Asks, g.List = nil, here
		}
		b.left -= len(g.Asks)
		b.rows = append(b.rows, activityRow{Asks: g})
	}
}

// stepPage returns the URL of a step's own page.
func (d *sagaPage) stepPage(path string) string { return rest.Path("sagas", d.Saga.ID, "steps", path) }

// group folds requests to models.
func (d *sagaPage) group(asks []*activity.Ask) *askGroup {
	g := &askGroup{First: asks[0].Path, Count: len(asks)}
	var sum retry.Money
	for _, a := range asks {
		row := d.askRow(a)
		g.Asks = append(g.Asks, row)
		if a.Model != "" && !slices.Contains(g.Models, a.Model) {
			g.Models = append(g.Models, a.Model)
		}
		g.Tokens.Input += a.Tokens.Input
		g.Tokens.Output += a.Tokens.Output
		if cost, err := retry.Total(a.Cost, ""); a.Cost != "" && err == nil {
			sum = sum.Add(cost)
		}
		switch {
		case a.Ended.IsZero():
			g.Open++
		case a.Failed != "":
			g.Failed++
		}
		if a.Diverged != nil {
			g.Diverged++
		}
	}
	g.Cost = format.Money(sum.Decimal(), d.Saga.Cost.Currency)
	return g
}

func (d *sagaPage) askRow(a *activity.Ask) askRow {
	row := askRow{Ask: a, Link: d.stepPage(a.Path), Status: "succeeded", Cost: format.Money(a.Cost, d.Saga.Cost.Currency), Took: a.Ended.Sub(a.At)}
	switch {
	case a.Ended.IsZero() && d.ended():
		row.Status = notReached
	case a.Ended.IsZero():
		row.Status, row.Took = "running", d.now.Sub(a.At)
	case a.Failed != "":
		row.Status = "failed"
	}
	if a.Diverged != nil {
		row.From = d.stepPage(a.Diverged.From)
		if from := d.Session.Ask(a.Diverged.From); from != nil {
			row.FromLife = from.Life
		}
	}
	return row
}

// Names lists the models, shortened.
func (g askGroup) Names() string {
	const most = 3
	if len(g.Models) > most {
		return strings.Join(g.Models[:most], ", ") + fmt.Sprintf(" and %d more", len(g.Models)-most)
	}
	return strings.Join(g.Models, ", ")
}

// sessionLink returns the link to a step on the page of a session. Requests to models have no row
// of their own.
func (d *sagaPage) sessionLink(other func(string) string) func(string) string {
	return func(path string) string {
		switch {
		case path == timeline.Asks:
			return "#steps"
		case d.Session.Ask(path) != nil:
			return d.stepPage(path)
		}
		return other(path)
	}
}

// policyFact is a part of a session's policy.
type policyFact struct{ Name, Text string }

// mostDiverged is the most divergences on a session's page.
const mostDiverged = 10

// Divergences lists the last requests that differ from those of earlier lives.
func (d *sagaPage) Divergences() (list []askRow) {
	if d.Session == nil {
		return nil
	}
	all := d.Session.Diverged
	for _, a := range all[max(len(all)-mostDiverged, 0):] {
		list = append(list, d.askRow(a))
	}
	return list
}

// Earlier returns the number of divergences that are not listed.
func (s *sessionView) Earlier() int { return max(len(s.Diverged)-mostDiverged, 0) }

// Facts lists the session's policy.
func (s *sessionView) Facts() (list []policyFact) {
	p := s.Policy
	add := func(name, text string) {
		if text != "" {
			list = append(list, policyFact{name, text})
		}
	}
	add("Actions", strings.Join(p.Actions, ", "))
	add("Models", strings.Join(p.Models, ", "))
	add("After a divergence", map[saga.OnDivergence]string{
		saga.DivergenceGuard: "guard: a call that may repeat an earlier one waits for a person", saga.DivergenceStop: "stop: the request is refused", saga.DivergenceIgnore: "ignore: it is recorded only"}[p.OnDivergence])
	add("Ignored in requests", strings.Join(p.Ignore, ", "))
	add("Contents", map[saga.KeepContents]string{saga.KeepFull: "prompts and answers are stored", saga.KeepAnswers: "answers are stored, prompts are not"}[p.Keep])
	add("Lease", p.Lease)
	if p.OnLost != nil {
		then := "then a person decides"
		if p.OnLost.Then == saga.AbortSession {
			then = "then the session is aborted"
		}
		add("Without a process", "it waits for "+p.OnLost.Wait+", "+then)
	}
	add("Timeout", p.Timeout)
	return list
}

// jsonText reports whether a text is a JSON document that is worth indenting.
func jsonText(text string) bool {
	text = strings.TrimSpace(text)
	return text != "" && (text[0] == '{' || text[0] == '[') && json.Valid([]byte(text))
}
