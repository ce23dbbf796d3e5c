package saga

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"recourse/compensation"
	"recourse/journal"
	"recourse/retry"
)

// Time is an instant in the data of records: RFC 3339, milliseconds, UTC.
type Time struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(make([]byte, 0, 32), `"`+journal.TimeFormat+`"`), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339Nano, s)
	t.Time = at.UTC()
	return err
}

// Version is the number of a definition's version, written "v3". 0 is an unpublished version, in a
// plan.
type Version int

// String writes the version as users see it.
func (v Version) String() string { return "v" + strconv.Itoa(int(v)) }

// MarshalText implements encoding.TextMarshaler.
func (v Version) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (v *Version) UnmarshalText(b []byte) error {
	digits, ok := strings.CutPrefix(string(b), "v")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 {
		return fmt.Errorf("version %.20q is not of the form v3", b)
	}
	*v = Version(n)
	return nil
}

// StartedData is the data of `started`: everything that the saga depends on, pinned.
type StartedData struct {
	Definition string                     `json:"definition"`
	Version    Version                    `json:"version"`
	SHA256     string                     `json:"sha256"`
	Input      json.RawMessage            `json:"input"`
	Vars       map[string]json.RawMessage `json:"vars,omitempty"`
	Budget     *BudgetData                `json:"budget,omitempty"` // replaces the definition's
	Labels     map[string]string          `json:"labels,omitempty"`
	Actor      string                     `json:"actor,omitempty"`
	RetryOf    string                     `json:"retry_of,omitempty"`
	Reason     string                     `json:"reason,omitempty"`
	Parent     *ParentData                `json:"parent,omitempty"`
	BelongsTo  *BelongsTo                 `json:"belongs_to,omitempty"` // of a session
	// RetryFrom is the step of RetryOf from which this saga goes on. Of the steps before it, this
	// saga takes over the outcomes of those in Reused.
	RetryFrom string   `json:"retry_from,omitempty"`
	Reused    []string `json:"reused,omitempty"`
	// UndoOf is the saga that this one undoes, after it has succeeded.
	UndoOf string `json:"undo_of,omitempty"`
	// Fork is set for a saga that begins as another one was after one of its records.
	Fork *ForkData `json:"fork,omitempty"`
	// Origin is the whole journal of the saga that this one undoes or goes on from, so that nothing
	// else is needed for it. For a fork, it ends with the record after which the fork goes on.
	Origin  []journal.Record `json:"origin,omitempty"`
	Session *SessionData     `json:"session,omitempty"` // of a session
	Action  string           `json:"action,omitempty"`  // refund@3, of a saga that only runs this action
	// Traceparent is the span from which the saga was started (see ParseTraceparent); "": the saga
	// has a trace of its own.
	Traceparent string `json:"traceparent,omitempty"`
	// Latest is the latest time that the database's clock can have shown: the saga's timeout, and a
	// session's wait for a process, count from then. nil: from the record's time.
	Latest *Time `json:"latest,omitempty"`
}

// Nested returns the records within the data, so that they can be remembered, too.
func (d *StartedData) Nested() []journal.Record { return d.Origin }

// Starter returns the actor who started the saga; for a child saga, the actor who started the
// outermost saga.
func (d StartedData) Starter() string {
	if d.Parent != nil {
		return d.Parent.Starter
	}
	return d.Actor
}

// MostTokens is the largest budget of tokens: sums of budgets, and what is used of them, fit into
// an int64, and into the exact integers of other languages (RFC 7493).
const MostTokens = 1_000_000_000_000_000

// BudgetData is a budget as requests and records write it.
type BudgetData struct {
	Amount   string `json:"amount,omitempty"` // "2.00"
	Currency string `json:"currency,omitempty"`
	Tokens   int64  `json:"tokens,omitempty"`
}

// Effects says what a fork does in place of sending a request that has an effect, or publishing an
// event.
type Effects string

// The values of Effects.
const (
	HoldEffects Effects = "hold" // it asks a person first
	StubEffects Effects = "stub" // it takes a stub for its outcome
	RealEffects Effects = "real" // it sends it
)

// ForkData says of which saga another one is a fork, and how the fork deals with effects.
type ForkData struct {
	Of      string  `json:"of"` // a saga's id
	Effects Effects `json:"effects"`
	// Stubs are the outcomes of steps, by path or by id; of a session's calls, by identity or by
	// action. Those of steps that had ended before replace their outputs.
	Stubs map[string]Stub `json:"stubs,omitempty"`
}

