package invariant

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/saga"
)

// Config is what a Checker knows besides the sagas. A zero field is unknown, and the rules that
// need it are not checked.
type Config struct {
	Ledger *Ledger
	// Clock says that the sagas are at rest, and that everything due by then has happened.
	// Zero: they may be running, and only the rules that always hold are checked.
	Clock time.Time
	// Now is about the database's clock: no row may have a wake-up time long after it, unless the
	// journal says so.
	Now   time.Time
	Nodes func(node string) bool // reports whether the node has a lease
	// Starts are acknowledged starts.
	Starts []Start
	// Canaries are texts that no journal may contain.
	Canaries []string
	// OneProgram says that this version of the program wrote every record.
	OneProgram bool
	// Anchored says that the caller compares the journals with signed anchors, and reports what
	// differs.
	Anchored bool
}

// Checker checks sagas one by one. It is not safe for concurrent use.
type Checker struct {
	cfg      Config
	ledger   *ledger // nil: no ledger
	starts   map[uuid.UUID][]Start
	canaries []canary

	sagas, records, undefined, rows, later, live int
	started                                      map[uuid.UUID]bool // the sagas of starts that were added
	sends                                        []intended
	born                                         map[uuid.UUID]bool      // child sagas
	undos                                        map[uuid.UUID][]*undoOf // by the saga that is undone
	retries                                      map[uuid.UUID][]*goesOn // by the saga that they go on from
	ends                                         map[uuid.UUID][]byte    // the last hashes of undoable sagas
	undoneLater                                  []uuid.UUID
	unborn                                       []unborn
	members                                      map[uuid.UUID]*member
	found                                        []Violation
	foreign                                      int
}

// New returns a Checker without sagas.
func New(cfg Config) *Checker {
	c := &Checker{cfg: cfg, started: make(map[uuid.UUID]bool), born: make(map[uuid.UUID]bool), undos: make(map[uuid.UUID][]*undoOf), retries: make(map[uuid.UUID][]*goesOn), ends: make(map[uuid.UUID][]byte), members: make(map[uuid.UUID]*member), starts: make(map[uuid.UUID][]Start)}
	if cfg.Ledger != nil {
		c.ledger = newLedger(cfg.Ledger)
	}
	for _, s := range cfg.Starts {
		c.starts[s.ID] = append(c.starts[s.ID], s)
	}
	for _, text := range cfg.Canaries {
		if text == "" {
			continue // every text contains it
		}
		c.canaries = append(c.canaries, newCanary(text))
	}
	return c
}

// Verdict is the result of Check for one saga.
type Verdict struct {
	Violations []Violation
	saga       uuid.UUID
	records    int
	defined    bool
	row        bool
	later      bool // it continued after the ledger was written
	live       bool // it has not ended
	sends      []intended
	child      bool // another saga started it
	unborn     []unborn
	member     *member // nil: its journal cannot be read
	undoes     *undoOf // nil: it undoes no other saga
	goesOn     *goesOn // nil: it does not go on from another saga
	end        []byte  // the hash of its last record, if it can be undone later, or another saga can go on from it
	// undoneLater says that effects of the saga were undone after its end.
	undoneLater bool
}

// Check checks one saga by itself. It changes nothing, so a saga that continued while it was read
// can be checked again. Add makes the verdict count.
func (c *Checker) Check(s Saga) Verdict {
	l := &sagaCheck{Checker: c, v: Verdict{saga: s.ID, records: len(s.Records), defined: s.Definition != nil, row: s.Head != nil}}
	l.all(s)
	return l.v
}

// Report adds a violation that was found otherwise, such as by reading the place where journals
// are stored.
func (c *Checker) Report(v Violation) { c.found = append(c.found, v) }

