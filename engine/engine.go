package engine

import (
	"cmp"
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
	"recourse/internal/failpoint/faultstore"
	"recourse/internal/notify"
	"recourse/internal/quota"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// Definitions finds compiled definitions.
type Definitions interface {
	// Of returns the definition that a saga with this start runs by. Errors: saga.ErrUnusable, if
	// this program cannot compile it, or if it is gone.
	Of(ctx context.Context, d *saga.StartedData) (*saga.Definition, error)
}

// Caller performs the requests of one kind of step. The context carries the attempt's deadline. A
// Caller always returns an answer: an error is part of it.
type Caller interface {
	Call(ctx context.Context, r saga.Request) saga.Answer
}

// Streamer is a Caller whose responses arrive in parts.
type Streamer interface {
	// Stream is like Call, but the attempt's timeout bounds each pause between two parts, idle, and
	// not the whole response. Stream calls alive whenever a part has arrived.
	Stream(ctx context.Context, r saga.Request, idle time.Duration, alive func()) saga.Answer
}

// Preparer is a Caller that knows from memory something about the remote service which belongs into
// the intent.
type Preparer interface {
	// Prepare returns the request with what the caller knows now. It does not block, and does not
	// change what r points to.
	Prepare(r saga.Request) saga.Request
}

// Config configures an engine. A duration or count of zero selects the default in its comment.
type Config struct {
	Store       journal.Store
	Definitions Definitions
	Callers     map[string]Caller // by kind of step
	Observers   []Observer        // called for committed records: metrics, traces
	Meter       Meter             // nil: none
	Notices     *notify.Notices   // builds the notifications about sagas; nil: none
	Log         *slog.Logger

	// Predecessor is a node that is known to have ended. This engine takes over its sagas at once,
	// even if its lease has not expired. "": none is known.
	Predecessor string
	// Registered is called with each id that the node registers under, before the node writes
	// anything under that id. It may be nil. If it fails, the engine logs the error and continues.
	Registered func(node string) error

	Lanes     int           // 1
	Lease     time.Duration // 15s
	Drain     time.Duration // 30s: how long attempts in flight may take when the engine stops
	Poll      time.Duration // 250ms: between polls for sagas to claim and for messages
	ParkAfter time.Duration // 3s
	// Retention is how long sagas are kept after their end, unless their definition says: 30 days.
	// It may be saga.Forever.
	Retention time.Duration
	// Archived reports whether another service archives sagas whose retention has ended, and then
	// deletes them. While it does, or fails, the engine deletes none. Nil: the engine deletes them.
	Archived   func(ctx context.Context) (bool, error)
	Expire     time.Duration // 1m: between searches for sagas whose retention has ended, give or take a quarter
	Watch      time.Duration // 5s: between checks for stalled sagas; a saga is given up after twelve
	StallAfter time.Duration // 5m: how long a due saga or step may make no progress before it counts as stalled
	// StallScan is the time between searches of the store for stalled sagas and steps, give or take
	// a quarter: 15s, or a quarter of StallAfter if that is less.
	StallScan  time.Duration
	MaxRunning int // 10,000 sagas in memory
	MaxStarts  int // 2,000 starts whose commit is pending
	StartBytes int // 64 MiB of input of starts whose commit is pending
	MaxCalls   int // 1,000 requests in flight
	// AnswerBytes bounds the memory of responses that are being read, or whose outcome is not
	// durable yet: 32 MiB, plus one response. Responses of up to quota.Free bytes do not count. If
	// there is no room for a response, it waits with its connection open, and its timeout is
	// suspended meanwhile. A response takes about four times as much memory as it has bytes.
	AnswerBytes int
	// SagaBytes bounds the records of the sagas in memory: 128 MiB. Above it, the larger sagas
	// leave memory between two steps, and are read again one by one. A saga whose records exceed
	// the bound by themselves still runs.
	SagaBytes int
	// MessageBytes bounds the messages to sagas that have been read and are not durable in their
	// journals yet: 8 MiB, plus one message. Further messages stay in the store until there is
	// room.
	MessageBytes int
	MaxBatch     int // 512 appends in a commit
	MaxBytes     int // 8 MiB of appends in a commit, unless it has only one
	// RequireSync refuses starts while commits do not wait for a second machine, see journal.Log.
	RequireSync bool
	SyncEvery   time.Duration // 1m: between checks of that
}

func (c *Config) defaults() {
	c.Lanes = cmp.Or(c.Lanes, 1)
	c.Lease = cmp.Or(c.Lease, 15*time.Second)
	c.Drain = cmp.Or(c.Drain, 30*time.Second)
	c.Poll = cmp.Or(c.Poll, 250*time.Millisecond)
	c.ParkAfter = cmp.Or(c.ParkAfter, 3*time.Second)
	c.Retention = cmp.Or(c.Retention, 30*24*time.Hour)
	c.Expire = cmp.Or(c.Expire, time.Minute)
	c.Watch = cmp.Or(c.Watch, 5*time.Second)
	c.StallAfter = cmp.Or(c.StallAfter, 5*time.Minute)
	c.StallScan = cmp.Or(c.StallScan, min(15*time.Second, c.StallAfter/4))
	c.SyncEvery = cmp.Or(c.SyncEvery, time.Minute)
	c.MaxRunning = cmp.Or(c.MaxRunning, 10_000)
	c.MaxStarts = cmp.Or(c.MaxStarts, 2000)
	c.StartBytes = cmp.Or(c.StartBytes, 64<<20)
	c.MaxCalls = cmp.Or(c.MaxCalls, 1000)
	c.AnswerBytes = cmp.Or(c.AnswerBytes, 32<<20)
	c.SagaBytes = cmp.Or(c.SagaBytes, 128<<20)
	c.MessageBytes = cmp.Or(c.MessageBytes, 8<<20)
	c.MaxBatch = cmp.Or(c.MaxBatch, 512)
	c.MaxBytes = cmp.Or(c.MaxBytes, 8<<20)
	if c.Meter == nil {
		c.Meter = unmetered{}
	}
	if c.Archived == nil {
		c.Archived = func(context.Context) (bool, error) { return false, nil }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// Engine runs sagas on this node.
type Engine struct {
	cfg     Config
	lanes   []*laneLoop
	lease   lease
	former  string // the node that the next registration replaces; "": none. Used before Run, and then only by keep
	hub     hub
	health  *health
	stats   counters
	calls   chan struct{}  // a token for each request in flight
	answers *quota.Pool    // the memory of responses that are being read, or are not durable yet
	reads   chan struct{}  // a token for each large response that is being read
	window  *MessageWindow // the memory of messages that are not durable in their sagas' journals yet
	loaders chan struct{}  // a token for each journal being read
	large   chan struct{}  // a token for each journal that is read by itself, or waits for memory
	wake    chan struct{}  // starts a scan for claims and messages
	more    chan struct{}  // starts a scan for messages only
	fenced  chan string    // nodes whose lease was gone when they committed

	renewals, messageReads, claims, expiries, reaps, unheld, syncs, rivals outage

	stalls stalls // found by this node

	callCtx     context.Context // cancelled when attempts in flight are abandoned
	cancelCall  context.CancelFunc
	cancelStore context.CancelFunc
	storeCtx    context.Context // cancelled at shutdown, after the lanes have drained or the grace period is over
	stopping    atomic.Bool
	identity    atomic.Value // string: the node id that the lanes write under; "" between leases
	loading     loading
	tails       tails
	timeline    atomic.Int64   // of the lease; 0: unknown
	alone       atomic.Bool    // RequireSync is set, and commits are not known to wait for a second machine
	starting    atomic.Int64   // starts whose commit is pending
	startBytes  atomic.Int64   // the bytes of their input
	work        sync.WaitGroup // calls and loads
	workers     goroutinePool  // run the calls
}

// New returns an engine that does nothing until Run.
func New(cfg Config) *Engine {
	cfg.defaults()
	health := &health{Store: faultstore.Store(cfg.Store), wait: minAiling}
	cfg.Store = health
	e := &Engine{cfg: cfg, health: health, former: cfg.Predecessor, calls: make(chan struct{}, cfg.MaxCalls), answers: quota.New(int64(cfg.AnswerBytes)), reads: make(chan struct{}, largeReads), loaders: make(chan struct{}, 8), large: make(chan struct{}, 8), wake: make(chan struct{}, 1), more: make(chan struct{}, 1), window: NewMessageWindow(cfg.MessageBytes), fenced: make(chan string, 1)}
	e.callCtx, e.cancelCall = context.WithCancel(context.Background())
	e.storeCtx, e.cancelStore = context.WithCancel(context.Background())
	e.identity.Store("")
	warns := func(what string) outage { return outage{what: what, log: cfg.Log, level: slog.LevelWarn} }
	e.renewals, e.messageReads, e.claims = warns("could not renew the lease; the node stops sending requests when the lease ends"), warns("could not read messages for sagas"), warns("could not claim sagas")
	e.expiries = warns("could not delete sagas whose retention has ended; the node will retry")
	e.reaps = warns("could not check for tasks whose workers stopped sending heartbeats")
	e.stalls.scans = warns("could not check for stalled sagas and steps")
	e.syncs = warns("starts are refused: --require-sync is set, and commits do not wait for a second machine")
	e.rivals = warns("a second database server accepts writes with an older state of this database: stop it, commits that programs make there are lost")
	e.unheld = warns("could not check for sagas that the database lists as this node's but that it does not run")
	e.workers = goroutinePool{tasks: make(chan func()), quit: make(chan struct{}), all: &e.work}
	for range cfg.Lanes {
		e.lanes = append(e.lanes, newLaneLoop(e))
	}
	return e
}

// Run registers the node and runs sagas until ctx is done. Then it starts nothing new, waits up to
// Config.Drain for the attempts in flight, and releases its sagas. It returns an error if the node
// cannot be registered.
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
	loops.Go(func() { e.findStalls(quit) })

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
		e.cfg.Log.Warn("could not release the lease; other nodes take over its sagas when it ends", "error", err)
	}
	return nil
}

// drain waits until the lanes are empty. After Config.Drain it cancels the attempts in flight, and
// a few seconds later it stops waiting.
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
				e.cfg.Log.Warn("stopping with sagas in memory: their attempts in flight are in doubt for the next node")
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

// Confirm makes sure that a saga which was found by reading is as durable as one that this node has
// started: see journal.Log. Errors: saga.ErrUnavailable, the error of ctx.
func (e *Engine) Confirm(ctx context.Context) error {
	node := e.node()
	if node == "" {
		return saga.ErrUnavailable
	}
	err := e.cfg.Store.Confirm(ctx, node)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", saga.ErrUnavailable, err)
	}
	return err
}

