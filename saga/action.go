package saga

import (
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