// Add adds the verdict of a saga, which may be added only once.
func (c *Checker) Add(v Verdict) {
	c.sagas++
	c.records += v.records
	c.found = append(c.found, v.Violations...)
	c.sends = append(c.sends, v.sends...)
	c.unborn = append(c.unborn, v.unborn...)
	if m := v.member; m != nil && (m.limited || m.parent != uuid.Nil || len(m.held) > 0) {
		c.members[v.saga] = m
	}
	if v.undoes != nil {
		c.undos[v.undoes.original] = append(c.undos[v.undoes.original], v.undoes)
	}
	if v.goesOn != nil {
		c.retries[v.goesOn.original] = append(c.retries[v.goesOn.original], v.goesOn)
	}
	if v.end != nil {
		c.ends[v.saga] = v.end
	}
	if v.undoneLater {
		c.undoneLater = append(c.undoneLater, v.saga)
	}
	if v.child {
		c.born[v.saga] = true
	}
	if !v.defined {
		c.undefined++
	}
	if v.row {
		c.rows++
	}
	if v.later {
		c.later++
	}
	if v.live {
		c.live++
	}
	if len(c.starts[v.saga]) > 0 {
		c.started[v.saga] = true
	}
}

// End checks the rules about all sagas together, and returns all violations, sorted by invariant
// and saga. Nothing may be added after it.
func (c *Checker) End() []Violation {
	c.eachStart()
	c.eachUnborn()
	c.eachUndo()
	c.eachRetry()
	c.eachTree()
	if c.ledger != nil {
		c.eachSend()
		c.effects()
	}
	slices.SortStableFunc(c.found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.N, b.N), strings.Compare(a.Saga.String(), b.Saga.String()))
	})
	return c.found
}

// say reports a violation that concerns no single saga.
func (c *Checker) say(n int, format string, args ...any) {
	c.found = append(c.found, Violation{N: n, Text: fmt.Sprintf(format, args...)})
}

// sagaCheck is the check of one saga.
type sagaCheck struct {
	*Checker
	v Verdict
}

func (c *sagaCheck) say(n int, seq int64, format string, args ...any) {
	c.v.Violations = append(c.v.Violations, Violation{N: n, Saga: c.v.saga, Seq: seq, Text: fmt.Sprintf(format, args...)})
}

func (c *sagaCheck) all(s Saga) {
	c.secrets(s)
	t, seq, err := read(s)
	if err != nil {
		c.say(2, seq, "%v", err)
		c.hashes(s)
		return
	}
	c.v.live = t.finished == nil
	failed := t.finished != nil && t.ended() != saga.Succeeded
	if t.machine != nil && t.origin == nil && (failed || !t.machine.UndoUntil().IsZero()) {
		c.v.end = t.Records[len(t.Records)-1].Hash
	}
	c.chain(t)
	c.unread(t)
	c.begun(t)
	c.children(t)
	c.owners(t)
	c.timers(t)
	c.cancelled(t)
	c.keys(t)
	c.asked(t)
	c.order(t)
	c.budget(t)
	c.tree(t)
	c.tokens(t)
	c.approvals(t)
	c.covered(t)
	c.fresh(t)
	if t.Definition != nil {
		c.forward(t)
		c.attempts(t)
		c.loops(t)
		c.awake(t)
		c.row(t)
	}
	c.lives(t)
	c.session(t)
	c.undoes(t)
	c.goes(t)
	c.forks(t)
	c.remains(t)
	c.ownLeft(t)
	if c.ledger != nil {
		c.compare(t)
	}
}

// compare checks the rules that need the ledger.
func (c *sagaCheck) compare(t *sagaState) {
	c.sent(t)
	c.unintended(t)
	if c.cfg.Ledger.RequestsOnly {
		return
	}
	c.arrivals(t)
	if t.Definition == nil {
		return
	}
	c.verified(t)
	if until := c.cfg.Ledger.Until; !until.IsZero() && t.last().After(until) {
		c.v.later = true
		return
	}
	c.succeeded(t)
	c.compensated(t)
	c.residual(t)
	c.doubted(t)
	c.undone(t)
	c.identities(t)
}
