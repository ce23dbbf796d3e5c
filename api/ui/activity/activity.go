// Package activity folds the journal of a session into what its page lists, in the order of the
// journal: the lives of the agent's process, its calls, its own steps, and between them its
// requests to language models, of which neighbours are one item.
package activity

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"recourse/internal/story"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/kinds/ask"
)

// Item is an item of the list. One of its fields is set.
type Item struct {
	Life   *Life
	Step   *Step
	Asks   []*Ask
	Moment *Moment
}

// Life is the beginning of a life, or a process that has got its own life again.
type Life struct {
	Number int
	Holder string // the name that the process has given itself; "": none
	Again  bool   // the process whose lease was lost has got its life again
	At     time.Time
	Ended  time.Time // zero: it goes on
	How    string    // how it has ended
}

// Step is a call of an action, or a step that the agent does itself.
type Step struct {
	Path      string
	Own       bool
	Life      int
	At        time.Time
	Identity  string // what makes two calls one, in words
	Input     json.RawMessage
	Effect    saga.OwnEffect // of an own step
	Resembles string         // the earlier call that it may repeat; "": none
}

// Ask is a request to a language model.
type Ask struct {
	Path      string
	Life      int
	At, Ended time.Time // Ended is zero while it is open
	Route     string
	Model     string
	Lane      string // of a parallel part of the agent; "": none
	Tokens    saga.TokensView
	Cost      string // "": unknown, or none
	Failed    string // why it has no answer; "": it has one, or is open
	Diverged  *saga.Divergence
}

// Moment is an event of the session as a whole, or of a step that is listed before.
type Moment struct {
	At     time.Time
	Path   string // of the step; "": none
	Text   string
	By     string // who has caused it; "": nobody
	Reason string
}

// mostFolded is the most requests to models in one item, so that a list of items can be cut into
// pages.
const mostFolded = 50

// Log is the activity of a session, as far as its journal was read. The zero value has read
// nothing. It is not safe for concurrent use.
type Log struct {
	Items    []Item
	Diverged []*Ask // requests that differ from those of earlier lives

	steps map[string]*Step
	asks  map[string]*Ask
	life  *Life // the last one
	lives int
	calls int
	owns  int
	open  bool // the last item is a group of requests that may get more
}

// Calls returns the number of calls.
func (l *Log) Calls() int { return l.calls }

// OwnSteps returns the number of own steps.
func (l *Log) OwnSteps() int { return l.owns }

// Asks returns the number of requests to models.
func (l *Log) Asks() int { return len(l.asks) }

// Last returns the last life; nil if no process has attached.
func (l *Log) Last() *Life { return l.life }

// Ask returns the request with this path; nil if there is none.
func (l *Log) Ask(path string) *Ask { return l.asks[path] }

// Step returns the call or own step with this path; nil if there is none.
func (l *Log) Step(path string) *Step { return l.steps[path] }

// Add adds the journal's next record. Data that cannot be read is left out.
func (l *Log) Add(r *journal.Record) {
	switch r.Kind {
	case journal.Attached:
		l.attached(r)
	case journal.Called:
		l.called(r)
	case journal.Outcome:
		l.outcome(r)
	case journal.Skipped, journal.Decided:
		if a := l.asks[r.Path]; a != nil && a.Ended.IsZero() {
			a.Ended, a.Failed = r.At, "it was not sent"
		}
	case journal.Woke:
		l.woke(r)
	case journal.Paused, journal.Resumed, journal.Cancelled, journal.Operator:
		l.command(r)
	case journal.Committed:
		l.moment(&Moment{At: r.At, Text: "The agent has committed the session"})
		l.endLife(r.At, "the session was committed")
	case journal.Finished:
		d, _ := history.DataOf[saga.FinishedData](r)
		l.endLife(r.At, "the session has ended")
		l.moment(&Moment{At: r.At, Text: "The session has ended as " + strings.ReplaceAll(string(d.Status), "_", " ")})
	}
}

func (l *Log) item(i Item) { l.Items, l.open = append(l.Items, i), false }

func (l *Log) moment(m *Moment) { l.item(Item{Moment: m}) }

func (l *Log) attached(r *journal.Record) {
	d, ok := history.DataOf[saga.AttachedData](r)
	if !ok {
		return
	}
	again := d.Life == l.lives
	if !again {
		l.endLife(r.At, "life "+strconv.Itoa(d.Life)+" has taken its place")
	}
	l.lives, l.life = d.Life, &Life{Number: d.Life, Holder: d.Holder, Again: again, At: r.At}
	l.item(Item{Life: l.life})
}

