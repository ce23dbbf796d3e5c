package main

import (
	"fmt"
	"strings"

	"recourse/internal/story"
	"recourse/journal"
	"recourse/saga"
)

// lines shows a saga line by line.
func lines(a *app) func(*local, []journal.Record) {
	var t *story.Teller
	return func(l *local, fresh []journal.Record) {
		if t == nil {
			t = story.New(l.def)
		}
		for _, r := range fresh {
			for _, line := range t.Tell(r) {
				a.printf("%s\n", line.Format(t.Width(), a.colour))
			}
		}
	}
}

// tree shows a saga as its steps, redrawn in place as they change.
func tree(a *app) func(*local, []journal.Record) {
	drawn := 0
	columns := a.columns()
	return func(l *local, _ []journal.Record) {
		views, err := saga.Steps(l.def, l.m, l.all)
		if err != nil {
			return // the machine took the records, so they can be read
		}
		if drawn > 0 {
			a.printf("\x1b[%dA\x1b[J", drawn)
		}
		rows := drawing(l, views)
		for _, r := range rows {
			a.printf("%s\n", story.Paint(story.Short(r.text, columns-1), r.tone, a.colour))
		}
		drawn = len(rows)
	}
}

type row struct {
	text string
	tone story.Tone
}

// marks of a step's statuses.
var marks = map[saga.StepStatus]row{
	saga.Pending:       {"·", story.Dimmed},
	saga.StepRunning:   {"→", story.Plain},
	saga.StepWaiting:   {"…", story.Plain},
	saga.StepSucceeded: {"✓", story.Good},
	saga.StepFailed:    {"✗", story.Bad},
	saga.StepSkipped:   {"–", story.Dimmed},
	saga.StepInDoubt:   {"?", story.Doubt},
	saga.StepHeld:      {"!", story.Doubt},
	saga.StepUndoing:   {"←", story.Back},
	saga.StepUndone:    {"↺", story.Back},
	saga.StepUndoFail:  {"✗", story.Bad},
}

func drawing(l *local, views []saga.StepView) []row {
	v := l.m.View()
	head := fmt.Sprintf("%s %s  %s", v.Definition, v.ID, v.Status)
	if c := money(v.Cost); c != "" {
		head += "  " + c
	}
	rows := []row{{head, toneOf(v.Status)}}
	names := 0
	for _, s := range views {
		names = max(names, len(s.Path))
	}
	for _, s := range views {
		m := marks[s.Status]
		rows = append(rows, row{strings.TrimRight(fmt.Sprintf("  %s %-*s  %s", m.text, names, s.Path, doing(s)), " "), m.tone})
	}
	if v.Reason != nil {
		rows = append(rows, row{"  why: " + v.Reason.Title, story.Bad})
	}
	for _, left := range v.Residual {
		rows = append(rows, row{"  remains: " + left.Path + ": " + left.Why, story.Bad})
	}
	if v.WakeAt != nil {
		rows = append(rows, row{"  wakes up at " + clock(v.WakeAt.Time), story.Dimmed})
	}
	return rows
}

// doing says what a step is at, or came to.
func doing(s saga.StepView) string {
	var parts []string
	tries := map[journal.Way]int{}
	for _, at := range s.Attempts {
		if !at.Query {
			tries[at.Way]++
		}
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