// Now returns the store's clock as this node knows it: never later than the store's clock.
func (e *Engine) Now() time.Time { return e.lease.now() }

// Start makes a saga durable and starts it. machine.Begin must have checked start and data. With
// follow, Begun.Ended delivers the saga's end until Begun.Stop is called. Errors: saga.ErrBusy and
// saga.ErrUnavailable, with the saga's id and journal.ErrUnknown if the start may be durable,
// because its commit had an unknown result or the node lost its lease meanwhile;
// journal.ErrStartKey and journal.ErrUnique, with the id of the saga that has the key or value;
// journal.ErrNotNewest; machine.ErrTooLate; the error of ctx, if it is not known whether the saga
// was started.
func (e *Engine) Start(ctx context.Context, def *saga.Definition, start journal.Start, data saga.StartedData, follow bool) (machine.Begun, error) {
	id, leave, err := e.admit(data)
	if err != nil {
		return machine.Begun{}, err
	}
	defer leave()
	begun := machine.Begun{ID: id, Stop: func() {}}
	if follow {
		begun.Ended, begun.Stop = e.hub.start(id)
	}
	begun.View, begun.ID, err = e.submit(ctx, StartSaga{ID: id, Def: def, Start: start, Data: data, View: !follow})
	if err != nil {
		begun.Stop()
	}
	return begun, err
}