// endLife ends the last life, unless it has ended.
func (l *Log) endLife(at time.Time, how string) {
	if l.life != nil && l.life.Ended.IsZero() {
		l.life.Ended, l.life.How = at, how
	}
}

func (l *Log) called(r *journal.Record) {
	d, ok := history.DataOf[saga.CalledData](r)
	if !ok {
		return
	}
	if d.What == saga.ModelAsk {
		l.asked(r, &d)
		return
	}
	if l.steps[r.Path] != nil {
		l.moment(&Moment{At: r.At, Path: r.Path, Text: "The agent begins it again"})
		return
	}
	s := &Step{Path: r.Path, Own: d.What == saga.OwnStep, Life: d.Life, At: r.At, Identity: identity(&d), Input: d.Input, Resembles: d.Resembles}
	if d.Own != nil {
		s.Effect = d.Own.Effect
	}
	if s.Own {
		l.owns++
	} else {
		l.calls++
	}
	if l.steps == nil {
		l.steps = make(map[string]*Step)
	}
	l.steps[s.Path] = s
	l.item(Item{Step: s})
}

func (l *Log) asked(r *journal.Record, d *saga.CalledData) {
	a := &Ask{Path: r.Path, Life: d.Life, At: r.At, Diverged: d.Diverged}
	var q ask.Question
	if json.Unmarshal(d.Input, &q) == nil {
		a.Route, a.Model, a.Lane = q.Route, q.Model, q.Lane
	}
	if l.asks == nil {
		l.asks = make(map[string]*Ask)
	}
	l.asks[a.Path] = a
	if a.Diverged != nil {
		l.Diverged = append(l.Diverged, a)
	}
	if last := len(l.Items) - 1; l.open && len(l.Items[last].Asks) < mostFolded {
		l.Items[last].Asks = append(l.Items[last].Asks, a)
		return
	}
	l.item(Item{Asks: []*Ask{a}})
	l.open = true
}

func (l *Log) outcome(r *journal.Record) {
	a := l.asks[r.Path]
	if a == nil {
		return
	}
	d, _ := history.OutcomeOf(r) // what cannot be read is left out
	a.Ended, a.Cost = r.At, d.Cost
	if d.Tokens != nil {
		a.Tokens = *d.Tokens
	}
	if r.Class == journal.Succeeded {
		return
	}
	a.Failed = "it has no answer"
	if d.Error != nil {
		a.Failed = d.Error.Error()
	}
}

func (l *Log) woke(r *journal.Record) {
	d, _ := history.DataOf[saga.WokeData](r)
	switch d.Timer {
	case saga.TimerLease:
		l.endLife(r.At, "its process sent no heartbeat, and its lease has ended")
	case saga.TimerDetach:
		l.endLife(r.At, "its process has detached")
	case saga.TimerLost:
		l.moment(&Moment{At: r.At, Text: "No process of the agent has come back in time"})
	}
}

// commands describe the commands about the session as a whole.
var commands = map[journal.Kind]string{
	journal.Paused: "The session was paused", journal.Resumed: "The session was resumed", journal.Cancelled: "The session was aborted",
}

func (l *Log) command(r *journal.Record) {
	d, ok := history.DataOf[saga.CommandData](r)
	if !ok || d.Rejected != nil {
		return
	}
	text := commands[r.Kind]
	switch {
	case d.Session != nil:
		text = story.OfSession(d.Session)
		text = strings.ToUpper(text[:1]) + text[1:]
	case text == "":
		text = "Command of a person: " + strings.ReplaceAll(d.Kind, "_", " ")
		if d.Outcome != "" {
			text += " as " + strings.ReplaceAll(d.Outcome, "_", " ")
		}
	}
	l.moment(&Moment{At: r.At, Path: r.Path, Text: text, By: d.Actor, Reason: d.Reason})
}

// identity describes what makes two calls of an action one.
func identity(d *saga.CalledData) string {
	kind, rest, _ := strings.Cut(d.Identity, ":")
	switch {
	case d.What == saga.OwnStep:
		return ""
	case kind == "id":
		return "the id " + rest + ", which the agent has given"
	case kind == "once":
		return "the value of the action's once"
	case kind == "again":
		number, _, _ := strings.Cut(rest, ":")
		return "action and input, again " + number
	case kind == "read":
		return "action and input, and the place among its reads"
	}
	return "action and input"
}
