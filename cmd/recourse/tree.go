package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"recourse/internal/story"
	"recourse/journal"
	"recourse/saga"
)

// row is a line of a frame.
type row struct {
	text  string
	tone  story.Tone
	step  bool
	moves bool // the step is running or waiting
}

// marks are the symbols of statuses of steps.
var marks = map[saga.StepStatus]row{
	saga.Pending:       {text: "·", tone: story.Dimmed},
	saga.StepRunning:   {text: "→", tone: story.Plain, moves: true},
	saga.StepWaiting:   {text: "…", tone: story.Plain, moves: true},
	saga.StepSucceeded: {text: "✓", tone: story.Good},
	saga.StepFailed:    {text: "✗", tone: story.Bad},
	saga.StepSkipped:   {text: "–", tone: story.Dimmed},
	saga.StepInDoubt:   {text: "?", tone: story.Doubt, moves: true},
	saga.StepHeld:      {text: "!", tone: story.Doubt, moves: true},
	saga.StepUndoing:   {text: "←", tone: story.Back, moves: true},
	saga.StepUndone:    {text: "↺", tone: story.Back},
	saga.StepUndoFail:  {text: "✗", tone: story.Bad, moves: true},
}

// drawing renders a saga as lines of a width.
func drawing(w *watched, now time.Time, columns int) ([]row, error) {
	views, err := saga.Steps(w.m, w.all)
	if err != nil {
		return nil, err
	}
	v := w.m.View()
	rows := title(v, now, columns)
	waits := w.waits(views)
	branches := layout(w.def)
	labels, names := make([]string, len(views)), 0
	for i, s := range views {
		labels[i] = branches.label(s.Path)
		names = max(names, utf8.RuneCountInString(labels[i]))
	}
	names = min(names, max(columns/2, 12))
	for i, s := range views {
		m := marks[s.Status]
		text := doing(s)
		if wait, ok := waits[s.Path]; ok && m.moves {
			text = strings.TrimSuffix(wait.text(now)+", "+text, ", ")
		}
		m.step, m.moves = true, m.moves && !branches.block(s.Path)
		m.text = strings.TrimRight(fmt.Sprintf("  %s %-*s  %s", m.text, names, story.Short(labels[i], names), text), " ")
		rows = append(rows, m)
	}
	if v.Reason != nil {
		rows = append(rows, row{text: "  why: " + v.Reason.Title, tone: story.Bad})
	}
	for _, left := range v.Residual {
		rows = append(rows, row{text: "  remains: " + left.Path + ": " + left.Why, tone: story.Bad})
	}
	for _, open := range v.Doubts {
		rows = append(rows, row{text: "  in doubt: " + open.Path + ": " + open.Why, tone: story.Doubt})
	}
	if v.Parent != "" && v.Status == saga.Waiting && len(waits) == 0 {
		rows = append(rows, row{text: "  waits for the end of its parent, saga " + v.Parent, tone: story.Dimmed})
	}
	return rows, nil
}

// title returns the lines above the steps: two if one is too narrow.
func title(v saga.View, now time.Time, columns int) []row {
	if v.EndedAt != nil {
		now = v.EndedAt.Time
	}
	about := fmt.Sprintf("%s  %s", v.Status, elapsed(now.Sub(v.CreatedAt.Time)))
	if c := money(v.Cost); c != "" {
		about += "  " + c
		if v.Cost.Budget != "" {
			about += " of " + v.Cost.Budget
		}
	}
	one := fmt.Sprintf("%s %s  %s", v.Definition, v.ID, about)
	if utf8.RuneCountInString(one) < columns {
		return []row{{text: one, tone: toneOf(v.Status)}}
	}
	return []row{{text: v.Definition + "  " + about, tone: toneOf(v.Status)}, {text: v.ID, tone: story.Dimmed}}
}

// elapsed formats the duration of a saga.
func elapsed(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%d.%d s", d/time.Second, d%time.Second/(100*time.Millisecond))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// doing describes the state or the result of a step.
func doing(s saga.StepView) string {
	var parts []string
	tries := map[journal.Way]int{}
	for _, at := range s.Attempts {
		if !at.Query {
			tries[at.Way]++
		}
	}
	switch s.Status {
	case saga.StepUndoing:
		parts = append(parts, "being undone")
	case saga.StepUndone:
		parts = append(parts, "undone")
	}
	if n := tries[journal.Do]; n > 1 {
		parts = append(parts, fmt.Sprintf("%d attempts", n))
	}
	if n := tries[journal.Undo]; n > 1 {
		parts = append(parts, fmt.Sprintf("%d attempts to undo it", n))
	}
	switch {
	case s.Error != nil:
		parts = append(parts, s.Error.Error())
	case len(s.Output) > 0 && string(s.Output) != "null":
		parts = append(parts, string(s.Output))
	}
	return strings.Join(parts, ", ")
}