// Stub is the outcome that a step of a fork has without doing anything: an output, or for a failed
// step an error.
type Stub struct {
	Output json.RawMessage `json:"output,omitempty"`
	Error  *Failure        `json:"error,omitempty"`
}

// IntentData is the data of `intent`.
type IntentData struct {
	Request *Request `json:"request,omitempty"`
	// RequestHash is Request.Hash of the request, with secrets as references.
	RequestHash string `json:"request_hash,omitempty"`
	Reserve     string `json:"reserve,omitempty"` // the highest possible cost of the attempt
	WakeAt      *Time  `json:"wake_at,omitempty"` // for a wait
	// ReserveTokens is the most tokens that the attempt may use, input and output together.
	ReserveTokens int64    `json:"reserve_tokens,omitempty"`
	Awaited       *Awaited `json:"awaited,omitempty"` // for a wait for a message
	// Input is the input of the step's action, in the first intent. Later templates of the step
	// read it, too.
	Input json.RawMessage `json:"input,omitempty"`
	// Latest is the latest time that the database's clock can have shown. A wait, and the step's
	// deadline, count from then. nil: from the time of the record, or for a wait of the one before.
	Latest *Time `json:"latest,omitempty"`
}

// Next says what follows an outcome. It is decided when the outcome is written, and recorded, so
// that replaying a journal needs no policy.
type Next string

// The values of Next.
const (
	NextDone             Next = ""                  // the step has succeeded, or is undone
	NextRetry            Next = "retry"             // another attempt at RetryAt
	NextVerify           Next = "verify"            // a status check from RetryAt on
	NextAwaitResolution  Next = "await_resolution"  // the inbox: a person resolves the doubt
	NextAwaitCredentials Next = "await_credentials" // the inbox: a person fixes the credentials
	NextBlock            Next = "block"             // the inbox: failed after the pivot, or a compensation was refused
	NextFail             Next = "fail"              // the step has failed and certainly has no effect
	NextInDoubt          Next = "in_doubt"          // the step has ended in doubt
	NextHold             Next = "hold"              // the inbox: its attempts or its budget are used up
	NextConclusive       Next = "conclusive"        // for a status check: conclusive, see Found
	NextInconclusive     Next = "inconclusive"      // for a status check: inconclusive
	NextAwaitParent      Next = "await_parent"      // a child has reached its goal and waits for its parent
	NextBegin            Next = "begin"             // an own step in doubt, which its agent may begin again
)

// OutcomeData is the data of `outcome`.
type OutcomeData struct {
	StatusCode int             `json:"status_code,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Error      *Failure        `json:"error,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
	Cost       string          `json:"cost,omitempty"` // absent: unknown, the reservation stays
	RetryAt    *Time           `json:"retry_at,omitempty"`
	Next       Next            `json:"next,omitempty"`
	Found      *bool           `json:"found,omitempty"`       // for a status check
	Tokens     *TokensView     `json:"tokens,omitempty"`      // absent: unknown, the reservation stays
	RetryState json.RawMessage `json:"retry_state,omitempty"` // makes the next attempt's request differ from this one
	Event      json.RawMessage `json:"event,omitempty"`       // for an emit: the event
	// AlreadyGone says, for an undo by DELETE, that there was nothing left to remove.
	AlreadyGone bool `json:"already_gone,omitempty"`
	// NeverStarted is the id of a saga that was to be undone and was never started.
	NeverStarted string `json:"never_started,omitempty"`
	// Compensate says how to undo an own step, if its agent said so when it finished the step.
	Compensate *OwnUndo `json:"compensate,omitempty"`
	// Hint replaces that of the request, which was not known when the intent was written.
	Hint Hint `json:"hint,omitempty"`
	// Changed says where the output of a step that was read again (fresh_for) differs from the one
	// before; "": it does not.
	Changed string `json:"changed,omitempty"`
	// Stubbed says, in a fork, that the outcome is a stub: nothing was done.
	Stubbed bool `json:"stubbed,omitempty"`
	// Kept is the part of the reservation for a child saga that stays (ChildCost.Reserved). For
	// tokens it is Tokens.Reserved.
	Kept string `json:"kept,omitempty"`
	// Latest is set if the step is held and RetryAt is not set, as in DecidedData.
	Latest *Time `json:"latest,omitempty"`
}

