// Package engine is the only loop: it claims sagas, sends what their machines
// decide, and appends what comes of it.
//
// Its logic is [Lane], an event handler without IO. [Engine] is the thin shell
// around a few lanes: goroutines for calls and commits, the node's lease, the
// polls for claims and mail, and the store's clock.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/failpoint"
	"recourse/internal/failpoint/brittle"
	"recourse/internal/quota"
	"recourse/journal"
	"recourse/saga"
)

// Definitions finds compiled definitions.
type Definitions interface {
	// Definition returns a version; an error wrapping journal.ErrNotFound if there is none.
	Definition(ctx context.Context, name string, version int) (*saga.Definition, error)
}

// Caller performs one kind's requests. The context carries the attempt's
// deadline. It always answers: what went wrong is in the answer.
type Caller interface {
	Call(ctx context.Context, r saga.Request) saga.Answer
}

// Streamer is a Caller whose answers come bit by bit.
type Streamer interface {
	// Stream is Call, but the attempt's time-out bounds each silence, idle, and not the whole.
	// alive is to be called whenever something has come.
	Stream(ctx context.Context, r saga.Request, idle time.Duration, alive func()) saga.Answer
}

// Config is what an engine is made of. Zero durations and counts take the defaults beside them.
type Config struct {
	Store       journal.Store
	Definitions Definitions
	Callers     map[string]Caller // by kind of step
	Observers   []Observer        // of what is committed: metrics, traces
	Meter       Meter             // nil: nobody
	Notices     *saga.Notices     // who is told of what happens to sagas; nil: nobody
	Log         *slog.Logger

	// Predecessor is a node that is known to have ended, as whose successor this one begins: its
	// sagas are taken over at once, though its lease may hold. "": none is known.
	Predecessor string
	// Registered is told each id that the node registers under, before it writes anything as that;
	// nil: nobody. If it fails, that is logged, and the node goes on.
	Registered func(node string) error

	Lanes      int           // 1
	Lease      time.Duration // 15s
	Drain      time.Duration // 30s: how long attempts under way may take when stopping
	Poll       time.Duration // 250ms: for claims and mail
	ParkAfter  time.Duration // 3s
	Retention  time.Duration // 30 days: how long sagas are kept after their end whose definition does not say; or saga.Forever
	Expire     time.Duration // 1m: between looks for sagas whose retention is over, give or take a quarter
	Watch      time.Duration // 5s: between looks for stalled sagas; they are given up after twelve
	StallAfter time.Duration // 5m: how long what is due may stand still until it is stalled
	StallScan  time.Duration // 15s, or a quarter of StallAfter if that is less: between looks for what is stalled in the store, give or take a quarter
	MaxRunning int           // 10,000 sagas in memory
	MaxStarts  int           // 2,000 starts that wait for their commit
	StartBytes int           // 64 MiB of input of starts that wait for their commit
	MaxCalls   int           // 1,000 requests under way
	// AnswerBytes bounds the answers of requests that are being read, or whose outcome is not
	// durable yet: 32 MiB, and one answer more. An answer of up to quota.Free bytes is not counted.
	// Another that finds no room waits with its connection open, and its time-out with it. It takes
	// about four times as much memory as it has bytes.
	AnswerBytes int
	// SagaBytes bounds the records of the sagas in memory: 128 MiB. While there are more, the
	// larger sagas leave memory between two steps, and are read again one after the other. A saga
	// whose records are more by themselves still goes on.
	SagaBytes int
	// MessageBytes bounds the messages to sagas that have been read and are not durable in their
	// journals yet: 8 MiB, and one message more. The others stay in the store meanwhile.
	MessageBytes int
	MaxBatch     int // 512 appends in a commit
	MaxBytes     int // 8 MiB of appends in a commit, unless it has only one
	// RequireSync refuses starts while commits do not wait for a second machine, see journal.Log.
	RequireSync bool
	SyncEvery   time.Duration // 1m: between looks for that
}

