package saga

import (
	"encoding/json"
	"strconv"

	"recourse/saga/expr"
)

// ActionInput is the root that an action's templates read as `input`. No name in an expression is
// like it.
const ActionInput = "the action's input"

// Action is a compiled action: the body of a step, registered under a name. It is immutable and
// safe to share.
type Action struct {
	Name        string
	Description string
	Version     int    // 0: not published
	SHA256      string // hex, of the source
	Source      []byte

	Input    Schema   // nil: anything goes
	Step     *Step    // what a step that uses the action takes over, without an id
	Keys     []string // the keys of a step that the document sets; what it leaves out the saga's defaults decide
	Secrets  []string // names that its requests may use
	VarsUsed []string // names of vars that its expressions read, sorted
	Currency string   // of its costs; "" when there are none

	// Warnings are findings that publishing survives.
	Warnings []Finding
}

// Use says that a step is an action's, and what the action is given.
type Use struct {
	Action  string
	Version int // 0: not published
	With    *expr.Template
	Input   Schema // nil: anything goes
}

// codeInput is the failure of a step whose `with` breaks its action's input.
const codeInput = "bad_input"

// String names the action as definitions do: refund@3; "" for none.
func (u *Use) String() string {
	switch {
	case u == nil:
		return ""
	case u.Version == 0:
		return u.Action
	}
	return u.Action + "@" + strconv.Itoa(u.Version)
}

// input renders what the action is given, defaults filled in.
func (u *Use) input(env expr.Env) (json.RawMessage, error) {
	if u.Input == nil {
		return u.With.JSON(env)
	}
	given, err := u.With.Value(env)
	if err != nil {
		return nil, err
	}
	filled, wrong := u.Input.Apply(given)
	if len(wrong) == 0 {
		return encode(filled), nil
	}
	if doc := encode(given); expr.IsPartial(env) && expr.HasPlaceholder(doc) {
		return doc, nil // a placeholder is text, whatever its value will be
	}
	f := &Failure{Code: codeInput, Title: "`with` breaks the input of action " + u.String()}
	if TooCostly(wrong) {
		f.Code, f.Title = CodeTooCostly, "`with` could not be checked by the input of action "+u.String()
	}
	for i, w := range wrong {
		if i > 0 {
			f.Detail += "; "
		}
		f.Detail += w.Pointer + ": " + w.Detail
	}
	return nil, f
}

// actionInput finds what the templates of a step, its compensation or its status query, whose side
// is s, read as their action's input: what the first intent has recorded, or what `with` gives now.
// A compensation that is part of the step's action sees the input of the step itself, and so does a
// status query. nil: there is no action.
func (m *Machine) actionInput(n *node, s *track, step *Step, e *env) (json.RawMessage, error) {
	if step.Use == nil && s != &n.forward && n.step.Use != nil {
		s, step, e = &n.forward, n.step, m.env(n)
	}
	if step.Use == nil || s.actionInput != nil {
		return s.actionInput, nil
	}
	return step.Use.input(e)
}