// DecidedData is the data of `decided`.
type DecidedData struct {
	Branch *int              `json:"branch,omitempty"` // for a switch; -1: none
	Enter  bool              `json:"enter,omitempty"`  // for another block
	Items  []json.RawMessage `json:"items,omitempty"`  // for a foreach
	Last   *bool             `json:"last,omitempty"`   // for an iteration: whether it is the last
	Error  *Failure          `json:"error,omitempty"`  // for an iteration that has failed
	By     string            `json:"by,omitempty"`     // verify, key_window, undo, parent or own
	Next   Next              `json:"next,omitempty"`
	Output json.RawMessage   `json:"output,omitempty"`
	Detail string            `json:"detail,omitempty"`
	// Latest is the latest time that the database's clock can have shown. A step that is held tries
	// again hold_for after that. nil: after the record's time.
	Latest *Time `json:"latest,omitempty"`
}

// WokeData is the data of `woke`.
type WokeData struct {
	Timer string `json:"timer"` // backoff, sleep, verify, hold, fresh_for, timeout
	Due   Time   `json:"due"`
	// Latest is set if a session has lost its process: the latest time that the database's clock
	// can have shown. The wait for another one counts from then, nil: from the record's time.
	Latest *Time `json:"latest,omitempty"`
}

// TimerHold is the timer of a step that is held (on_error: hold) and tries again.
const TimerHold = "hold"

// TimerFresh is the timer of a step whose answer has become older than its fresh_for while a
// request that depends on it was to be sent.
const TimerFresh = "fresh_for"

// CompensatingData is the data of `compensating`: the plan, which does not change afterwards.
type CompensatingData struct {
	Reason   Reason                 `json:"reason"`
	Plan     []string               `json:"plan"` // paths, in the order in which they are undone
	Residual []compensation.Residue `json:"residual,omitempty"`
}

// FinishedData is the data of `finished`.
type FinishedData struct {
	Status      Status                 `json:"status"`
	Reason      *Reason                `json:"reason,omitempty"`
	Output      json.RawMessage        `json:"output,omitempty"`
	OutputError *Failure               `json:"output_error,omitempty"`
	Residual    []compensation.Residue `json:"residual,omitempty"`
	Doubts      []compensation.Residue `json:"doubts,omitempty"` // see Machine.doubts
}

// Reason is why a saga did not reach its goal.
type Reason struct {
	Code   string `json:"code"` // step_failed, cancelled, timeout, budget_exhausted, rejected, stale, operator
	Step   string `json:"step,omitempty"`
	Error  string `json:"error,omitempty"` // the code of the step's error: http_402, or the author's expect.error
	Title  string `json:"title"`
	Detail string `json:"detail,omitempty"`
}

// Text returns the reason with its detail, such as what the person wrote who cancelled the saga.
func (r *Reason) Text() string { return strings.TrimSuffix(r.Title+": "+r.Detail, ": ") }

