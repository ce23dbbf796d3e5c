package saga

import (
	"encoding/json"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga/expr"
)

// Body is the part of a step that its kind owns. It is one of the shapes below;
// the machine knows shapes, not kinds.
type Body any

// Value is the shape of kinds that only compute: set, fail. They have no intent.
type Value interface {
	// Eval returns the step's output, or an error that fails the step. An error of
	// type *Failure gives the code and title.
	Eval(env expr.Env) (json.RawMessage, error)
}

// Wait is the shape of kinds that wait for a time: sleep.
type Wait interface {
	// Due returns when the wait that begins at `from` ends.
	Due(env expr.Env, from time.Time) (time.Time, error)
}

// Call is the shape of kinds that send requests: http, task, run, llm. Rendering and judging are
// pure and part of the body; the engine's [Caller] performs the request.
type Call interface {
	// Request renders the request. It reads each root of env once, and the same values give the
	// same bytes. Secrets stay references (see expr's sealed rendering). The caller may change the
	// result. An error means that nothing can be sent: the step fails without an effect.
	Request(env expr.Env) (Request, error)
	// ReadOnly reports whether the request has no effect (GET, HEAD), so that it is never in doubt.
	ReadOnly() bool
	// Judge returns the meaning of the answer to r, if the step's `expect` does not determine it.
	Judge(r Request, a Answer) Verdict
}

// Reader is implemented by calls whose output is not simply the answer's body: llm, task.
type Reader interface {
	// Read returns the meaning of a complete answer with an expected status: Succeeded with the
	// step's default output, or a failure. It is called instead of Judge.
	Read(r Request, a Answer) Verdict
	// Records reports whether the whole answer is kept in the journal, in addition to the output.
	Records() bool
}

// Resulting is implemented by calls whose templates read `result` in another form than {status,
// headers, body}: mcp.
type Resulting interface {
	// Result returns the value of `result`.
	Result(a Answer) any
}

// Keeper is implemented by calls whose answers are stored next to the journal: ask.
type Keeper interface {
	// Keep returns what to store with the outcome of a successful answer.
	Keep(a Answer) []journal.Blob
}

// Remover is implemented by calls that may undo something by removing it: http.
type Remover interface {
	// Gone reports whether the answer says that the thing to remove does not exist.
	Gone(a Answer) bool
}

// Priced is implemented by calls that know their cost: llm. An author's `cost` replaces the money,
// not the tokens.
type Priced interface {
	// Reserve returns the most that an attempt with this request may use.
	Reserve(r Request) Usage
	// Used returns what the attempt used, as its answer says, also if the attempt failed. ok is
	// false if the answer does not say.
	Used(r Request, a Answer) (u Usage, ok bool)
}

// Modelled is implemented by calls of a language model: llm. Their usage is also counted by model.
type Modelled interface {
	// Model returns the name of the model that a request calls, "" if it names none.
	Model(r Request) string
}

// Usage is the use of an attempt.
type Usage struct {
	Cost   retry.Money // zero: no cost, or an unknown price
	Input  int64       // tokens
	Output int64
}

// Add returns the sum.
func (u Usage) Add(o Usage) Usage {
	return Usage{u.Cost.Add(o.Cost), u.Input + o.Input, u.Output + o.Output}
}

// Sequel is implemented by calls whose next attempt may be a different request: to the next model,
// or for the repair of an answer. Such a request has a key of its own.
type Sequel interface {
	// Next returns how the attempt after r differs from r: a hint for Follow, as small JSON, which
	// the journal keeps. nil means that it does not differ. a is the answer to r and v its verdict,
	// which is not Succeeded. attempt counts from 1. now says that the next attempt need not wait,
	// and is made even if the class is Refused.
	Next(r Request, a Answer, v Verdict, attempt int) (hint json.RawMessage, now bool)
	// Follow returns the next request, from the last one and the hint.
	Follow(r Request, hint json.RawMessage) (Request, error)
}

// Queued is implemented by calls that workers perform: task.
type Queued interface {
	// Task returns the task of a request. lease is how long a worker may be without a heartbeat.
	Task(r Request) (kind string, input json.RawMessage, lease time.Duration)
}

// Endowing is implemented by calls that say how much a child saga may cost: run.
type Endowing interface {
	// Endowment returns the child's part of the budget; nil: what is left of it.
	Endowment() *Budget
}

// Kin is the root by which a [Spawner] reads the id of its child saga and its place in this one. No
// expression can contain this name.
const Kin = "the child"

