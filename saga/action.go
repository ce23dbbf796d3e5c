package saga

import (
	"encoding/json"
	"strconv"

	"recourse/saga/expr"
)

// ActionInput is the root that an action's templates read as `input`. No expression can contain
// this name.
const ActionInput = "the action's input"

// Action is a compiled action: the body of a step, registered under a name. It is immutable and
// safe to share.
type Action struct {
	Name        string
	Description string
	Version     int    // 0: not published
	SHA256      string // the source's SHA-256 in hex
	Source      []byte

	Input    Schema   // nil: any input is accepted
	Step     *Step    // the part of a step that the action provides, without an id
	Keys     []string // the keys of a step that the document sets; the saga's defaults decide the others
	Secrets  []string // names that its requests may use
	VarsUsed []string // names of vars that its expressions read, sorted
	Currency string   // of its costs; "" if it has none

	// Warnings are findings that do not prevent publishing.
	Warnings []Finding
}

// Use says which action a step uses, and with which input.
type Use struct {
	Action  string
	Version int // 0: not published
	With    *expr.Template
	Input   Schema // nil: any input is accepted
}

// codeInput is the failure of a step whose `with` breaks its action's input.
const codeInput = "bad_input"

// String returns the action as definitions write it: refund@3; "" for none.
func (u *Use) String() string {
	switch {
	case u == nil:
		return ""
	case u.Version == 0:
		return u.Action
	}
	return u.Action + "@" + strconv.Itoa(u.Version)
}

// input renders the action's input with defaults filled in.
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
		return doc, nil // a placeholder is a text, whatever the type of its value will be
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

// actionInput returns the value that templates read as their action's input. s is the track of the
// step, its compensation or its status check. The value is the one that the first intent recorded,
// or else what `with` evaluates to now. A compensation or status check that belongs to the step's
// action reads the input of the step itself. nil means that there is no action.
func (m *Machine) actionInput(n *node, s *track, step *Step, e *env) (json.RawMessage, error) {
	if step.Use == nil && s != &n.forward && n.step.Use != nil {
		s, step, e = &n.forward, n.step, m.env(n)
	}
	if step.Use == nil || s.actionInput != nil {
		return s.actionInput, nil
	}
	return step.Use.input(e)
}