// CommandData is the data of the records of commands: cancelled, paused, resumed, operator. A
// refused command is an operator record with Rejected.
type CommandData struct {
	Message string            `json:"message"`
	Kind    string            `json:"command"`
	Actor   string            `json:"actor,omitempty"`
	Reason  string            `json:"reason,omitempty"`
	Mode    string            `json:"mode,omitempty"`
	Outcome string            `json:"outcome,omitempty"`
	Output  json.RawMessage   `json:"output,omitempty"`
	NewKey  bool              `json:"new_key,omitempty"`
	Budget  *BudgetData       `json:"budget,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Shown is, for an approval, the hash of what was shown. Output is the data of the decision.
	Shown    string   `json:"shown,omitempty"`
	Role     string   `json:"role,omitempty"` // and the actor's role, because approvers may be roles
	Rejected *Failure `json:"rejected,omitempty"`
	// Session is the session that a Reserve or a Settle is about.
	Session *SessionPart `json:"session,omitempty"`
	// Latest is set if a session waits for a process once more, as in WokeData.
	Latest *Time `json:"latest,omitempty"`
}

// SessionPart is what a saga reserves of its budget for a session that belongs to it, or what that
// session has cost.
type SessionPart struct {
	ID   string      `json:"id"`
	Key  string      `json:"key"`            // under which the session is started
	Part *BudgetData `json:"part,omitempty"` // nil: the saga has no budget, and gives none
	Cost *ChildCost  `json:"cost,omitempty"` // in a Settle
}

// Status is a saga's status.
type Status string

// The statuses. The last three are terminal.
const (
	Running      Status = "running"
	Waiting      Status = "waiting"
	PausedStatus Status = "paused"
	Undoing      Status = "compensating"
	Stuck        Status = "stuck"
	Succeeded    Status = "succeeded"
	Compensated  Status = "compensated"
	Failed       Status = "failed"
)

// Terminal reports whether the saga has ended.
func (s Status) Terminal() bool { return s == Succeeded || s == Compensated || s == Failed }

// Awaited is what a step waits for, as its intent records it.
type Awaited struct {
	Signal   string        `json:"signal,omitempty"`   // the signal's name
	Approval *ApprovalData `json:"approval,omitempty"` // if the step waits for an approval
}

// ApprovalData describes an approval.
type ApprovalData struct {
	Title     string          `json:"title"`
	Approvers []string        `json:"approvers,omitempty"` // names or roles; empty: everybody who may approve
	FourEyes  bool            `json:"four_eyes,omitempty"` // the person who started the saga may not approve
	Shown     json.RawMessage `json:"shown,omitempty"`
	// Covers are the steps whose requests the approval shows. A request of theirs that differs from
	// it makes the approval stale.
	Covers []Covered `json:"covers,omitempty"`
	// Stale says why the approval is asked again, after an earlier decision; nil: it is not.
	Stale *Stale `json:"stale,omitempty"`
	// ShownHash is the SHA-256, in hex, of the definition's SHA-256, the title and Shown, separated
	// by newlines; if there are Covers, of a fourth text, too: their JSON.
	ShownHash string          `json:"shown_hash"`
	Form      json.RawMessage `json:"form,omitempty"` // a JSON Schema of the data that comes with the approval
}

// Hash computes ShownHash.
func (d *ApprovalData) Hash(definition string) string {
	text := slices.Concat([]byte(definition+"\n"+d.Title+"\n"), d.Shown)
	if len(d.Covers) > 0 {
		text = slices.Concat(text, []byte("\n"), Encode(d.Covers))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Covered is a step that an approval covers, as it would run when the approval was asked.
type Covered struct {
	Path    string `json:"path"`
	Kind    string `json:"kind"`
	Use     string `json:"use,omitempty"`     // the action that it uses, with its version
	Skipped bool   `json:"skipped,omitempty"` // its `when` was false
	If      string `json:"if,omitempty"`      // its `when`, if the result was unknown
	// Request is what it sends, with secrets as references, and Key its idempotency key. Hash is
	// Request.SendHash of both. Without a request, Note says why there is none.
	Request *Request     `json:"request,omitempty"`
	Key     string       `json:"key,omitempty"`
	Hash    string       `json:"hash,omitempty"`
	Note    string       `json:"note,omitempty"`
	Undo    *CoveredUndo `json:"compensation,omitempty"`
}

// CoveredUndo is the compensation of a step that an approval covers. Values that only the step's
// end gives are placeholders, as in a plan. It is shown, but nothing depends on it: an undo waits
// for nobody.
type CoveredUndo struct {
	Kind    string   `json:"kind"`
	If      string   `json:"if,omitempty"` // its `when`
	Request *Request `json:"request,omitempty"`
	Key     string   `json:"key,omitempty"`
	Note    string   `json:"note,omitempty"`
}

// Stale says why an approval that was decided is asked again.
type Stale struct {
	Step   string `json:"step"` // the path of the step whose request differs, or whose answer has changed
	Detail string `json:"detail"`
	// Answer says that it is the step's answer that has changed (fresh_for), not its request.
	Answer bool `json:"answer,omitempty"`
}

// SignalData is the data of `signalled`.
type SignalData struct {
	Message string          `json:"message"`
	Name    string          `json:"name"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Actor   string          `json:"actor,omitempty"`
}

// Payer returns the saga whose budget pays for this one, its parent or the saga to which it
// belongs, and what that saga has reserved for it; nil: it has no budget. "": there is no such
// saga.
func (d *StartedData) Payer() (id string, part *BudgetData) {
	switch {
	case d.Parent != nil:
		return d.Parent.Saga, d.Parent.Budget
	case d.BelongsTo != nil:
		return d.BelongsTo.Saga, d.BelongsTo.Budget
	}
	return "", nil
}

// ParentData names the step that started a saga.
type ParentData struct {
	Saga  string `json:"saga"`
	Path  string `json:"path"`
	Depth int    `json:"depth"` // 1: the parent has no parent
	// Starter is the actor who started the outermost saga.
	Starter string `json:"starter,omitempty"`
	// Budget is what the parent has reserved for this saga, a limit that nobody raises; nil: the
	// parent has no budget.
	Budget *BudgetData `json:"budget,omitempty"`
}