// Submit is like Start, but returns before the commit, so that the starts that a caller submits one
// after another share commits. wait returns the saga's id when the start is durable; its errors are
// Start's. The caller must call wait once: until then the start counts as pending.
func (e *Engine) Submit(ctx context.Context, def *saga.Definition, start journal.Start, data saga.StartedData) (wait func(context.Context) (uuid.UUID, error), err error) {
	id, leave, err := e.admit(data)
	if err != nil {
		return nil, err
	}
	reply, err := e.enqueue(ctx, StartSaga{ID: id, Def: def, Start: start, Data: data})
	if err != nil {
		leave()
		return nil, err
	}
	return func(ctx context.Context) (uuid.UUID, error) {
		defer leave()
		_, id, err := replied(ctx, reply)
		return id, err
	}, nil
}

// StartAs is like Start without follow, for an id that the caller chooses. It also returns
// journal.ErrConflict or journal.ErrStartKey if the saga exists already, and
// journal.ErrParentEnded.
func (e *Engine) StartAs(ctx context.Context, id uuid.UUID, def *saga.Definition, start journal.Start, data saga.StartedData) error {
	_, leave, err := e.admit(data)
	if err != nil {
		return err
	}
	defer leave()
	return e.StartChild(ctx, id, def, start, data)
}

