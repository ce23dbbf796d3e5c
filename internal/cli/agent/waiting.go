package agent

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"recourse/saga"
	"recourse/saga/machine"
)

// decisions names what a person decides, by what a call waits for, where that is no name by itself.
var decisions = map[string]string{"repeat": "a decision whether it repeats an earlier call", "doubt": "a decision whether it happened"}

// blocked says why a call or an own step has not ended; "" if it has.
func blocked(v machine.CallView) string {
	switch {
	case v.WaitsFor != "":
		return v.Path + " waits for " + cmp.Or(decisions[v.WaitsFor], v.WaitsFor)
	case v.Undo == machine.UndoRunning:
		return v.Path + " is being undone"
	case v.Status.Ended():
		return ""
	case v.Status == machine.CallWaiting:
		return v.Path + " is tried again later"
	case v.Action == "":
		return v.Path + " was begun by the agent and not finished"
	}
	return v.Path + " is running"
}

// waiting says in a line what a session waits for, and where a person decides about it. It is empty
// if all its calls and own steps have ended.
func (r *runner) waiting(steps []machine.CallView) string {
	var list []string
	for _, v := range steps {
		if text := blocked(v); text != "" {
			list = append(list, text)
		}
	}
	line := strings.Join(list, ", ")
	if slices.ContainsFunc(steps, decided) {
		line += "; decide at " + r.flags.Address() + "/inbox or with " + r.flags.Command(r.app, "inbox --saga "+r.session.ID)
	}
	return line
}

// decided reports whether a person decides about a call or an own step.
func decided(v machine.CallView) bool { return v.WaitsFor != "" }

// unheard says that the agent has ended too early for what a commit waits for.
func (r *runner) unheard(steps []machine.CallView) string {
	switch {
	case slices.ContainsFunc(steps, func(v machine.CallView) bool { return v.Action == "" && v.Status == machine.CallRunning }):
		return "; nobody finishes an own step of an agent that has ended: " + r.flags.Command(r.app, "sessions abort "+r.session.ID) + " aborts the session"
	case slices.ContainsFunc(steps, decided):
		return "; the agent has ended and does not get the result: with --park it would run again"
	}
	return ""
}

// quiet is how long an aborted session makes no progress before the command says what it waits for.
const quiet = 3 * time.Second

// stays says why an aborted session has not ended.
func (r *runner) stays(v *session) string {
	if v.Status == saga.PausedStatus {
		return "it is paused: " + r.flags.Command(r.app, "resume "+v.ID) + " resumes it"
	}
	line := "it is " + string(v.Status)
	if r.life != nil { // otherwise there is no token to read its calls with
		if steps, err := r.steps(); err == nil {
			line = cmp.Or(r.waiting(steps), line)
		}
	}
	return line + "; " + r.flags.Command(r.app, "show "+v.ID) + " shows why"
}
