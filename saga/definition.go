package saga

import (
	"strings"
	"time"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/retry"
	"recourse/saga/expr"
)

// Definition is a compiled saga definition. It is immutable and safe to share.
type Definition struct {
	Name        string
	Description string
	SHA256      string // hex, of the source
	Source      []byte

	Steps   []*Step
	Finally []*Step

	Input     Schema         // nil: anything goes
	Output    *expr.Template // nil: the last step's output
	Gives     *expr.Type     // what is known of the output
	Budget    *Budget        // nil: none
	Timeout   time.Duration  // 0: none
	Retention time.Duration  // how long a saga is kept after its end, or Forever; 0: as the server says
	Unique    *expr.Template // nil: none
	Vars      []Var          // the definition's own, in its order
	Secrets   []string       // names that its requests may use
	Stop      bool           // on_failure: stop
	Currency  string         // of the budget and of every cost; "" when there is neither
	// Checkpoint says which commits are waited for; "" is CheckpointStep.
	Checkpoint Checkpoint
	Decides    map[string]bool // steps whose results conditions read: with CheckpointDecision their outcomes are waited for
	Triggers   []*Trigger      // what starts its sagas besides people
	VarsUsed   []string        // names of vars that expressions read, sorted: what a start pins
	Pins       map[string]int  // versions of the actions that steps use without naming one

	Runs     []Mention // the definitions that its steps run, as they write them: name, or name@v3
	Mentions []Mention // where the document, or an action that it uses, names each of Secrets

	// ByID finds every step, nested ones and finally too. Compensations have their step's id.
	ByID map[string]*Step
	// Warnings are findings that publishing survives.
	Warnings []Finding
}

// Forever is a Retention without an end.
const Forever time.Duration = -1

// Step returns the step that a path names, whatever iterations it is in; nil if there is none.
func (d *Definition) Step(path string) *Step {
	return d.ByID[StepID(path)]
}

// StepID is the id of the step that a path names: "fetch" of "pages[3].fetch", and
// "pages" of the iteration "pages[3]".
func StepID(path string) string {
	path = path[strings.LastIndexByte(path, '.')+1:]
	id, _, _ := strings.Cut(path, "[")
	return id
}

// Checkpoint says how much of a saga's progress may be lost with the process that runs it, and is
// then done again. A request that may leave an effect, or costs something, waits for its commit all
// the same.
type Checkpoint string

// The checkpoints.
const (
	CheckpointStep     Checkpoint = "step"     // each intent is durable before its request leaves
	CheckpointPhase    Checkpoint = "phase"    // a read may leave ahead of it, but not before what stands at the top level ahead of its step has ended durably
	CheckpointDecision Checkpoint = "decision" // a read may leave ahead of it, but not before a durable outcome where that decides something
)

// Var is a variable with a constant value that a definition brings itself. The
// server's value of the same name wins.
type Var struct {
	Name  string
	Value any // as package expr has values
}

// Finding is something said about a definition, with its place.
type Finding struct {
	Pointer string `json:"pointer,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Code    string `json:"code"`
	Detail  string `json:"detail"`
}

// Mention is where a document names something that only a server can have.
type Mention struct {
	Name string
	At   Finding // its place
}

// Schema judges a value.
type Schema interface {
	// Apply returns v with the schema's defaults filled in, or what is wrong with
	// it. Values are as package expr has them; v itself is not changed.
	Apply(v any) (any, []Finding)
}

// Budget is the most a saga may cost.
type Budget struct {
	Amount *retry.Money // nil: only tokens are limited
	Tokens int64        // 0: not limited
	Ask    bool         // on_exceed: ask
}

// Step is one step, or the body of a compensation.
type Step struct {
	ID   string
	Kind string // http, set, …; of an action that is used, its
	Body Body
	Use  *Use // nil: what the step does is written in the definition
	Line int

	When        *expr.Program  // nil: true
	Output      *expr.Template // over result; nil: the kind's own
	Expect      Expect
	Retry       retry.Policy
	Timeout     time.Duration // one attempt
	Deadline    time.Duration // all attempts, from the first intent; 0: none
	Cost        Cost
	Idempotency idempotency.Placement
	Key         *expr.Template // replaces the derived key; nil: derived
	InDoubt     InDoubt
	KeyWindow   time.Duration
	Continue    bool // on_error: continue
	Pivot       bool

	Compensate     *Compensation // nil: none declared
	NoCompensation bool          // `compensate: none` was written
}

// Expect is what an answer must hold to count as success.
type Expect struct {
	Status []StatusRange // empty: 2xx
	Schema Schema        // over the body; nil: anything
	That   *expr.Program // over result; nil: true
	Error  string        // the error code when That is false; "" for expectation_failed
}

// StatusRange is a range of HTTP statuses, both ends included: 200–299 for 2xx.
type StatusRange struct{ From, To int }

// Holds reports whether the status is one that counts as success.
func (e *Expect) Holds(status int) bool {
	if len(e.Status) == 0 {
		return status >= 200 && status <= 299
	}
	for _, r := range e.Status {
		if r.From <= status && status <= r.To {
			return true
		}
	}
	return false
}

// Cost is what one attempt costs.
type Cost struct {
	Fixed   *retry.Money  // per attempt
	From    *expr.Program // over result: a number in Reserve's currency
	Reserve *retry.Money  // with From: the most it may be
}

// Policy says what to do about a step in doubt.
type Policy string

// The policies of in_doubt.
const (
	RetrySame Policy = "retry" // the same request with the same key
	Ask       Policy = "ask"   // the inbox
	Fail      Policy = "fail"  // end the step, in doubt
	VerifyIt  Policy = "verify"
)

// InDoubt is a step's policy for doubt.
type InDoubt struct {
	Policy    Policy
	Verify    *Verify // with VerifyIt
	Otherwise Policy  // when verify gives no answer: RetrySame, Ask or Fail
	Declared  bool    // written by the author, not a default
}

// Verify is a status query: did the lost request take effect?
type Verify struct {
	Call   *Step          // a read-only call; its templates see the forward key as `key`
	Found  *expr.Program  // over result
	Output *expr.Template // the step's output when found; nil: the body
	After  time.Duration  // how long past the attempt's time-out an older request may still arrive
}

// Order lifts a compensation out of the reverse order.
type Order string

// The orders.
const (
	Reverse Order = ""
	First   Order = "first"
	Last    Order = "last"
)

// Compensation undoes a step.
type Compensation struct {
	Step                        // its kind, body, expect, retry, timeout, cost, idempotency
	On          []journal.Class // Succeeded, InDoubt or both
	Order       Order
	NeedsOutput bool // its templates read `output`: under doubt the step is settled first
}

// Applies reports whether the compensation is declared for a step that ended as c.
func (c *Compensation) Applies(class journal.Class) bool {
	for _, on := range c.On {
		if on == class {
			return true
		}
	}
	return false
}
