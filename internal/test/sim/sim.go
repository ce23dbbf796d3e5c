// Package sim runs the engine's real lanes and machines in one goroutine, against a simulated
// store, network, remote service and clock. A seed determines everything: which sagas start, which
// faults strike, which nodes crash, which nodes freeze past their lease, and what arrives late or
// twice. After a while all faults end, and people empty the inbox. Then every saga must have ended,
// and the journals must agree with the ledger of the remote service.
//
// The checks are those of package invariant and, for what no journal shows, the functions check in
// check.go, check_notices.go and check_outside.go. Package mutant has the deliberate bugs that they
// must detect.
package sim

import (
	"container/heap"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/archive"
	"recourse/internal/evidence"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/kinds/ask/relay"
)

// Result is the result of a run.
type Result struct {
	Seed        uint64
	Script      Script // of the run, with the faults that struck: playing it repeats the run
	Sagas       int
	Records     int
	Crashes     int // nodes killed or frozen
	CrashPoints int // points at which a node could have been killed
	Statuses    map[saga.Status]int
	Violations  []string
	Story       []string                       // which fault struck, and when
	Digest      [32]byte                       // over all journals
	Journals    map[uuid.UUID][]journal.Record // of the sagas with violations
}

// Parameters of a run, so small that a few simulated seconds contain many faults.
const (
	ttl        = 3 * time.Second
	poll       = 300 * time.Millisecond
	watch      = 5 * time.Second
	ownedEvery = 4 * time.Second  // between searches for unheld sagas
	faulty     = 30 * time.Second // how long faults strike
	patience   = time.Hour        // how long after healing until every saga must have ended
	nodes      = 3
	lanes      = 2 // per node

	// most is the most events of a run. Without a bug, the most that a seed had was 420,000.
	most = 1_000_000
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// sim is one run.
type sim struct {
	rng     *rand.Rand // for timing
	aside   aside      // for the timing of people and workers
	dice    dice
	now     time.Time
	events  events
	n       int // number of the last event, for a stable order
	played  int // events so far
	store   *memory.Store
	world   *theWorld
	ownRuns map[string]int // how often agents have done their own steps, by runOf
	nodes   []*node
	defs    map[string]*saga.Definition
	agents  map[uuid.UUID]*agent // by their sessions
	relay   *relay.Relay         // of all nodes: an agent is connected to the one that runs its session
	healed  bool

	workers  []*worker
	shop     shop        // what the simulation knows of tasks
	calls    []*spawning // starts and reverts of children that are in flight
	struck   []struck
	acked    map[uuid.UUID]bool
	shown    map[uuid.UUID]asking // inbox entries that were committed, by the ids of their notifications
	notified map[uuid.UUID]int64  // notifications, and the seq of the first record in their append
	expires  map[string]time.Time // when each lease ends, by the store's clock

	refused   map[string]time.Time  // until when the store refuses appends, by the hash of their first record
	wrote     map[writing]time.Time // see node.handle
	forgotten map[uuid.UUID]bool    // sagas that a node has claimed without learning of it
	gone      map[uuid.UUID]deleted
	archiver  *archive.Archiver
	archive   *archive.Reader
	anchors   []evidence.Line // in the order in which they were signed

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
	sc, rng := randomScript(seed)
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
		agents: make(map[uuid.UUID]*agent), relay: relay.New(), acked: make(map[uuid.UUID]bool), shown: make(map[uuid.UUID]asking), notified: make(map[uuid.UUID]int64), refused: make(map[string]time.Time), wrote: make(map[writing]time.Time), forgotten: make(map[uuid.UUID]bool), gone: make(map[uuid.UUID]deleted), expires: make(map[string]time.Time),
	}
	s.result = Result{Seed: sc.Timing, Statuses: make(map[saga.Status]int), Journals: make(map[uuid.UUID][]journal.Record)}
	s.store = memory.New(memory.Config{Now: func() time.Time { return s.now }, Remember: !o.DecodeAlways})
	objects := &bucket{rng: rand.New(rand.NewPCG(sc.Timing, 0xa2c4)), objects: make(map[string][]byte)}
	s.archive = archive.NewReader(objects)
	s.archiver = archive.New(archive.Config{Store: s.store, Bucket: objects, Node: func() string { return "" }, Now: func() time.Time { return s.now }, Log: slog.New(slog.DiscardHandler)})
	s.world, s.ownRuns = newWorld(s, o), make(map[string]int)
	for i := range nodes {
		n := newNode(s, o, fmt.Sprint("n", i))
		n.noted = i == 0 // the sagas of the others are taken over when their leases have ended
		s.nodes = append(s.nodes, n)
		n.boot()
	}
	s.hire()
	s.load(sc)
	s.gather()
	s.retry()
	s.forks()
	s.undo()
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

// Options make a run wrong on purpose, to show that the checks detect it.
type Options struct {
	// ForgetKeys: the remote service does not honour idempotency keys, although the definitions
	// expect it.
	ForgetKeys bool
	// DropRecords: the store sometimes loses an acknowledged append.
	DropRecords bool
	// SendEarly: nodes send a request before its intent is committed.
	SendEarly bool
	// DecodeAlways: records are decoded each time they are read, as those of a database are.
	DecodeAlways bool
}

// after schedules do.
func (s *sim) after(d time.Duration, do func()) {
	s.n++
	heap.Push(&s.events, event{at: s.now.Add(d), n: s.n, do: do})
}

// run plays events until every saga has ended, or the time is over.
func (s *sim) run(d time.Duration) {
	end := s.now.Add(d)
	for len(s.events) > 0 && !s.events[0].at.After(end) {
		if s.played++; s.played > most {
			s.violate(uuid.Nil, "12: no end after %d events: something loops", most)
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

// random returns true with probability 1/n.
func (s *sim) random(n int) bool { return s.rng.IntN(n) == 0 }

// fault reports whether a fault strikes at a node, or at the URL path, definition or step that at
// names.
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

// between returns a random duration.
func (s *sim) between(a, b time.Duration) time.Duration { return aside{s.rng}.between(a, b) }

// aside is a random source for people and workers, so that they do not change the timing of nodes
// and requests.
type aside struct{ *rand.Rand }

func (a aside) between(from, to time.Duration) time.Duration {
	return from + time.Duration(a.Int64N(int64(to-from)+1))
}

// heal ends all faults, unfreezes and starts every node, and lets people empty the inbox.
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

// crashable is called at each point at which the node may die or freeze. It reports whether it
// died.
func (n *node) crashable() bool {
	s := n.s
	s.result.CrashPoints++
	if s.fault(Freeze, n.name) { // it does not notice
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
