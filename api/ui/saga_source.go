package ui

import (
	"slices"
	"strings"

	"recourse/saga"
)

// maxSource is how many lines of a definition a page shows.
const maxSource = 2500

// sourceLine is a line of a definition beside the story.
type sourceLine struct {
	N    int
	Text string
	Mark saga.StepStatus // of the step that begins here; "" for none, or one that has not begun
	Now  bool            // of a step that is under way, or that waits
	Bad  bool            // of a step that went wrong
	Path string          // of the step that begins here
}

// worst orders statuses of one step in several rounds of a loop: what is shown is what wants
// attention most.
var worst = []saga.StepStatus{saga.Pending, saga.StepSkipped, saga.StepSucceeded, saga.StepUndone, saga.StepFailed, saga.StepWaiting, saga.StepRunning,
	saga.StepUndoing, saga.StepUndoFail, saga.StepInDoubt, saga.StepHeld}

// source lists the definition's lines, those of steps with where the steps stand.
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
	status := map[string]saga.StepStatus{}
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
			if s := status[id]; s != saga.Pending && s != "" {
				l.Mark, l.Path = s, path[id]
			}
		} else if l.Text != "" && !strings.HasPrefix(l.Text, " ") && !strings.HasPrefix(l.Text, "-") && !strings.HasPrefix(l.Text, "\t") {
			at = "" // a key of the document
		}
		if at == "" || strings.TrimSpace(l.Text) == "" {
			continue
		}
		switch status[at] {
		case saga.StepRunning, saga.StepWaiting, saga.StepInDoubt, saga.StepHeld, saga.StepUndoing:
			l.Now = !d.ended()
		case saga.StepFailed, saga.StepUndoFail:
			l.Bad = true
		}
	}
	return lines
}
