package view

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"recourse/internal/story"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// Row is a line of a frame.
type Row struct {
	Text  string
	Tone  story.Tone
	step  bool // the line is a step
	Moves bool // the step is running or waiting
}

// Marks are the symbols of statuses of steps.
var Marks = map[machine.StepStatus]Row{
	machine.Pending:       {Text: "·", Tone: story.Dimmed},
	machine.StepRunning:   {Text: "→", Tone: story.Plain, Moves: true},
	machine.StepWaiting:   {Text: "…", Tone: story.Plain, Moves: true},
	machine.StepSucceeded: {Text: "✓", Tone: story.Good},
	machine.StepFailed:    {Text: "✗", Tone: story.Bad},
	machine.StepSkipped:   {Text: "–", Tone: story.Dimmed},
	machine.StepInDoubt:   {Text: "?", Tone: story.Doubt, Moves: true},
	machine.StepHeld:      {Text: "!", Tone: story.Doubt, Moves: true},
	machine.StepUndoing:   {Text: "←", Tone: story.Back, Moves: true},
	machine.StepUndone:    {Text: "↺", Tone: story.Back},
	machine.StepUndoFail:  {Text: "✗", Tone: story.Bad, Moves: true},
}

// drawing renders a saga as lines of a width.
func drawing(w *Saga, now time.Time, columns int) ([]Row, error) {
	views, err := machine.Steps(w.Machine, w.Records)
	if err != nil {
		return nil, err
	}
	v := w.Machine.View()
	rows := title(v, now, columns)
	waits := w.Waits(views)
	branches := layout(w.Def)
	labels, names := make([]string, len(views)), 0
	for i, s := range views {
		labels[i] = branches.label(s.Path)
		names = max(names, utf8.RuneCountInString(labels[i]))
	}
	names = min(names, max(columns/2, 12))
	for i, s := range views {
		m := Marks[s.Status]
		text := doing(s)
		if wait, ok := waits[s.Path]; ok && m.Moves {
			text = strings.TrimSuffix(wait.Text(now)+", "+text, ", ")
		}
		m.step, m.Moves = true, m.Moves && !branches.block(s.Path)
		m.Text = strings.TrimRight(fmt.Sprintf("  %s %-*s  %s", m.Text, names, story.Short(labels[i], names), text), " ")
		rows = append(rows, m)
	}
	if v.Reason != nil {
		rows = append(rows, Row{Text: "  why: " + v.Reason.Title, Tone: story.Bad})
	}
	for _, left := range v.Residual {
		rows = append(rows, Row{Text: "  remains: " + left.Path + ": " + left.Why, Tone: story.Bad})
	}
	for _, doubt := range v.Doubts {
		rows = append(rows, Row{Text: "  in doubt: " + doubt.Path + ": " + doubt.Why, Tone: story.Doubt})
	}
	if v.Parent != "" && v.Status == saga.Waiting && len(waits) == 0 && !strings.HasPrefix(v.Definition, saga.SessionPrefix) {
		rows = append(rows, Row{Text: "  waits for the end of its parent, saga " + v.Parent, Tone: story.Dimmed})
	}
	return rows, nil
}

// title returns the lines above the steps: two if one is too narrow.
func title(v machine.View, now time.Time, columns int) []Row {
	if v.EndedAt != nil {
		now = v.EndedAt.Time
	}
	about := fmt.Sprintf("%s  %s", v.Status, elapsed(now.Sub(v.CreatedAt.Time)))
	if c := Money(v.Cost); c != "" {
		about += "  " + c
		if v.Cost.Budget != "" {
			about += " of " + v.Cost.Budget
		}
	}
	one := fmt.Sprintf("%s %s  %s", v.Definition, v.ID, about)
	if utf8.RuneCountInString(one) < columns {
		return []Row{{Text: one, Tone: Tone(v.Status)}}
	}
	return []Row{{Text: v.Definition + "  " + about, Tone: Tone(v.Status)}, {Text: v.ID, Tone: story.Dimmed}}
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
func doing(s machine.StepView) string {
	var parts []string
	tries := map[journal.Way]int{}
	for _, at := range s.Attempts {
		if !at.Query {
			tries[at.Way]++
		}
	}
	switch s.Status {
	case machine.StepUndoing:
		parts = append(parts, "being undone")
	case machine.StepUndone:
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