// StartChild is like StartAs, and never returns saga.ErrBusy: the child's parent runs already, and
// waits for it.
func (e *Engine) StartChild(ctx context.Context, id uuid.UUID, def *saga.Definition, start journal.Start, data saga.StartedData) error {
	if !e.Ready() {
		return saga.ErrUnavailable
	}
	_, _, err := e.submit(ctx, StartSaga{ID: id, Def: def, Start: start, Data: data})
	return err
}

// admit returns an id for a new saga, unless the node cannot take a start now, or has too many. The
// start counts as pending until leave is called.
func (e *Engine) admit(data saga.StartedData) (id uuid.UUID, leave func(), err error) {
	if e.stopping.Load() {
		return uuid.Nil, nil, saga.ErrStopping
	}
	if !e.Ready() || e.alone.Load() {
		return uuid.Nil, nil, saga.ErrUnavailable
	}
	size := int64(len(data.Input))
	starts, bytes := e.starting.Add(1), e.startBytes.Add(size)
	leave = func() {
		e.startBytes.Add(-size)
		e.starting.Add(-1)
	}
	if starts > int64(e.cfg.MaxStarts) || bytes > int64(e.cfg.StartBytes) || e.running() >= e.cfg.MaxRunning {
		e.stats.refused.Add(1)
		err = saga.ErrBusy
	} else {
		id, err = uuid.NewV7AtTime(e.Now())
	}
	if err != nil {
		leave()
		return uuid.Nil, nil, err
	}
	return id, leave, nil
}

func (e *Engine) submit(ctx context.Context, s StartSaga) (*machine.View, uuid.UUID, error) {
	reply, err := e.enqueue(ctx, s)
	if err != nil {
		return nil, uuid.Nil, err
	}
	return replied(ctx, reply)
}

// enqueue gives a start to the lane of its saga. reply receives the result.
func (e *Engine) enqueue(ctx context.Context, s StartSaga) (reply <-chan Replied, err error) {
	ch := make(chan Replied, 1)
	s.Reply = ch
	select {
	case e.laneOf(s.ID).events <- s:
		return ch, nil
	case <-ctx.Done():
		return nil, saga.ErrUnavailable
	}
}

