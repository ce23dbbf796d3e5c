package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"recourse/internal/cli"
	"recourse/internal/cli/view"
	"recourse/internal/story"
	"recourse/saga/machine"
)

// callLines prints a line when a call has ended, waits for a person, or was undone.
type callLines struct {
	note  func(format string, args ...any)
	found bool              // the calls of the first look were made before
	said  map[string]string // what was printed of each call: its status, and what it waits for
}

func (l *callLines) show(v *session, calls []machine.CallView) {
	if l.said == nil {
		l.said = make(map[string]string, len(calls))
		if l.found && len(calls) > 0 {
			l.note("%s before: %s", cli.Count(len(calls), "call"), counts(calls))
			for _, c := range calls {
				l.said[c.Path] = news(c)
			}
			return
		}
	}
	for _, c := range calls {
		if is := news(c); is != "" && is != l.said[c.Path] {
			l.said[c.Path] = is
			l.note("%s (%s): %s; key %s", c.Path, c.Action, stateOf(c, v.Cost.Currency), c.Key)
		}
	}
}

func (l *callLines) end() {}

// news returns what the view says of a call's progress; "" while it is in progress.
func news(c machine.CallView) string {
	switch {
	case c.WaitsFor != "":
		return "waits for " + c.WaitsFor
	case c.Status.Ended():
		return strings.ReplaceAll(string(c.Status), "_", " ")
	}
	return ""
}

// stateOf describes a call of which there is news.
func stateOf(c machine.CallView, currency string) string {
	parts := []string{news(c)}
	if c.Error != nil {
		parts[0] += ": " + story.Short(c.Error.Title, 100)
	}
	if cost := costOf(c, currency); cost != "" {
		parts = append(parts, cost)
	}
	if c.Undo == machine.UndoAvailable {
		parts = append(parts, "an abort undoes it")
	}
	return strings.Join(parts, ", ")
}

func costOf(c machine.CallView, currency string) string {
	if strings.Trim(c.Cost, "0.") == "" {
		return ""
	}
	return strings.TrimSpace(c.Cost + " " + currency)
}

// statuses are those of calls, in the order in which counts lists them.
var statuses = []machine.CallStatus{machine.CallRunning, machine.CallWaiting, machine.CallSucceeded, machine.CallFailed, machine.CallInDoubt, machine.CallUndone}

// counts says how many of the calls have each status.
func counts(calls []machine.CallView) string {
	var parts []string
	for _, s := range statuses {
		n := 0
		for _, c := range calls {
			if c.Status == s {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(s), "_", " ")))
		}
	}
	return strings.Join(parts, ", ")
}

var marks = map[machine.CallStatus]view.Row{
	machine.CallRunning:   view.Marks[machine.StepRunning],
	machine.CallWaiting:   view.Marks[machine.StepWaiting],
	machine.CallSucceeded: view.Marks[machine.StepSucceeded],
	machine.CallFailed:    view.Marks[machine.StepFailed],
	machine.CallInDoubt:   view.Marks[machine.StepInDoubt],
	machine.CallUndone:    view.Marks[machine.StepUndone],
}

// frame renders a session: a title, the calls, and what an abort would undo. If there is no room
// for all calls, those that have ended first are folded into one line.
func frame(v *session, calls []machine.CallView, columns, height int) []view.Row {
	title := fmt.Sprintf("── %s  life %d  %s", v.Session.Name, v.Session.Life, v.Status)
	if spent := view.Money(v.Cost); spent != "" || v.Cost.Budget != "" {
		title += "  spent " + cmp.Or(spent, "0")
		if v.Cost.Budget != "" {
			title += " of " + v.Cost.Budget + " " + v.Cost.Currency
		}
	}
	title += " "
	rows := []view.Row{{Text: title + strings.Repeat("─", max(columns-len([]rune(title)), 0)), Tone: story.Dimmed}}
	shown, folded := fold(calls, height-2)
	if len(folded) > 0 {
		rows = append(rows, view.Row{Text: fmt.Sprintf("  %s more: %s", cli.Count(len(folded), "call"), counts(folded)), Tone: story.Dimmed})
	}
	cells := make([][]string, len(shown))
	for i, c := range shown {
		state, undo := strings.ReplaceAll(string(c.Status), "_", " "), ""
		if c.WaitsFor != "" {
			state = "waits for " + c.WaitsFor
		}
		if c.Undo == machine.UndoRunning {
			state = "being undone"
		}
		if c.Undo == machine.UndoAvailable {
			undo = "can be undone"
		}
		cells[i] = []string{marks[c.Status].Text + " " + c.Path, c.Action, state, costOf(c, v.Cost.Currency), undo, c.Key}
	}
	table := cli.FitTable([]cli.Column{{Least: 12}, {Extra: true}, {Least: 9}, {}, {Extra: true}, {Extra: true}}, cells, columns)
	for i, line := range table[1:] {
		rows = append(rows, view.Row{Text: line, Tone: marks[shown[i].Status].Tone})
	}
	var undo []string
	for _, c := range slices.Backward(calls) {
		if c.Undo == machine.UndoAvailable {
			undo = append(undo, c.Path)
		}
	}
	last := "an abort undoes nothing"
	if undo != nil {
		last = "an abort undoes " + strings.Join(undo, ", ")
	}
	if !v.Status.Terminal() && v.Reason == nil {
		rows = append(rows, view.Row{Text: "  " + last, Tone: story.Back})
	}
	for i := range rows {
		rows[i].Text = story.Short(rows[i].Text, columns)
	}
	return rows
}

// fold chooses the calls to show in so many lines: those in progress first, then the newest.
func fold(calls []machine.CallView, lines int) (shown, folded []machine.CallView) {
	if len(calls) <= lines {
		return calls, nil
	}
	room := max(lines-1, 0)
	chosen := make([]bool, len(calls))
	for _, open := range []bool{true, false} {
		for i, c := range slices.Backward(calls) {
			if room > 0 && !chosen[i] && (!open || !c.Status.Ended() || c.Undo == machine.UndoRunning) {
				chosen[i] = true
				room--
			}
		}
	}
	for i, c := range calls {
		if chosen[i] {
			shown = append(shown, c)
		} else {
			folded = append(folded, c)
		}
	}
	return shown, folded
}
