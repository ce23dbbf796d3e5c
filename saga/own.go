package saga

import (
	"encoding/json"
	"time"

	"recourse/journal"
)

// OwnKind is the kind of a step that the agent of a session does itself: it begins the step, does
// the work, and finishes the step. OwnPrefix begins the step's path, and its id follows.
const (
	OwnKind   = "own"
	OwnPrefix = "own."
)

// OwnEffect says what an own step changes outside.
type OwnEffect string

// The effects.
const (
	NoEffect     OwnEffect = "none"         // nothing that would have to be undone
	Undoable     OwnEffect = "undoable"     // its compensation undoes it, or a person does
	Irreversible OwnEffect = "irreversible" // nothing undoes it
)

// OwnStatus says how an attempt of an own step has ended.
type OwnStatus string

// The statuses.
const (
	OwnSucceeded OwnStatus = "succeeded"
	OwnFailed    OwnStatus = "failed"   // it certainly has no effect
	OwnInDoubt   OwnStatus = "in_doubt" // the agent does not know
)

// OwnData describes an own step, in the data of its first `called`.
type OwnData struct {
	Effect     OwnEffect `json:"effect"`
	InDoubt    Policy    `json:"in_doubt,omitempty"` // RetrySame or Ask; "" is completed by Complete
	Reserve    string    `json:"reserve,omitempty"`  // the most that an attempt may cost
	Compensate *OwnUndo  `json:"compensate,omitempty"`
}

// Complete writes the default for doubt: a step with an effect is not done twice without a person.
func (d *OwnData) Complete() {
	switch {
	case d.InDoubt != "":
	case d.Effect == NoEffect:
		d.InDoubt = RetrySame
	default:
		d.InDoubt = Ask
	}
}

// OwnUndo is the call of one of the session's actions that undoes an own step.
type OwnUndo struct {
	Use  string          `json:"use"` // with its version: refund@3
	With json.RawMessage `json:"with,omitempty"`
	// UndoWithin is Compensation.UndoWithin, in milliseconds.
	UndoWithin int64 `json:"undo_within_ms,omitempty"`
}

// Failure returns why the attempt has not succeeded; nil if it has.
func (c FinishStep) Failure() *Failure {
	switch {
	case c.Status == OwnSucceeded:
		return nil
	case c.Error != nil:
		return c.Error
	case c.Status == OwnFailed:
		return &Failure{Code: "own_failed", Title: "the agent says that it has failed"}
	}
	return &Failure{Code: "own_in_doubt", Title: "the agent does not know whether it has happened"}
}

// Result returns the output of an attempt that has succeeded; nil of another one.
func (c FinishStep) Result() json.RawMessage {
	switch {
	case c.Status != OwnSucceeded:
		return nil
	case c.Output == nil:
		return json.RawMessage("null")
	}
	return c.Output
}

// OwnIdentity returns the identity of an own step.
func OwnIdentity(id string) string { return OwnKind + ":" + id }

// ownStep stands for every own step in the definition of a session.
var ownStep = &Step{ID: OwnKind, Kind: OwnKind, Body: Own{}}

// OwnStep returns the step that an own step is for its session. undo replaces what d says about its
// compensation; nil: it does not.
func (s *Session) OwnStep(path string, d *OwnData, undo *OwnUndo) *Step {
	step := *ownStep
	step.ID, step.InDoubt = path, InDoubt{Policy: d.InDoubt, Declared: true}
	if undo == nil {
		undo = d.Compensate
	}
	switch {
	case d.Effect != Undoable:
	case undo == nil: // a person undoes it
		step.Compensate = &Compensation{Step: Step{ID: path, Kind: OwnKind}, On: []journal.Class{journal.Succeeded, journal.InDoubt}}
	default:
		if a := s.undoing(undo.Use); a != nil {
			c := *a.Undo
			c.ID, c.UndoWithin = path, time.Duration(undo.UndoWithin)*time.Millisecond
			step.Compensate = &c
		}
	}
	return &step
}

// undoing returns the action that undoes an own step; nil if the session does not have it.
func (s *Session) undoing(use string) *SessionAction {
	for _, a := range s.Actions { // any order
		if a.Step.Use.String() == use {
			return a
		}
	}
	return nil
}