func (c *Config) defaults() {
	set(&c.Lanes, 1)
	set(&c.Lease, 15*time.Second)
	set(&c.Drain, 30*time.Second)
	set(&c.Poll, 250*time.Millisecond)
	set(&c.ParkAfter, 3*time.Second)
	set(&c.Retention, 30*24*time.Hour)
	set(&c.Expire, time.Minute)
	set(&c.Watch, 5*time.Second)
	set(&c.StallAfter, 5*time.Minute)
	set(&c.StallScan, min(15*time.Second, c.StallAfter/4))
	set(&c.SyncEvery, time.Minute)
	set(&c.MaxRunning, 10_000)
	set(&c.MaxStarts, 2000)
	set(&c.StartBytes, 64<<20)
	set(&c.MaxCalls, 1000)
	set(&c.AnswerBytes, 32<<20)
	set(&c.SagaBytes, 128<<20)
	set(&c.MessageBytes, 8<<20)
	set(&c.MaxBatch, 512)
	set(&c.MaxBytes, 8<<20)
	if c.Meter == nil {
		c.Meter = unmetered{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

func set[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Engine runs sagas on this node.
type Engine struct {
	cfg     Config
	lanes   []*laneLoop
	lease   lease
	former  string // the node that the next registration comes after; "": none. Before Run, and then in keep
	hub     hub
	health  *health
	stats   counters
	calls   chan struct{}  // a token for each request under way
	answers *quota.Pool    // the memory of answers that are being read, or are not durable yet
	window  *MessageWindow // the memory of messages that are not durable in their sagas' journals yet
	loaders chan struct{}  // a token for each journal being read
	large   chan struct{}  // a token for each journal that is read by itself, or waits for memory to be read
	wake    chan struct{}  // look for claims and mail now
	more    chan struct{}  // look for mail now
	fenced  chan string    // nodes whose lease a commit found gone

	renewals, messageReads, claims, expiries, reaps, strangers, syncs, rivals outage

	stalls stalls // that this node has found

	callCtx     context.Context // cancelled when attempts under way are given up
	cancelCall  context.CancelFunc
	cancelStore context.CancelFunc
	storeCtx    context.Context // cancelled when stopping, after the lanes have drained or were given up
	stopping    atomic.Bool
	identity    atomic.Value // string: the node that the lanes write as; "" between leases
	loading     loading
	tails       tails
	timeline    atomic.Int64   // of the lease; 0: not known
	alone       atomic.Bool    // commits do not wait for a second machine, and are required to
	starting    atomic.Int64   // starts that wait for their commit
	startBytes  atomic.Int64   // and their input
	work        sync.WaitGroup // calls and loads
	workers     goroutinePool  // who does the calls
}

// New returns an engine that does nothing until Run.
func New(cfg Config) *Engine {
	cfg.defaults()
	health := &health{Store: brittle.Store(cfg.Store), after: min(cfg.Lease, ailingFor)}
	cfg.Store = health
	e := &Engine{cfg: cfg, health: health, former: cfg.Predecessor, calls: make(chan struct{}, cfg.MaxCalls), answers: quota.New(int64(cfg.AnswerBytes)), loaders: make(chan struct{}, 8), large: make(chan struct{}, 8), wake: make(chan struct{}, 1), more: make(chan struct{}, 1), window: NewMessageWindow(cfg.MessageBytes), fenced: make(chan string, 1)}
	e.callCtx, e.cancelCall = context.WithCancel(context.Background())
	e.storeCtx, e.cancelStore = context.WithCancel(context.Background())
	e.identity.Store("")
	told := func(what string) outage { return outage{what: what, log: cfg.Log, level: slog.LevelWarn} }
	e.renewals, e.messageReads, e.claims = told("could not renew the lease; nothing is sent once it ends"), told("could not read the mail"), told("could not claim sagas")
	e.expiries = told("could not delete sagas whose retention is over; they stay until it can be done")
	e.reaps = told("could not look for tasks whose workers fell silent")
	e.stalls.scans = told("could not look for what is stalled")
	e.syncs = told("starts are refused: --require-sync wants each commit on a second machine")
	e.rivals = told("another server takes writes as an old state of this database: programs that still reach it lose what they commit there")
	e.strangers = told("could not look for sagas that are this node's and that it does not hold")
	e.workers = goroutinePool{tasks: make(chan func()), quit: make(chan struct{}), all: &e.work}
	for range cfg.Lanes {
		e.lanes = append(e.lanes, newLaneLoop(e))
	}
	return e
}

// Run registers the node and runs sagas until ctx is done; then it begins nothing
// more, lets attempts under way end for up to Config.Drain, and hands its sagas
// over. It returns an error if the node cannot be registered.
func (e *Engine) Run(ctx context.Context) error {
	registering, cancel := context.WithTimeout(ctx, registerTime)
	err := e.register(registering)
	cancel()
	if err != nil {
		return fmt.Errorf("register node: %w", err)
	}
	var loops sync.WaitGroup
	quit := make(chan struct{})
	for _, l := range e.lanes {
		loops.Go(l.commits)
		loops.Go(l.run)
	}
	e.announce()
	loops.Go(func() { e.keep(quit) })
	loops.Go(func() { e.scan(quit) })
	loops.Go(func() { e.expire(quit) })
	loops.Go(func() { e.reap(quit) })
	loops.Go(func() { e.lookForStalls(quit) })

	<-ctx.Done()
	e.drain()
	e.cancelStore()
	close(quit)
	for _, l := range e.lanes {
		close(l.quit)
	}
	loops.Wait()
	close(e.workers.quit)
	e.work.Wait()
	release, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := e.cfg.Store.Release(release, e.lease.node()); err != nil {
		e.cfg.Log.Warn("could not release the lease; other nodes take over when it ends", "error", err)
	}
	return nil
}

// drain waits for the lanes to empty, patiently first.
func (e *Engine) drain() {
	e.stopping.Store(true)
	failpoint.Hit("drain")
	for _, l := range e.lanes {
		l.events <- Drain{}
	}
	patience := time.NewTimer(e.cfg.Drain)
	defer patience.Stop()
	giveUp := time.NewTimer(e.cfg.Drain + 5*time.Second)
	defer giveUp.Stop()
	for _, l := range e.lanes {
		for open := true; open; {
			select {
			case <-l.empty:
				open = false
			case <-patience.C:
				e.cancelCall()
			case <-giveUp.C:
				e.cfg.Log.Warn("stopping with sagas in memory: what they have under way is in doubt for the next node")
				return
			}
		}
	}
	e.cancelCall()
}

// Ready reports whether the node has a lease and takes starts, and its commits go through.
func (e *Engine) Ready() bool {
	return e.node() != "" && !e.stopping.Load() && e.lease.valid() && !e.health.ailing()
}

// Now is the store's clock, as well as the node knows it: never ahead of it.
func (e *Engine) Now() time.Time { return e.lease.now() }

// Start makes a saga durable and sets it going; start and data are as saga.Begin has checked them.
// With follow, what it returns tells the saga's end, until it is stopped. Errors: saga.ErrBusy,
// saga.ErrUnavailable; journal.ErrStartKey and journal.ErrUnique, with the id of the saga that has
// it; journal.ErrNotNewest; ctx's, when it is not known whether the saga was started.
func (e *Engine) Start(ctx context.Context, def *saga.Definition, start journal.Start, data saga.StartedData, follow bool) (saga.Begun, error) {
	if e.stopping.Load() {
		return saga.Begun{}, saga.ErrStopping
	}
	if !e.Ready() || e.alone.Load() {
		return saga.Begun{}, saga.ErrUnavailable
	}
	size := int64(len(data.Input))
	starts, bytes := e.starting.Add(1), e.startBytes.Add(size)
	defer e.starting.Add(-1)
	defer e.startBytes.Add(-size)
	if starts > int64(e.cfg.MaxStarts) || bytes > int64(e.cfg.StartBytes) || e.running() >= e.cfg.MaxRunning {
		e.stats.refused.Add(1)
		return saga.Begun{}, saga.ErrBusy
	}
	id, err := uuid.NewV7AtTime(e.Now())
	if err != nil {
		return saga.Begun{}, err
	}
	begun := saga.Begun{ID: id, Stop: func() {}}
	if follow {
		begun.Ended, begun.Stop = e.hub.start(id)
	}
	begun.View, begun.ID, err = e.submit(ctx, id, StartSaga{ID: id, Def: def, Start: start, Data: data, View: !follow})
	if err != nil {
		begun.Stop()
	}
	return begun, err
}

// StartAs makes a saga durable under an id that the caller gives, and sets it going. Errors are
// those of Start; journal.ErrConflict and journal.ErrStartKey also when the saga is there already;
// journal.ErrParentEnded.
func (e *Engine) StartAs(ctx context.Context, id uuid.UUID, def *saga.Definition, start journal.Start, data saga.StartedData) error {
	if !e.Ready() {
		return saga.ErrUnavailable
	}
	_, _, err := e.submit(ctx, id, StartSaga{ID: id, Def: def, Start: start, Data: data})
	return err
}

func (e *Engine) submit(ctx context.Context, id uuid.UUID, s StartSaga) (*saga.View, uuid.UUID, error) {
	reply := make(chan Replied, 1)
	s.Reply = reply
	select {
	case e.laneOf(id).events <- s:
	case <-ctx.Done():
		return nil, uuid.Nil, saga.ErrUnavailable
	}
	select {
	case a := <-reply:
		if a.Err == nil {
			failpoint.Hit("start.reply")
		}
		return a.View, a.ID, a.Err
	case <-ctx.Done():
		return nil, uuid.Nil, ctx.Err()
	}
}

// Send leaves a message for a saga, wherever it runs, and has this node look for
// it. Errors are the store's.
func (e *Engine) Send(ctx context.Context, m journal.Message) error {
	if err := e.cfg.Store.Send(ctx, m); err != nil {
		return err
	}
	e.wakeScanner()
	return nil
}

// Watch returns a channel that gets a value after a saga's journal has grown on
// this node; several growths may be one value. stop ends it. Sagas of other
// nodes make no sound: poll as well.
func (e *Engine) Watch(id uuid.UUID) (grown <-chan struct{}, stop func()) { return e.hub.watch(id) }

// wakeScanner has a scan begin at once.
func (e *Engine) wakeScanner() { nudge(e.wake) }

// nudge sends a value to a channel that has room for one, unless it holds one already.
func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (e *Engine) laneOf(id uuid.UUID) *laneLoop {
	return e.lanes[e.laneNumber(id)]
}

// sagaBytes is about how much the sagas take that are in memory, or on their way.
func (e *Engine) sagaBytes() int64 {
	n := e.loading.bytes.Load() + int64(e.window.Used())
	for _, l := range e.lanes {
		n += l.bytes.Load()
	}
	return n
}

func (e *Engine) running() int {
	n := 0
	for _, l := range e.lanes {
		n += int(l.running.Load())
	}
	return n
}

// registerTime bounds the first registration: a commit that waits for a standby which is not there
// says nothing.
const registerTime = 15 * time.Second

// register takes a lease under a fresh id, as the successor of what the node was before. Nothing is
// written under that id until it is noted: whoever finds the note of an earlier one misses nothing.
func (e *Engine) register(ctx context.Context) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	var dead []string
	if e.former != "" {
		dead = []string{e.former}
	}
	asked := time.Now()
	l, err := e.cfg.Store.Register(ctx, id.String(), e.cfg.Lease, dead...)
	if err != nil {
		return err
	}
	e.former = l.Node
	if e.cfg.Registered != nil {
		if err := e.cfg.Registered(l.Node); err != nil {
			e.cfg.Log.Warn("could not note the node's id: if this process dies, its sagas wait for the end of its lease", "error", err)
		}
	}
	e.lease.renewed(l, asked)
	e.timeline.Store(l.Timeline)
	e.checkSync(ctx)
	return nil
}

// checkSync refuses starts, or takes them again. A look that fails changes nothing.
func (e *Engine) checkSync(ctx context.Context) {
	if !e.cfg.RequireSync {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Lease/3)
	defer cancel()
	err := e.cfg.Store.Synchronous(ctx)
	if err == nil || errors.Is(err, journal.ErrNotSynchronous) {
		e.alone.Store(err != nil)
	}
	e.syncs.observe(err)
}

// keep renews the lease, and takes a new one when it is lost.
func (e *Engine) keep(quit <-chan struct{}) {
	every := time.NewTicker(e.cfg.Lease / 3)
	defer every.Stop()
	sync := time.NewTicker(e.cfg.SyncEvery)
	defer sync.Stop()
	for {
		select {
		case <-quit:
			return
		case <-sync.C:
			e.checkSync(e.storeCtx)
		case node := <-e.fenced:
			if node == e.lease.node() {
				e.reregister(quit)
			}
		case <-every.C:
			err := e.renew()
			if err != nil || e.alone.Load() { // it is not to take a minute until that is known, or over
				e.checkSync(e.storeCtx)
			}
			if errors.Is(err, journal.ErrFenced) {
				e.reregister(quit)
			}
		}
	}
}

func (e *Engine) renew() error {
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.Lease/3)
	defer cancel()
	asked := time.Now()
	l, err := e.cfg.Store.Renew(ctx, e.lease.node(), e.cfg.Lease)
	if l.Node != "" {
		e.cfg.Meter.Renewed(e.lease.left())
		e.lease.renewed(l, asked)
		e.rivals.observe(l.Rival)
	}
	if err != nil {
		e.stats.renewFailed.Add(1)
	}
	e.renewals.observe(err, "lease_left", e.lease.left().Round(time.Millisecond))
	return err
}

// reregister starts over as a new node.
func (e *Engine) reregister(quit <-chan struct{}) {
	timeline := e.timeline.Load()
	e.cfg.Log.Error("the lease was taken over: dropping all sagas and registering anew")
	e.identity.Store("")
	e.lease.end()
	for _, l := range e.lanes {
		l.events <- LeaseLost{}
	}
	failpoint.Hit("relearn")
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), e.cfg.Lease)
		err := e.register(ctx)
		cancel()
		if err == nil {
			break
		}
		e.cfg.Log.Warn("could not register the node", "error", err)
		select {
		case <-quit:
			return
		case <-time.After(pause):
		}
	}
	if now := e.timeline.Load(); now != timeline {
		e.cfg.Log.Error("the database has failed over", "timeline_before", timeline, "timeline", now)
		last := e.tails.drain()
		e.work.Go(func() { e.compare(last) })
	}
	e.announce()
	e.wakeScanner()
}

// announce tells the lanes who they are. Claims begin only after that, so that
// nothing claimed reaches a lane that does not know its name.
func (e *Engine) announce() {
	node := e.lease.node()
	for _, l := range e.lanes {
		l.events <- Leased{Node: node}
	}
	e.identity.Store(node)
}

// node is whom the lanes write as, "" between leases.
func (e *Engine) node() string { return e.identity.Load().(string) }

// random is the jitter's source.
func random() uint64 { return rand.Uint64() }
