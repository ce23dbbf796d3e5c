package saga

import (
	"slices"
	"strconv"
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
	SHA256      string // the source's SHA-256 in hex
	Source      []byte

	Steps   []*Step
	Finally []*Step
	Session *Session // not nil: a session, whose steps come by record
	Action  string   // refund@3, of a saga that only runs this action; "" for others

	Input     Schema         // nil: any input is accepted
	Output    *expr.Template // nil: the last step's output
	Gives     *expr.Type     // the type of the output, as far as it is known
	Budget    *Budget        // nil: no budget
	Timeout   time.Duration  // 0: no timeout
	Retention time.Duration  // how long an ended saga is kept, or Forever; 0: the server's default
	Unique    *expr.Template // nil: not unique
	Vars      []Var          // in the document's order
	Secrets   []string       // names that its requests may use
	Stop      bool           // on_failure: stop
	Currency  string         // the currency of the budget and of every cost; "" if there is neither
	// Checkpoint says which commits a request waits for. "" is CheckpointStep.
	Checkpoint Checkpoint
	// Decides has the steps whose results conditions read. With CheckpointDecision, requests wait
	// for their outcomes.
	Decides map[string]bool
	// Reads has the ids of the steps whose results a step's templates and conditions read, by the
	// step's id. Those of its compensation are not among them, those of the steps in it are.
	Reads map[string][]string
	// UndoReads has the same of the compensations of a step and of the steps in it.
	UndoReads map[string][]string
	// FreshUses has the ids of the steps with FreshFor whose answers a step of the top level uses,
	// directly or through other steps, in the definition's order, by the step's id.
	FreshUses map[string][]string
	Triggers  []*Trigger     // events and schedules that start its sagas
	VarsUsed  []string       // names of vars that expressions read, sorted; a start pins their values
	Pins      map[string]int // versions of the actions that steps use without naming a version

	Runs     []Mention // the definitions that its steps run, as written: name, or name@v3
	Mentions []Mention // where the document, or an action that it uses, names each of Secrets

	// ByID contains every step, also nested steps and those of finally. A compensation has the id
	// of its step.
	ByID map[string]*Step
	// Warnings are findings that do not prevent publishing.
	Warnings []Finding
}

// Forever is the Retention of sagas that are never deleted.
const Forever time.Duration = -1

// Step returns the step that a path names, in any iteration. It returns nil if there is none.
func (d *Definition) Step(path string) *Step {
	if d.Session != nil && strings.HasPrefix(path, OwnPrefix) {
		return ownStep
	}
	return d.ByID[StepID(path)]
}

// StepID returns the id of the step that a path names: "fetch" for "pages[3].fetch", and "pages"
// for the iteration "pages[3]".
func StepID(path string) string {
	path = path[strings.LastIndexByte(path, '.')+1:]
	id, _, _ := strings.Cut(path, "[")
	return id
}

// Checkpoint says how much of a saga's progress may be lost, and then repeated, when the process
// that runs it dies. A request that may leave an effect, or that costs something, always waits for
// its commit.
type Checkpoint string

// The checkpoints.
const (
	CheckpointStep Checkpoint = "step" // each intent is durable before its request is sent
	// CheckpointPhase lets a read be sent before its intent is durable, but not before every
	// earlier step of the top level has ended durably.
	CheckpointPhase Checkpoint = "phase"
	// CheckpointDecision lets a read be sent before its intent is durable, but not before the
	// outcomes that a decision depends on are durable.
	CheckpointDecision Checkpoint = "decision"
)

// Var is a variable with a constant value in the definition. The server's value of the same name
// takes precedence.
type Var struct {
	Name  string
	Value any // a value of package expr
}

