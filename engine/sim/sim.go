// Package sim runs the engine's real logic, the lanes and machines that
// production runs, in one goroutine against a simulated store, network, world
// and clock. A seed decides everything: which sagas start, what fails, who
// crashes, who freezes past its lease, what arrives late or twice. After a
// while everything heals and people empty the inbox; then every saga must have
// ended, and the journals and the world's ledger must agree.
package sim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
)

// Result says how a run went.
type Result struct {
	Seed        uint64
	Script      Script // of the run, faults that struck included: playing it is the same run
	Sagas       int
	Records     int
	Crashes     int // nodes killed or frozen
	CrashPoints int // events at which a node could have been killed
	Statuses    map[saga.Status]int
	Violations  []string
	Story       []string                       // which fault struck when
	Digest      [32]byte                       // over all journals
	Journals    map[uuid.UUID][]journal.Record // of the sagas with violations
}

// Knobs of a run, shrunk so that a few simulated seconds hold many faults.
const (
	ttl      = 3 * time.Second
	poll     = 300 * time.Millisecond
	watch    = 5 * time.Second
	look     = 4 * time.Second  // between looks for sagas that their node does not hold
	faulty   = 30 * time.Second // how long there are faults
	patience = time.Hour        // how long after healing until everything has to be over
	nodes    = 3
	most     = 200_000 // events of one simulation; no seed without a bug has come to it
	lanes    = 2       // of a node
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// sim is one run.
type sim struct {
	rng    *rand.Rand // of timing
	aside  aside      // of the timing of people and workers
	dice   dice
	now    time.Time
	events events
	n      int // of events, for a stable order
	played int // events
	store  *memory.Store
	world  *theWorld
	nodes  []*node
	defs   map[string]*saga.Definition
	healed bool

	workers []*worker
	shop    shop        // what is known of tasks
	calls   []*spawning // starts and reverts of children that are under way
	struck  []struck
	acked   map[uuid.UUID]bool
	shown   map[uuid.UUID]asking // by their notices
	told    map[uuid.UUID]int64  // notices, and the seq of the first record that they came with
	expires map[string]time.Time // of each lease, by the store's clock

	forgotten map[uuid.UUID]bool // sagas that a node has claimed and never heard of
	gone      map[uuid.UUID]deleted

	result Result
}

// event is something that happens at a time.
type event struct {
	at time.Time
	n  int
	do func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	if !e[i].at.Equal(e[j].at) {
		return e[i].at.Before(e[j].at)
	}
	return e[i].n < e[j].n
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *events) Push(x any) { *e = append(*e, x.(event)) }

// Pop implements heap.Interface.
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// Run plays one seed.
func Run(seed uint64, o Options) Result {
	sc, rng := draw(seed)
	return play(sc, dice{rng: rng}, o)
}

// Play plays a script.
func Play(sc Script, o Options) Result {
	d := dice{script: make(map[Fault]bool)}
	for _, f := range sc.Faults {
		d.script[f] = true
	}
	return play(sc, d, o)
}

func play(sc Script, d dice, o Options) Result {
	s := &sim{
		rng: rand.New(rand.NewPCG(sc.Timing, 0x5eed)), aside: aside{rand.New(rand.NewPCG(sc.Timing, 0xa51de))}, dice: d, now: epoch, defs: definitions,
		acked: make(map[uuid.UUID]bool), shown: make(map[uuid.UUID]asking), told: make(map[uuid.UUID]int64), forgotten: make(map[uuid.UUID]bool), gone: make(map[uuid.UUID]deleted), expires: make(map[string]time.Time),
	}
	s.result = Result{Seed: sc.Timing, Statuses: make(map[saga.Status]int), Journals: make(map[uuid.UUID][]journal.Record)}
	s.store = memory.New(memory.Config{Now: func() time.Time { return s.now }})
	s.world = newWorld(s, o)
	for i := range nodes {
		n := newNode(s, o, fmt.Sprint("n", i))
		n.noted = i == 0 // the others are taken over when their leases have ended
		s.nodes = append(s.nodes, n)
		n.boot()
	}
	s.hire()
	s.load(sc)
	s.gather()
	s.expire()
	s.run(faulty)
	s.heal()
	s.run(patience)
	s.hangUp()
	s.check()
	sc.Faults = s.dice.struck
	if len(s.result.Violations) > 0 {
		for _, f := range s.struck {
			s.result.Story = append(s.result.Story, fmt.Sprintf("%10s %s %s", f.when, f.what, f.at))
		}
	}
	s.result.Script = sc
	return s.result
}

// Options make the run wrong on purpose, to show that it is noticed.
type Options struct {
	// ForgetKeys: the world does not honour idempotency keys although the definitions say so.
	ForgetKeys bool
	// DropRecords: the store loses an acknowledged append now and then.
	DropRecords bool
	// SendEarly: nodes send before the intent is committed.
	SendEarly bool
}

// after schedules do.
func (s *sim) after(d time.Duration, do func()) {
	s.n++
	heap.Push(&s.events, event{at: s.now.Add(d), n: s.n, do: do})
}

// run plays events until nothing is left that matters, or time is up.
func (s *sim) run(d time.Duration) {
	end := s.now.Add(d)
	for len(s.events) > 0 && !s.events[0].at.After(end) {
		if s.played++; s.played > most {
			s.violate(uuid.Nil, "12: %d events, and no end: something goes round in circles", most)
			return
		}
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
		if s.healed && s.over() {
			return
		}
	}
	s.now = end
}

// random is true one time in n.
func (s *sim) random(n int) bool { return s.rng.IntN(n) == 0 }

// fault reports whether a fault strikes here, at a node or on the way, "".
func (s *sim) fault(k Kind, at string) bool {
	if s.healed || !s.dice.roll(k) {
		return false
	}
	s.struck = append(s.struck, struck{s.now.Sub(epoch), k, at})
	return true
}

// struck is a fault that struck.
type struck struct {
	when time.Duration
	what Kind
	at   string
}

// between draws a duration.
func (s *sim) between(a, b time.Duration) time.Duration { return aside{s.rng}.between(a, b) }

// aside draws what has nothing to do with nodes and requests.
type aside struct{ *rand.Rand }

func (a aside) between(from, to time.Duration) time.Duration {
	return from + time.Duration(a.Int64N(int64(to-from)+1))
}

// heal ends all faults, thaws and boots every node, and has people look at the inbox.
func (s *sim) heal() {
	s.healed = true
	for _, n := range s.nodes {
		n.frozen = time.Time{}
		if !n.alive {
			n.boot()
		}
	}
	s.people()
}

// id makes a UUIDv7-like id from the seed.
func (s *sim) id() uuid.UUID { return aside{s.rng}.id(s.now) }

func (a aside) id(now time.Time) uuid.UUID {
	id, err := uuid.NewGenWithOptions(uuid.WithRandomReader(reader{a.Rand})).NewV7AtTime(now)
	if err != nil {
		panic(err)
	}
	return id
}

type reader struct{ rng *rand.Rand }

func (r reader) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(r.rng.Uint32())
	}
	return len(b), nil
}

// crashable is a point at which the node may die.
func (n *node) crashable() bool {
	s := n.s
	s.result.CrashPoints++
	if s.fault(Freeze, n.name) { // it does not know how long
		s.result.Crashes++
		n.frozen = s.now.Add(s.between(ttl/2, 3*ttl))
		return false
	}
	if !s.fault(Kill, n.name) {
		return false
	}
	s.result.Crashes++
	n.die(s.between(100*time.Millisecond, 2*ttl))
	return true
}
