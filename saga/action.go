package saga

import (
	"encoding/json"
	"fmt"
	"strconv"

	"recourse/retry"
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

	Input    Schema    // nil: any input is accepted
	Step     *Step     // the part of a step that the action provides, without an id
	Keys     []string  // the keys of a step that the document sets; the saga's defaults decide the others
	Secrets  []string  // names that its requests may use
	Mentions []Mention // where the document names each of Secrets
	VarsUsed []string  // names of vars that its expressions read, sorted
	Currency string    // of its costs; "" if it has none

	Agents *AgentPolicy   // how sessions may call it; nil: they may not
	Once   *expr.Template // over `input`: the value that identifies a call in a session; nil: its input does
	// Irreversible says that the effect cannot be undone: the author declares it, or the action
	// writes and has no compensation for calls that succeeded.
	Irreversible bool

	// Warnings are findings that do not prevent publishing.
	Warnings []Finding
}

// AgentPolicy says how sessions may call an action. The zero policy lets them call it without an
// approval.
type AgentPolicy struct {
	Approve bool // each call needs a person's approval
	// ApproveWhen is true for calls that need an approval, over `input` and `session` (see
	// [SessionRoot]); nil: none.
	ApproveWhen *expr.Program
	Limits      []CallLimit // per session
}

// SessionRoot is the root `session` of [AgentPolicy.ApproveWhen].
func SessionRoot(calls int, spent retry.Money) map[string]any {
	return map[string]any{"calls": json.Number(strconv.Itoa(calls)), "spent": json.Number(spent.Decimal())}
}

// CallLimit is a limit for the calls of one action in one session: their number, or a sum.
type CallLimit struct {
	Calls int           // at most so many calls; 0: this limit is a sum
	Sum   *expr.Program // over `input`: what a call adds to the sum
	Max   retry.Money   // the most that the sum may reach; without a currency
}

// Adds returns what a call adds to the sum of a limit. A value that is not a number, or is
// negative, is an error: it would make room for more calls.
func (l *CallLimit) Adds(env expr.Env) (retry.Money, error) {
	v, err := l.Sum.Eval(env)
	if err != nil {
		return retry.Money{}, err
	}
	n, ok := v.(json.Number)
	if !ok {
		return retry.Money{}, fmt.Errorf("the value for a limit must be a number, not %s", expr.KindsOf(v))
	}
	m, err := retry.Amount(string(n), "")
	if err != nil {
		return retry.Money{}, fmt.Errorf("the value for a limit must be a number of at least 0 with at most 30 digits, not %.40s", n)
	}
	return m, nil
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