// Spawner is implemented by calls that another saga performs: run, and its compensation. An attempt
// is in flight until that saga reports its result.
type Spawner interface {
	// Child returns the id of the saga that a request is about.
	Child(r Request) uuid.UUID
}

// Await is the shape of kinds that wait for a message: approval, signal. The step's Timeout limits
// the wait; 0 means no limit.
type Await interface {
	// Await returns what the step waits for. It is called once, and its result is recorded.
	Await(env expr.Env) (Awaited, error)
	// Expired returns how the step ends if no message came until `at`: with an output or a failure.
	Expired(a Awaited, at time.Time) (json.RawMessage, *Failure)
}

// Receiver is implemented by an Await that waits for signals of one name: signal.
type Receiver interface {
	// Signal returns the name.
	Signal() string
}

// Approver is implemented by an Await that a person decides: approval.
type Approver interface {
	// Decide validates the data that comes with an approval, and returns it with defaults filled
	// in.
	Decide(data json.RawMessage) (json.RawMessage, []Finding)
}

// Announce is the shape of kinds that publish an event and do not wait: emit.
type Announce interface {
	// Announce returns the type of the event, its data, and the names of its sinks.
	Announce(env expr.Env) (kind string, data json.RawMessage, to []string, err error)
}

// Own is the shape of the steps that the agent of a session does itself. The machine records what
// the agent says about them, and sends nothing.
type Own struct{}

// Block is the shape of kinds that contain steps: switch, parallel, foreach, repeat. A saga is a
// group of steps that run one after another. A block has several such groups, which may run in
// parallel.
type Block interface {
	// Enter decides which steps run. It is called once, and its result is recorded.
	Enter(env expr.Env) (Entered, error)
	// Layout returns how the block's groups run, from the recorded e. An error means that e was
	// recorded for another block.
	Layout(e Entered) (Layout, error)
	// Lists returns every list of steps in the block, in the order of the definition.
	Lists() [][]*Step
	// Loops reports whether the lists run once for each iteration. The paths of their steps then
	// contain its index.
	Loops() bool
}

// Chooser is implemented by blocks that run one of their lists of steps: switch.
type Chooser interface {
	// Condition returns the condition of one of [Block.Lists], as a text for people.
	Condition(list int) string
}

// Turns is the root by which the bodies inside the loop of a [Conversation] read the outputs of its
// earlier iterations. No expression can contain this name.
const Turns = "the turns"

// Conversation is implemented by blocks whose loop belongs to no author: llm with tools. Templates
// inside it see the names of the loops around it only.
type Conversation interface {
	Block
	// Turn returns the output of the iteration with this index of the block that was entered as e,
	// once its steps have ended; and whether it was the last, nil if their number is known.
	Turn(env expr.Env, e Entered, index int) (out json.RawMessage, last *bool, _ error)
	// Total returns the block's output, from those of its iterations.
	Total(turns []json.RawMessage) (json.RawMessage, error)
}

// Entered is what a block decided when it began.
type Entered struct {
	Branch *int              // for a switch: the index of the list; -1: none
	Items  []json.RawMessage // for a foreach
	Vague  string            // in a plan: a text for people if it is unknown which of its steps run, or how often
}

// Layout says how a block runs: as groups, or as a loop.
type Layout struct {
	Groups [][]*Step // each runs once
	// Named makes the output a map from the id of each group's last step to its output. Otherwise
	// it is the output of the only group.
	Named bool
	Loop  *Loop // replaces Groups
	Limit int   // how many groups may run at once; 0: all
}

// List returns the steps of an iteration.
func (l *Loop) List(index int) []*Step {
	if l.Each != nil {
		return l.Each[index]
	}
	return l.Steps
}

// Loop is a list of steps that runs several times. The block's output is the list of its
// iterations' outputs.
type Loop struct {
	Steps   []*Step
	Each    [][]*Step         // the steps of each iteration, if they differ; replaces Steps
	Count   int               // the highest number of iterations
	As      string            // the name of the item in templates; "" for none
	Items   []json.RawMessage // one for each iteration, if As is set
	History bool              // templates see the outputs of earlier iterations as `history`
	Output  *expr.Template    // an iteration's output; nil: the output of its last step
	Until   *expr.Program     // evaluated after an iteration: if true, it was the last. nil: Count alone ends the loop
	Collect bool              // a failed iteration is left out of the output, and the others continue
}
