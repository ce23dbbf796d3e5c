// Package invariant checks what must hold whatever went wrong: the promises of
// the journals against the ledger of the other side, which cannot be argued with.
//
// A [Checker] looks at one saga after the other and keeps only what the rules
// about all of them together need, so that it can walk a large database. [Check]
// does it for sagas that are all at hand. Each rule is a function of its own, by
// the number that Names explains. What a rule needs is in the journals, the
// definitions, the rows and the ledger: nothing is asked of the engine that is being
// checked. What was not given is not checked, and [Checker.Coverage] says so.
package invariant

import (
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/examples/world"
	"recourse/journal"
	"recourse/saga"
)

// Saga is one saga to check.
type Saga struct {
	ID         uuid.UUID
	Definition *saga.Definition // nil: not known, and only what the journal alone shows is checked
	Head       *journal.Head    // nil: not known, and what rests on it is not checked. A nil Inbox in it is not known either
	Records    []journal.Record
	Machine    *saga.Machine // the records, replayed; nil: not done yet
}

// Violation is a promise that was broken.
type Violation struct {
	N    int       // of the invariant
	Saga uuid.UUID // nil: it is about no single saga
	Seq  int64     // of the record at fault, or next to it; 0: of none
	Text string
}

// String writes the violation in one line.
func (v Violation) String() string {
	if v.Saga.IsNil() {
		return fmt.Sprintf("invariant %d: %s", v.N, v.Text)
	}
	return fmt.Sprintf("invariant %d: saga %s: %s", v.N, v.Saga, v.Text)
}

// Names says what the invariants are about.
var Names = map[int]string{
	1:  "every acknowledged start is one saga, with its input",
	2:  "journals are dense, chained, replayable, and end once",
	3:  "a node that was taken over from writes no more",
	4:  "every write was sent behind its own intent",
	5:  "keys follow from saga, step, way and generation",
	6:  "a key has at most one effect, and `ask` one send",
	7:  "succeeded: every step took effect once and still stands",
	8:  "compensated: whatever took effect is undone",
	9:  "undoing goes backwards, one after another",
	10: "nothing goes forward once undoing has begun",
	11: "what remains is named, and nothing else",
	12: "every saga has ended, waits for a person, or will wake up",
	13: "timers fire once, and not early",
	14: "attempts, the gaps between them and iterations at once are within the policy",
	15: "spent and reserved never exceed the budget",
	16: "an approval is decided once at most, in time, on what was shown, by who may",
	17: "a cancelled saga never ends as succeeded",
	19: "no secret is in a journal",
	22: "nothing was written behind a record that its writer cannot read",
}

// Check checks sagas that are at rest: nothing is under way any more. ledger is
// all that the other side saw of them. clock is a time by which every wake-up
// that was due has had the time to happen: now, less what the engine may take.
// It returns the violations, by invariant and saga; none if everything holds.
//
// Every write is taken to be to this world. Effects are matched to steps by the
// key that the ledger shows, so steps that send none, or under a name that the
// world does not know, are not compared with it. Times are compared across
// journal and ledger: the database and the world must go by the same clock. All
// nodes ran this program.
func Check(sagas []Saga, ledger world.Ledger, clock time.Time) []Violation {
	c := New(Config{Ledger: OfWorld(ledger), Clock: clock, OneProgram: true})
	for _, s := range sagas {
		c.Add(c.Look(s))
	}
	return c.End()
}