// Finding is a remark about a definition, with its place.
type Finding struct {
	Pointer string `json:"pointer,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Code    string `json:"code"`
	Detail  string `json:"detail"`
}

// Mention is a place where a document names something that only a server can have.
type Mention struct {
	Name string
	At   Finding
}

// Schema validates values.
type Schema interface {
	// Apply returns v with the schema's defaults filled in, or what is wrong with it. Values are
	// those of package expr. Apply does not change v itself.
	Apply(v any) (any, []Finding)
	// Document returns the JSON Schema itself, as a value of package expr. It must not be changed.
	Document() any
}

// Budget is the most that a saga may cost.
type Budget struct {
	Amount *retry.Money // nil: only tokens are limited
	Tokens int64        // 0: no limit
	Ask    bool         // on_exceed: ask
}

// Step is one step, or the body of a compensation.
type Step struct {
	ID   string
	Kind string // http, set, …; for a step that uses an action, the action's kind
	Body Body
	Use  *Use // nil: the definition itself says what the step does
	Line int

	When        *expr.Program  // nil: always
	Output      *expr.Template // over result; nil: the kind's own output
	Expect      Expect
	Retry       retry.Policy
	Timeout     time.Duration // of one attempt
	Deadline    time.Duration // for all attempts, from the first intent; 0: none
	Cost        Cost
	Idempotency idempotency.Placement
	Key         *expr.Template // replaces the derived key; nil: the key is derived
	InDoubt     InDoubt
	KeyWindow   time.Duration
	Continue    bool // on_error: continue
	// Hold says that the step waits for a person instead of failing (on_error: hold), and HoldFor
	// after which time it tries again by itself; 0: never.
	Hold    bool
	HoldFor time.Duration
	Pivot   bool
	Approve bool // a person has to approve the request before it is sent: a tool that a model calls
	// Covers has the ids of the steps whose requests an approval shows, and CoveredBy those of the
	// approvals that show this step's. All of them are in the same list of steps.
	Covers    []string
	CoveredBy []string

	// FreshFor is the age from which the answer of a read is too old for a request that depends on
	// it; 0: any age will do. OnChange says what follows when it is read again and has changed.
	FreshFor time.Duration
	OnChange OnChange
	// FreshReads has the ids of the steps with FreshFor on which the request of this step depends,
	// in the definition's order: they are read again before it is sent, if they are too old.
	FreshReads []string

	Compensate     *Compensation // nil: none declared
	NoCompensation bool          // `compensate: none` was written
}

// Expect says which answers count as success.
type Expect struct {
	Status []StatusRange // empty: 2xx
	Schema Schema        // over the body; nil: any body
	That   *expr.Program // over result; nil: always true
	Error  string        // the error code if That is false; "" for expectation_failed
	// Refused is evaluated over result first: if it is true, the remote service says that it has
	// done nothing. nil: the kind alone says which answers are refusals.
	Refused *expr.Program
}

// StatusRange is a range of HTTP statuses, both ends included: 200–299 for 2xx.
type StatusRange struct{ From, To int }

// Holds reports whether the status counts as success.
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

// Cost says how much an attempt costs.
type Cost struct {
	Fixed   *retry.Money  // per attempt
	From    *expr.Program // over result: a number in Reserve's currency
	Reserve *retry.Money  // with From: the highest possible cost
}

// Policy says how a step in doubt is resolved.
type Policy string

// The policies of in_doubt.
const (
	RetrySame Policy = "retry" // send the same request with the same key
	Ask       Policy = "ask"   // ask a person, in the inbox
	Fail      Policy = "fail"  // end the step in doubt
	VerifyIt  Policy = "verify"
)

// InDoubt is a step's policy for doubt.
type InDoubt struct {
	Policy    Policy
	Verify    *Verify // with VerifyIt
	Otherwise Policy  // if the status check is inconclusive: RetrySame, Ask or Fail
	Declared  bool    // the author wrote it; it is not a default
}

// Resends reports whether a request that is in doubt may be sent again without a person: the author
// says so, or a second send of it has no second effect. The policy must be RetrySame.
func (d *InDoubt) Resends(r *Request) bool { return d.Declared || r.Resendable() }

// Verify is a status check: it asks whether a request whose answer was lost took effect.
type Verify struct {
	Call   *Step          // a read-only call; its templates see the forward key as `key`
	Found  *expr.Program  // over result
	Output *expr.Template // the step's output if found; nil: the body
	After  time.Duration  // how long after the attempt's timeout its request may still arrive
}

// OnChange says what follows when the answer of a read with fresh_for has changed.
type OnChange string

// The values of on_change.
const (
	ChangeFails OnChange = "fail" // the saga fails, and undoes what was done
	ChangeAsks  OnChange = "ask"  // the approval that stands between is asked again
)

// Order moves a compensation to the beginning or the end of the reverse order.
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
	NeedsOutput bool // its templates read `output`: a step in doubt must be settled before it is undone
	// OutputPaths are the paths of `output` without which its templates cannot be rendered.
	OutputPaths [][]string
	// UndoWithin is how long after the step's end a saga that has succeeded may still be undone. 0:
	// it is not undone once the saga has succeeded.
	UndoWithin time.Duration
}

// Applies reports whether the compensation is declared for steps that ended with the class.
func (c *Compensation) Applies(class journal.Class) bool {
	return slices.Contains(c.On, class)
}

// Signals returns the sorted names of the signals that the definition's steps wait for.
func (d *Definition) Signals() []string {
	var names []string
	for _, s := range d.ByID { // any order
		if r, ok := s.Body.(Receiver); ok {
			names = append(names, r.Signal())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TooCostly reports whether findings say that a value could not be validated by its schema.
func TooCostly(findings []Finding) bool {
	return len(findings) > 0 && findings[0].Code == CodeTooCostly
}

// Details joins the first five findings of a schema into one line.
func Details(findings []Finding) string {
	var details []string
	for _, f := range findings {
		if len(details) == 5 {
			details = append(details, "…")
			break
		}
		details = append(details, strings.TrimPrefix(f.Pointer+": ", ": ")+f.Detail)
	}
	return strings.Join(details, "; ")
}

// CodeTooCostly says that validating a value by its schema would take more steps than one
// validation may take, so that it was not validated. A finding with this code is the only one.
const CodeTooCostly = "schema_too_costly"

// SplitQuery splits the path of a record into the path of the step and whether the record is about
// its status check.
func SplitQuery(path string) (base string, query bool) {
	name, index := splitIndex(path)
	base, query = strings.CutSuffix(name, verifySuffix)
	if query && strings.HasSuffix(base, "]") { // a step in a loop whose id is verify
		return path, false
	}
	return base + index, query
}

// QueryPath returns the path of the records of a step's status check: refund.verify, or
// refund.verify[0] for the call refund[0] of a session. The path refund[0].verify could be that of
// a step in a loop.
func QueryPath(path string) string {
	name, index := splitIndex(path)
	return name + verifySuffix + index
}

// splitIndex cuts the index of a session's call from its path.
func splitIndex(path string) (name, index string) {
	if !strings.HasSuffix(path, "]") {
		return path, ""
	}
	at := max(strings.LastIndexByte(path, '['), 0)
	return path[:at], path[at:]
}

// verifySuffix is appended to the name in a step's path to make the path of its status check.
const verifySuffix = ".verify"

// RunTarget splits the target of a run: "refund" or "refund@v3". Version 0 is the newest.
func RunTarget(text string) (name string, version int, ok bool) {
	name, number, pinned := strings.Cut(text, "@")
	if !pinned {
		return name, 0, true
	}
	v, err := strconv.Atoi(strings.TrimPrefix(number, "v"))
	return name, v, err == nil && v > 0
}

// Filler is implemented by schemas of objects that have defaults.
type Filler interface {
	// Fill returns v with the defaults filled in, even if v is invalid. It does not change v
	// itself. It returns false if that would take more steps than one validation may take: defaults
	// of the items of defaults multiply with each level.
	Fill(v any) (filled any, ok bool)
}
