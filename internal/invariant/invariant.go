// Package invariant checks the promises that must hold whatever went wrong: it compares the
// journals with each other, and with the ledger of the remote service.
//
// A [Checker] checks one saga after another, and keeps only what the rules about all sagas together
// need, so it can check a large database. [Check] checks sagas that are all in memory. Each rule is
// a function, and has the number that Names explains. The rules read only the journals, the
// definitions, the rows and the ledger. They never ask the engine whose work they check. A rule
// whose input is missing is not checked, and [Checker.Coverage] says so.
package invariant

import (
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/examples/world"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// Saga is one saga to check.
type Saga struct {
	ID         uuid.UUID
	Definition *saga.Definition // nil: unknown; then only the rules that need no definition are checked
	// Head is the row; nil: it is unknown, and the rules that need it are not checked. A nil Inbox
	// is unknown, too.
	Head    *journal.Head
	Records []journal.Record
	Machine *machine.Machine // the replayed records; nil: not replayed yet
}

// Violation is a broken promise.
type Violation struct {
	N    int       // number of the invariant
	Saga uuid.UUID // nil: it concerns no single saga
	Seq  int64     // of the record concerned, or one next to it; 0: none
	Text string
}

// String formats the violation in one line.
func (v Violation) String() string {
	if v.Saga.IsNil() {
		return fmt.Sprintf("invariant %d: %s", v.N, v.Text)
	}
	return fmt.Sprintf("invariant %d: saga %s: %s", v.N, v.Saga, v.Text)
}

// Names describes the invariants.
var Names = map[int]string{
	1:  "each acknowledged start is one saga, with its input",
	2:  "journals have no gaps, are hash-chained, replay, and end once",
	3:  "no record of an earlier owner follows one of a later owner",
	4:  "each write was sent after its own intent",
	5:  "keys are derived from saga, step, way and generation",
	6:  "a key has at most one effect, and `ask` at most one send",
	7:  "succeeded: each step took effect once, and its effect stands",
	8:  "compensated: every effect is undone",
	9:  "compensations run in reverse order, one after another",
	10: "no step runs forward once compensation has begun",
	11: "`residual` or the inbox names every effect that remains, and no other",
	12: "every saga has ended, waits for a person, or has a wake-up time",
	13: "timers fire once, and not early",
	14: "attempts, delays, parallel iterations and calls follow the policy",
	15: "spent and reserved amounts never exceed the budget",
	16: "an approval is decided at most once, in time, on what was shown, by an authorized person; no call of a session is sent before it",
	17: "a cancelled saga never ends as succeeded",
	19: "no journal contains a secret",
	22: "no record follows one that its writer cannot read",
	23: "of a session's calls with one identity, at most one has an effect that stands",
	24: "a session's call belongs to the life that was attached last",
	25: "a session is committed with no call open, and nothing of it is sent or undone after that",
	26: "a session calls only its actions, within their limits, and asks only its models",
	27: "a request to a model is sent once",
	28: "after a divergence, a call that may repeat one of an earlier life is sent only if a person has said that it is new",
	29: "a saga that undoes another one is the only one, begins within the windows, and leaves no effect that `residual` does not name",
	30: "no record was changed or removed after it was anchored",
	31: "a saga that goes on from another one is the only one, and repeats neither an outcome that it takes over nor an effect that remains",
	32: "a request that an approval covers leaves only as it was shown, and approved",
	33: "a request that depends on a read with fresh_for leaves only on a fresh answer and, after a change, only if it is approved",
	34: "a fork sends and undoes nothing of its original, and nothing that has an effect before a person has approved it",
	35: "a saga and the sagas below it have never spent and reserved more than its budget",
}

// Check checks sagas at rest: nothing is in flight. ledger has everything that the remote service
// saw of them. clock is a time by which every due wake-up must have happened: now, minus the delay
// that the engine may have. It returns the violations, sorted by invariant and saga.
//
// Check assumes that every write went to this service. It matches effects with steps by the keys in
// the ledger, so it does not compare steps that send no key, or send it in a way that the service
// does not record. It compares times of journals and ledger, so the database and the service must
// use the same clock. All nodes must have run this program.
func Check(sagas []Saga, ledger world.Ledger, clock time.Time) []Violation {
	c := New(Config{Ledger: OfWorld(ledger), Clock: clock, OneProgram: true})
	for _, s := range sagas {
		c.Add(c.Check(s))
	}
	return c.End()
}