// BelongsTo names the saga to which a session belongs. It is the session's parent only as far as
// money goes: neither decides what becomes of the other.
type BelongsTo struct {
	Saga string `json:"saga"`
	Key  string `json:"key"` // under which that saga has reserved the budget
	// Budget is what that saga has reserved for the session, a limit that nobody raises; nil: that
	// saga has no budget.
	Budget *BudgetData `json:"budget,omitempty"`
}

// MaxDepth is the largest depth of sagas that start other sagas.
const MaxDepth = 16

// Summary is the part of a saga's row that lists need in addition to its columns.
type Summary struct {
	Reason   *Reason                `json:"reason,omitempty"`
	Cost     CostView               `json:"cost"`
	Residual []compensation.Residue `json:"residual,omitempty"`
	Doubts   []compensation.Residue `json:"doubts,omitempty"`
}

// NoCost is the cost of a saga that has cost nothing and has no budget.
var NoCost = CostView{Spent: "0", Reserved: "0", Wasted: "0"}

var noSummary = Encode(Summary{Cost: NoCost})

// Stored returns the summary as rows have it: nil for a saga without a reason, a cost or anything
// else to say, as most are.
func (s Summary) Stored() json.RawMessage {
	if text := Encode(s); !bytes.Equal(text, noSummary) {
		return text
	}
	return nil
}

// ReadSummary reads the summary of a row.
func ReadSummary(stored json.RawMessage) (Summary, error) {
	s := Summary{Cost: NoCost}
	if len(stored) == 0 {
		return s, nil
	}
	return s, json.Unmarshal(stored, &s)
}

// CostView is the cost of a saga.
type CostView struct {
	Currency string `json:"currency,omitempty"`
	Spent    string `json:"spent"`
	Reserved string `json:"reserved"`
	Wasted   string `json:"wasted"`
	Budget   string `json:"budget,omitempty"`
	// Children is the part of Spent and Tokens that child sagas have spent; nil for nothing.
	Children *ChildrenView `json:"children,omitempty"`
	Tokens   TokensView    `json:"tokens"`
	// Models is the part that is known to belong to language models, by model name.
	Models map[string]ModelView `json:"models,omitempty"`
}

// ChildrenView is what a saga's children, with their own children, have cost.
type ChildrenView struct {
	Spent  string     `json:"spent"`
	Tokens TokensView `json:"tokens"`
}

// Own returns the cost without that of child sagas, so that a sum over sagas counts each cost once.
func (c CostView) Own() CostView {
	if c.Children == nil {
		return c
	}
	spent, err1 := retry.Total(c.Spent, c.Currency)
	children, err2 := retry.Total(c.Children.Spent, c.Currency)
	if err1 == nil && err2 == nil {
		c.Spent = spent.Sub(children).Decimal()
	}
	c.Tokens.Input -= c.Children.Tokens.Input
	c.Tokens.Output -= c.Children.Tokens.Output
	c.Children = nil
	return c
}

// TokensView counts tokens.
type TokensView struct {
	Input    int64 `json:"input"`
	Output   int64 `json:"output"`
	Reserved int64 `json:"reserved,omitempty"`
	Budget   int64 `json:"budget,omitempty"` // 0: no limit
}

// ModelView is the use that a saga has made of one language model.
type ModelView struct {
	Input  int64  `json:"input"` // tokens
	Output int64  `json:"output"`
	Spent  string `json:"spent"`
}

// Duration writes a duration as definitions do: "1h30m", "2d", "500ms".
func Duration(d time.Duration) string {
	if d >= 24*time.Hour && d%(24*time.Hour) == 0 {
		return strconv.Itoa(int(d/(24*time.Hour))) + "d"
	}
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if len(s) > len(zero) && s[len(s)-len(zero):] == zero {
			s = s[:len(s)-len(zero)+1]
		}
	}
	return s
}

// Approval is the output of a decided approval step. All of its fields are always present, so that
// a later step that reads a missing comment reads null and does not fail.
type Approval struct {
	Decision string          `json:"decision"` // approved or rejected
	By       string          `json:"by"`
	At       Time            `json:"at"`
	Comment  *string         `json:"comment"` // nil: none
	Data     json.RawMessage `json:"data"`    // nil: none
}