// replied waits for the result of a start.
func replied(ctx context.Context, reply <-chan Replied) (*machine.View, uuid.UUID, error) {
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

// Send leaves a message for a saga, whichever node runs it, and makes this node check for messages.
// Errors are the store's.
func (e *Engine) Send(ctx context.Context, m journal.Message) error {
	if err := e.cfg.Store.Send(ctx, m); err != nil {
		return err
	}
	e.wakeScanner()
	return nil
}

// Ask brings a command to a saga, and reports whether this node runs the saga and has taken the
// command. If it has not, send the message instead. If it has, the command is applied or refused
// when the journal has a record of it. If no record comes, because the node has lost the saga, send
// the message, with the same id.
func (e *Engine) Ask(ctx context.Context, id, message uuid.UUID, c saga.Command) bool {
	if !e.Ready() {
		return false
	}
	took := make(chan bool, 1)
	select {
	case e.laneOf(id).events <- Asked{ID: id, Message: message, Command: c, Reply: took}:
	case <-ctx.Done():
		return false
	}
	select {
	case t := <-took:
		return t
	case <-ctx.Done():
		return false
	}
}

// Watch returns a channel that receives a value after a saga's journal has grown on this node.
// Several appends may result in one value. stop ends the watch. The channel does not report appends
// by other nodes, so callers must poll as well.
func (e *Engine) Watch(id uuid.UUID) (grown <-chan struct{}, stop func()) { return e.hub.watch(id) }

// Follow is Watch for a caller that reads the journal, too: the feed has what this node appends.
// Its records are those that the store returns. The caller begins the feed before it reads the
// journal, and then needs to read it again only if the feed does not have the next record. Stop
// ends it.
func (e *Engine) Follow(id uuid.UUID) *journal.Feed { return e.hub.feed(id) }

// LastSeq returns the seq of the last record of a session's journal if this node knows it: it has
// the session in memory, appends nothing to it at the moment, and has the lease that makes it the
// only writer. Otherwise ok is false. Records that were committed during the call may be missing.
func (e *Engine) LastSeq(session uuid.UUID) (seq int64, ok bool) {
	if !e.lease.valid() {
		return 0, false
	}
	return e.hub.last(session)
}

// wakeScanner starts a scan at once.
func (e *Engine) wakeScanner() { nudge(e.wake) }

// nudge sends a value to a channel of capacity one, unless one is pending already.
func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (e *Engine) laneOf(id uuid.UUID) *laneLoop {
	return e.lanes[e.laneNumber(id)]
}

// sagaBytes returns about how many bytes the sagas take that are in memory or being loaded.
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

// registerTime bounds the first registration: a commit that waits for a missing standby would block
// without a message.
const registerTime = 15 * time.Second

// register takes a lease under a new id, as the successor of the node's earlier id. Nothing is
// written under the new id before Config.Registered has recorded it, so a process that reads the
// recorded id misses no saga.
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
	arrived := time.Now() // before the node's id is recorded, which may take long
	if err != nil {
		return err
	}
	e.former = l.Node
	if e.cfg.Registered != nil {
		if err := e.cfg.Registered(l.Node); err != nil {
			e.cfg.Log.Warn("could not record the node's id: if this process dies, its sagas are taken over only when its lease ends", "error", err)
		}
	}
	e.lease.renewed(l, asked, arrived)
	e.timeline.Store(l.Timeline)
	e.alone.Store(e.cfg.RequireSync) // it may be another server
	e.checkSync(ctx)
	return nil
}

// checkSync refuses starts, or accepts them again. A check that fails changes nothing.
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

// keep renews the lease, and registers again when it is lost.
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
			if err != nil || e.alone.Load() { // a standby may be missing or back: do not wait for the next SyncEvery
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
	arrived := time.Now()
	if l.Node != "" {
		e.cfg.Meter.Renewed(e.lease.left())
		e.lease.renewed(l, asked, arrived)
		e.rivals.observe(l.Rival)
	}
	if err != nil {
		e.stats.renewFailed.Add(1)
	}
	e.renewals.observe(err, "lease_left", e.lease.left().Round(time.Millisecond))
	return err
}

// reregister drops all sagas and registers under a new id.
func (e *Engine) reregister(quit <-chan struct{}) {
	timeline := e.timeline.Load()
	e.cfg.Log.Error("lease lost: dropping all sagas and registering again")
	e.identity.Store("")
	e.lease.end()
	for _, l := range e.lanes {
		l.send(LeaseLost{})
	}
	failpoint.Hit("reregister")
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), e.cfg.Lease)
		err := e.register(ctx)
		cancel()
		if err == nil {
			break
		}
		e.cfg.Log.Warn("could not register the node; it will retry", "error", err)
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

// announce gives the lanes their node id. The node claims sagas only after that, so no claimed saga
// reaches a lane that has no id.
func (e *Engine) announce() {
	node := e.lease.node()
	for _, l := range e.lanes {
		l.send(Leased{Node: node})
	}
	e.identity.Store(node)
}

// node returns the id that the lanes write under, "" between leases.
func (e *Engine) node() string { return e.identity.Load().(string) }

// random is the source of jitter.
func random() uint64 { return rand.Uint64() }
