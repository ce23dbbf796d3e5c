package api

import (
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/saga"
	"recourse/saga/kinds/ask"
	"recourse/saga/machine"
)

// Replay answers for an API that lets an agent run against the recorded journal of one session
// alone. Such an API adds no step to the journal, so that nothing can be sent. Its methods may be
// called concurrently.
type Replay interface {
	// Found is told which recorded step answers a request of the agent: a call, an own step, or a
	// request to a model. ended is false if the journal does not have the step's end.
	Found(path string, ended bool)
	// Missing returns the error of a request that no recorded step answers. prompt is that of a
	// saga.AskModel, and nil for other commands. refusal is how the session refuses the command
	// after its last record; nil: it would accept it.
	Missing(cmd saga.Command, prompt *ask.Prompt, refusal *machine.Refusal) error
	// Failed is told why a request could not be answered, if that is an error of the program.
	Failed(err error)
	// Undo is told that the agent has asked for the undo of a step, which the journal has.
	Undo(path string)
	// Undone reports whether the agent sees a step that was undone as undone.
	Undone(path string) bool
}

// askReplay answers a command from the journal, as ask does. ok is false if the API replays
// nothing, or the command adds no step: to attach, to commit, to abort.
func (l *live) askReplay(cmd saga.Command) (path string, ok bool, _ error) {
	r := l.s.cfg.Replay
	if r == nil {
		return "", false, nil
	}
	path, pending, refusal := l.m.Ask(uuid.Nil, cmd)
	switch o := cmd.Do.(type) {
	case saga.CallAction:
		if refusal == nil && !pending {
			r.Found(path, l.m.CallStatus(path).Ended())
			return path, true, nil
		}
	case saga.BeginStep:
		path = saga.OwnPrefix + o.ID
		switch status := l.m.OwnStatus(path); {
		case refusal == nil && !pending:
			r.Found(path, true)
			return path, true, nil
		case status != "" && !status.Ended() && (refusal == nil || !refusal.Invalid):
			r.Found(path, false)
			return "", true, fail("unavailable", "the replayed journal does not have the end of step %s", path).of(l.id).after(1)
		}
	case saga.UndoCall:
		if undo := l.undoOf(cmd.Path); undo == machine.UndoDone || undo == machine.UndoRunning {
			r.Undo(cmd.Path)
			return cmd.Path, true, nil
		}
	default:
		return "", false, nil
	}
	return "", true, r.Missing(cmd, nil, refusal)
}

// undoOf says whether a call or an own step was undone.
func (l *live) undoOf(path string) machine.CallUndo {
	if v, ok := machine.CallOf(l.m, l.log, path); ok {
		return v.Undo
	}
	v, _ := machine.OwnOf(l.m, l.log, strings.TrimPrefix(path, saga.OwnPrefix))
	return v.Undo
}

// replayed reports whether the agent is told that a recorded step answers its request. A replayed
// agent sees what its first process saw.
func (s *server) replayed(recorded bool) bool { return recorded && s.cfg.Replay == nil }

// asThen shows a replayed agent a step that was undone as it was before, until it asks for the
// undo.
func (s *server) asThen(path string, status *machine.CallStatus, undo *machine.CallUndo) {
	if r := s.cfg.Replay; r != nil && *status == machine.CallUndone && !r.Undone(path) {
		*status, *undo = machine.CallSucceeded, machine.UndoAvailable
	}
}
