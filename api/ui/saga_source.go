package ui

import (
	"slices"
	"strings"

	"recourse/saga"
	"recourse/saga/machine"
)

// maxSource is the maximum of lines of a definition on a page.
const maxSource = 2500

// sourceLine is a line of a definition, next to the story.
type sourceLine struct {
	N    int
	Text string
	Mark machine.StepStatus // status of the step that begins here; "" for none, or if it has not started
	Now  bool               // its step is running or waiting
	Bad  bool               // its step has failed or is in doubt
	Path string             // path of the step that begins here
}

// worst orders statuses: if a step has several iterations, the line shows the one that needs
// attention most.
var worst = []machine.StepStatus{machine.Pending, machine.StepSkipped, machine.StepSucceeded, machine.StepUndone, machine.StepFailed, machine.StepWaiting, machine.StepRunning,
	machine.StepUndoing, machine.StepUndoFail, machine.StepInDoubt, machine.StepHeld}

// source lists the definition's lines with the statuses of their steps.
func (d *sagaPage) source() []sourceLine {
	if d.Source == "" {
		return nil
	}
	list := strings.Split(strings.TrimRight(d.Source, "\n"), "\n")
	lines := make([]sourceLine, min(len(list), maxSource))
	for i := range lines {
		lines[i] = sourceLine{N: i + 1, Text: strings.TrimRight(list[i], "\r")}
	}
	if d.Def == nil {
		return lines
	}
	status := map[string]machine.StepStatus{}
	path := map[string]string{}
	for _, s := range d.Steps {
		id := saga.StepID(s.Path)
		if had, ok := status[id]; !ok || slices.Index(worst, s.Status) >= slices.Index(worst, had) {
			status[id], path[id] = s.Status, s.Path
		}
	}
	begins := map[int]string{}
	for id, s := range d.Def.ByID { // any order
		begins[s.Line] = id
	}
	at := ""
	for i := range lines {
		l := &lines[i]
		if id, ok := begins[l.N]; ok {
			at = id
			if s := status[id]; s != machine.Pending && s != "" {
				l.Mark, l.Path = s, path[id]
			}
		} else if l.Text != "" && !strings.HasPrefix(l.Text, " ") && !strings.HasPrefix(l.Text, "-") && !strings.HasPrefix(l.Text, "\t") {
			at = "" // a top-level key
		}
		if at == "" || strings.TrimSpace(l.Text) == "" {
			continue
		}
		switch status[at] {
		case machine.StepRunning, machine.StepWaiting, machine.StepInDoubt, machine.StepHeld, machine.StepUndoing:
			l.Now = !d.ended()
		case machine.StepFailed, machine.StepUndoFail:
			l.Bad = true
		}
	}
	return lines
}
