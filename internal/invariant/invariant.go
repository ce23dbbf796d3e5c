// Package invariant checks what must hold whatever went wrong: the promises of
// the journals against the ledger of the other side, which cannot be argued with.
//
// The other side is examples/world, or something that keeps the same ledger. Each
// rule is a function of its own, by the number that Names explains. What a rule
// needs is in the journals, the definitions and the ledger: nothing is asked of
// the engine that is being checked.
package invariant

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/examples/world"
	"recourse/journal"
	"recourse/saga"
)

// Saga is one saga to check.
type Saga struct {
	ID         uuid.UUID
	Definition *saga.Definition
	Head       *journal.Head // nil: not known, and what rests on it is not checked
	Records    []journal.Record
}

// Violation is a promise that was broken.
type Violation struct {
	N    int // of the invariant
	Saga uuid.UUID
	Text string
}

// String writes the violation in one line.
func (v Violation) String() string {
	if v.Saga.IsNil() {
		return fmt.Sprintf("invariant %d: %s", v.N, v.Text)
	}
	return fmt.Sprintf("invariant %d: saga %s: %s", v.N, v.Saga, v.Text)
}

// Names says what the invariants that Check checks are about.
var Names = map[int]string{
	2:  "journals are dense, chained, replayable, and end once",
	4:  "every write was sent behind its own intent",
	5:  "keys follow from saga, step, way and generation",
	6:  "a key has at most one effect, and `ask` one send",
	7:  "succeeded: every step took effect once and still stands",
	8:  "compensated: whatever took effect is undone",
	9:  "undoing goes backwards, one after another",
	10: "nothing goes forward once undoing has begun",
	11: "what remains is named, and nothing else",
	12: "every saga has ended, waits for a person, or will wake up",
	14: "attempts and the gaps between them are within the policy",
	15: "spent and reserved never exceed the budget",
}

// Check checks sagas that are at rest: nothing is under way any more. ledger is
// all that the other side saw of them. clock is a time by which every wake-up
// that was due has had the time to happen: now, less what the engine may take.
// It returns the violations, by invariant and saga; none if everything holds.
//
// Every write is taken to be to this world. Effects are matched to steps by the
// key that the ledger shows, so steps that send none, or under a name that the
// world does not know, are not compared with it. Times are compared across
// journal and ledger: the database and the world must go by the same clock.
func Check(sagas []Saga, ledger world.Ledger, clock time.Time) []Violation {
	c := &checker{ledger: newLedger(ledger), clock: clock}
	var tales []*tale
	for _, s := range sagas {
		t, err := read(s)
		if err != nil {
			c.say(2, s.ID, "%v", err)
			continue
		}
		tales = append(tales, t)
	}
	c.eachSend(tales)
	c.effects()
	for _, t := range tales {
		c.chain(t)
		c.keys(t)
		c.asked(t)
		c.succeeded(t)
		c.compensated(t)
		c.order(t)
		c.forward(t)
		c.residual(t)
		c.awake(t)
		c.attempts(t)
		c.budget(t)
	}
	slices.SortStableFunc(c.found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.N, b.N), strings.Compare(a.Saga.String(), b.Saga.String()))
	})
	return c.found
}

type checker struct {
	ledger *ledger
	clock  time.Time
	found  []Violation
}

func (c *checker) say(n int, id uuid.UUID, format string, args ...any) {
	c.found = append(c.found, Violation{N: n, Saga: id, Text: fmt.Sprintf(format, args...)})
}
