package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/internal/evidence"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// node is a node of the simulation: it does with events what package engine does with goroutines.
type node struct {
	s      *sim
	o      Options
	name   string
	offset time.Duration // the offset of its own clock at the start of the run
	drift  int64         // the drift of its own clock, in parts per million
	epoch  int           // number of the process; events of earlier processes are lost
	alive  bool
	frozen time.Time // nothing happens on the node until then
	lanes  []*engine.Lane
	blocks []blockage // by lane
	lease  engine.Lease
	noted  bool              // its id is recorded outside the process, so the next process knows that it has ended
	former string            // the node that its next registration replaces; "": unknown
	taken  []journal.Claimed // by a claim whose response was lost
	leaves bool              // it is stopping
	listed bool              // it has asked the MCP server for its tools
	memory answerMemory      // of responses
	window *engine.MessageWindow
	loads  map[uuid.UUID]int // how many loads of each saga are in flight

	heads    *evidence.Heads // of the journals that it appended to since the last anchor
	chain    *evidence.Chain
	anchored time.Time // when it last signed
}

var ctx = context.Background()

func newNode(s *sim, o Options, name string) *node {
	return &node{s: s, o: o, name: name, offset: s.between(-time.Hour, time.Hour), drift: s.rng.Int64N(2001) - 1000}
}

// local returns the node's own clock.
func (n *node) local() time.Time {
	gone := n.s.now.Sub(epoch)
	return n.s.now.Add(n.offset + gone/1_000_000*time.Duration(n.drift))
}

// later schedules an event of this process: it is lost if the process dies, and late if the process
// is frozen.
func (n *node) later(d time.Duration, do func()) {
	epoch := n.epoch
	n.s.after(d, func() { n.now(epoch, do) })
}

func (n *node) now(epoch int, do func()) {
	if !n.alive || n.epoch != epoch {
		return
	}
	if n.s.now.Before(n.frozen) {
		n.s.after(n.frozen.Sub(n.s.now), func() { n.now(epoch, do) })
		return
	}
	do()
}

func (n *node) boot() {
	n.alive, n.leaves, n.listed = true, false, false
	n.epoch++
	n.blocks = make([]blockage, lanes)
	n.lanes, n.lease, n.taken, n.loads, n.memory = nil, engine.Lease{}, nil, make(map[uuid.UUID]int), answerMemory{epoch: n.epoch}
	if !n.noted {
		n.former = ""
	}
	maxBytes := []int{0, 2 << 10, 8 << 10}[n.s.result.Seed%3] // per commit: one or two appends, or a few
	n.memory.answers = []int{1, 4, 1 << 20}[n.s.result.Seed%3]
	n.window = engine.NewMessageWindow(n.messageBytes())
	maxSagaBytes := []int{0, 8 << 10, 0, 2 << 10, 0}[n.s.result.Seed%5] // per lane: a few sagas, or one or two
	for range lanes {
		n.lanes = append(n.lanes, engine.NewLane(engine.LaneConfig{ParkAfter: time.Second, MaxBatch: 8, MaxBytes: maxBytes, MaxRecords: 16, MaxSagaBytes: maxSagaBytes, Random: n.s.rng.Uint64, Notices: notices(), Prepare: n.prepare}))
	}
	n.heads, n.chain, n.anchored = &evidence.Heads{}, evidence.NewChain(anchorKey, n.name+"-"+strconv.Itoa(n.epoch)), n.s.now
	n.register()
	n.every(ttl/3, n.renew)
	n.every(poll, n.scan)
	n.every(watch, func() { n.toAll(engine.Watch{}) })
	n.every(reapEvery, n.reap)
	n.every(ownedEvery, n.findUnheld)
}

// messageBytes returns the size of the message window: one message, or a few.
func (n *node) messageBytes() int { return []int{1, 1 << 10, 1 << 20, 300}[n.s.result.Seed%4] }

// die ends the process. Another one begins after a while.
func (n *node) die(pause time.Duration) {
	n.alive = false
	n.epoch++
	n.s.after(pause, func() {
		if !n.alive {
			n.boot()
		}
	})
}

func (n *node) every(d time.Duration, do func()) {
	n.later(d, func() {
		do()
		n.every(d, do)
	})
}

func (n *node) register() {
	id := n.name + "-" + strconv.Itoa(n.epoch) + "-" + strconv.Itoa(n.s.n)
	var dead []string
	if n.former != "" {
		dead = []string{n.former}
		n.s.expires[n.former] = n.s.now // from now on, a request sent as that node is a violation
	}
	asked := n.local()
	l, err := n.s.store.Register(ctx, id, ttl, dead...)
	if err != nil {
		panic(err)
	}
	n.former = id
	n.s.expires[l.Node] = n.s.now.Add(l.TTL)
	leased := func() {
		n.lease.Renewed(l, asked, n.local())
		n.toAll(engine.Leased{Node: id})
	}
	if n.s.fault(RegisterSlow, n.name) {
		n.later(n.s.between(0, ttl/2), leased)
	} else {
		leased()
	}
}

func (n *node) renew() {
	if n.lease.Node() == "" || n.s.fault(RenewLost, n.name) {
		return
	}
	asked := n.local()
	l, err := n.s.store.Renew(ctx, n.lease.Node(), ttl)
	switch {
	case errors.Is(err, journal.ErrFenced):
		n.reregister()
	case err != nil:
		panic(err)
	default:
		n.s.expires[l.Node] = n.s.now.Add(l.TTL)
		if n.s.fault(RenewUnknown, n.name) {
			return
		}
		n.later(n.s.between(0, 20*time.Millisecond), func() {
			if n.lease.Node() == l.Node {
				n.lease.Renewed(l, asked, n.local())
			}
		})
	}
}

// reregister starts over under a new id.
func (n *node) reregister() {
	n.lease.End()
	n.taken = nil
	n.blocks = make([]blockage, lanes)
	n.toAll(engine.LeaseLost{})
	n.register()
}

// stop ends the process as Engine.Run does: it starts no new work, waits for attempts in flight,
// and releases its sagas.
func (n *node) stop() {
	n.leaves = true
	n.toAll(engine.Drain{})
	patience := n.s.now.Add(n.s.between(ttl/2, 2*ttl))
	var gone func()
	gone = func() {
		running := 0
		for _, l := range n.lanes {
			running += l.Len()
		}
		if running > 0 && n.s.now.Before(patience) {
			n.later(20*time.Millisecond, gone)
			return
		}
		if err := n.s.store.Release(ctx, n.lease.Node()); err != nil {
			panic(err)
		}
		n.anchor(true)
		n.die(n.s.between(100*time.Millisecond, ttl))
	}
	gone()
}

// toAll passes an event to every lane.
func (n *node) toAll(ev engine.Event) {
	for i := range n.lanes {
		n.handle(i, ev)
	}
}

// laneOf returns the lane of a saga.
func (n *node) laneOf(id uuid.UUID) int { return int(id[15]) % len(n.lanes) }

func (n *node) tell(id uuid.UUID, ev engine.Event) { n.handle(n.laneOf(id), ev) }

// handle passes an event to a lane, and carries out its effects.
func (n *node) handle(i int, ev engine.Event) {
	if !n.alive || n.crashable() {
		return
	}
	lane, process := n.lanes[i], n.epoch
	now, latest := n.lease.Now(n.local()), n.lease.Latest(n.local())
	if w := (writing{n.lease.Node(), now.UnixMilli()}); n.s.wrote[w].IsZero() {
		n.s.wrote[w] = n.s.now
	}
	for _, eff := range lane.Handle(now, latest, ev) {
		n.do(i, eff)
		if n.epoch != process || n.crashable() {
			return
		}
	}
	if at := lane.Alarm(); !at.IsZero() {
		n.later(max(at.Sub(now), time.Millisecond), func() { n.handle(i, engine.Tick{}) })
	}
}

func (n *node) do(i int, eff engine.Effect) {
	switch eff := eff.(type) {
	case engine.Commit:
		n.later(eff.After+n.s.between(0, 5*time.Millisecond), func() { n.commit(i, eff) })
		if n.o.SendEarly {
			for _, a := range eff.Batch {
				n.sendEarly(a)
			}
		}
	case engine.Perform:
		n.later(n.s.between(0, time.Millisecond), func() { n.perform(eff) })
	case engine.Freed:
		switch m := eff.Memory.(type) {
		case int:
			n.freed(m)
		case engine.Delivery:
			if !n.window.Done(m) {
				n.s.violate(m.Saga, "12: memory of %d messages was returned that were not in flight", m.Messages)
			}
		}
	case engine.Acquired:
		n.acquired(eff)
	case engine.Advanced:
		n.advanced(eff)
	case engine.Took:
		eff.Reply.(*asked).took = eff.Took
	case engine.Replied:
		if eff.Err == nil {
			n.s.acked[eff.ID] = true
		}
		if c, ok := eff.Reply.(*spawning); ok {
			n.later(0, func() { c.replied(eff.Err) })
		}
	case engine.Dropped:
		delete(n.blocks[i].others, eff.ID)
		if eff.Err != nil && !expected(eff.Err) {
			n.s.violate(eff.ID, "the lane gave it up: %v", eff.Err)
		}
		// Without this check, the release of unheld sagas would hide every bug that makes a lane
		// forget a saga.
		if errors.Is(eff.Err, engine.ErrUnheld) && !n.s.forgotten[eff.ID] {
			n.s.violate(eff.ID, "12: its node forgot it without a fault")
		}
	case engine.FoundUnheld:
		n.later(n.s.between(0, 10*time.Millisecond), func() {
			seq, err := engine.LastSeq(ctx, n.s.store, eff.ID, eff.Node)
			if err != nil {
				panic(err)
			}
			if seq > 0 {
				n.tell(eff.ID, engine.Unheld{ID: eff.ID, Node: eff.Node, Seq: seq})
			}
		})
	case engine.Stalled:
		n.s.violate(eff.ID, "12: nothing would have continued it: %s", eff.Why)
	case engine.Reload:
		n.loads[eff.Claimed.Saga]++
		n.later(n.s.between(0, 10*time.Millisecond), func() { n.load(eff.Node, eff.Claimed, 1) })
	case engine.Fenced:
		n.later(0, func() {
			if n.lease.Node() == eff.Node {
				n.reregister()
			}
		})
	}
}

// expected reports whether a lane may drop a saga with this error.
func expected(err error) bool {
	for _, ok := range []error{journal.ErrFenced, journal.ErrConflict, saga.ErrUnavailable, journal.ErrUnique, journal.ErrStartKey, journal.ErrNotNewest, journal.ErrParentEnded, engine.ErrUnheld, machine.ErrTooLate, errRead} {
		if errors.Is(err, ok) {
			return true
		}
	}
	return false
}

var (
	errDisk = errors.New("simulated: disk full")
	errRead = errors.New("simulated: the journal cannot be read")
	errRow  = errors.New("simulated: a row is too large")
)

// commit appends a batch. A fault may prevent that, or lose the result.
func (n *node) commit(i int, c engine.Commit) {
	apply := func() ([]journal.Result, error) {
		if n.o.DropRecords && n.s.random(20) {
			return make([]journal.Result, len(c.Batch)), nil
		}
		if len(n.s.refuses(c.Batch)) > 0 {
			return nil, errRow
		}
		n.s.early(c.Batch)
		n.s.announced(c.Batch)
		results, err := n.s.store.Append(ctx, c.Node, c.Batch)
		n.s.noticed(c.Batch, results)
		n.s.compared(c.Batch, results)
		return results, err
	}
	slow := 5 * time.Millisecond
	answer := func(results []journal.Result, err error) {
		if !errors.Is(err, errRow) {
			n.blocks[i].freed(c.Batch)
		}
		n.later(n.s.between(0, slow), func() {
			n.handle(i, engine.Committed{Number: c.Number, Results: results, Err: err})
			if n.window.MorePending() {
				n.later(0, func() { n.readMessages(n.lease.Node()) })
			}
		})
	}
	unknown := fmt.Errorf("simulated: %w", journal.ErrUnknown)
	late := fmt.Errorf("%w: %w", unknown, context.DeadlineExceeded)
	for range c.Batch { // a longer batch, which is rare, is hit more often
		if n.s.fault(AppendRefused, n.name) {
			n.s.refuse(c.Batch)
		}
	}
	switch {
	case n.s.fault(CommitRefused, n.name):
		answer(nil, errDisk)
	case n.s.fault(CommitLost, n.name):
		answer(nil, unknown)
	case n.s.fault(CommitUnknown, n.name):
		_, _ = apply()
		answer(nil, unknown)
	case n.s.fault(CommitLate, n.name):
		n.s.after(n.s.between(time.Millisecond, ttl), func() { _, _ = apply() })
		answer(nil, late)
	default:
		results, err := apply()
		if c.Node == n.lease.Node() { // otherwise the lane has forgotten the batch
			n.blocks[i].tried(n.s, c.Batch, err)
		}
		if n.s.fault(CommitSlow, n.name) {
			slow = ttl
		}
		answer(results, err)
	}
}

// early checks timers against the store's own clock: the nodes' estimate may be late, but never
// early by more than a round trip.
func (s *sim) early(batch []journal.Append) {
	for _, a := range batch {
		for _, r := range a.Records {
			if r.Kind != journal.Woke {
				continue
			}
			var d saga.WokeData
			mustRead(r, &d)
			if d.Due.Sub(s.now) > 25*time.Millisecond {
				s.violate(a.Saga, "13: woke %v before it was due by the store's clock", d.Due.Sub(s.now))
			}
		}
	}
}

// perform sends a request as Engine does.
func (n *node) perform(p engine.Perform) {
	if n.lease.Node() != p.Node || !p.Permit.Valid() {
		return
	}
	tell := func(a saga.Answer, memory any) {
		n.tell(p.ID, engine.Answered{ID: p.ID, Path: p.Send.Path, Way: p.Send.Way, Attempt: p.Send.Attempt, Answer: p.Send.Read(a), At: n.lease.Latest(n.local()), Memory: memory})
	}
	answered := func(a saga.Answer) {
		n.later(0, func() {
			n.stream(p.Send, a, func(a saga.Answer) {
				n.read(p, func(memory any) { tell(a, memory) })
			})
		})
	}
	local := n.local()
	if !n.lease.Valid(local) {
		n.later(20*time.Millisecond, func() { n.perform(p) })
		return
	}
	if !p.Send.Until.IsZero() && n.lease.Now(local).After(p.Send.Until) {
		answered(saga.Answer{Code: "not_sent"})
		return
	}
	if n.s.now.After(n.s.expires[p.Node]) {
		n.s.violate(p.ID, "3: %s was sent after the node's lease had ended", p.Send.Path)
	}
	if p.Send.Kind == "run" { // whose responses are small
		n.spawn(p.Send, func(a saga.Answer) {
			n.later(0, func() { tell(a, nil) })
		})
		return
	}
	n.request(p.Send, answered)
}

// request sends a request, and calls answered once: with the response, or with a timeout.
func (n *node) request(send machine.Send, answered func(saga.Answer)) {
	s := n.s
	if s.fault(RequestUnsent, n.name) {
		answered(saga.Answer{Code: "connection"})
		return
	}
	answered = n.listing(&send.Request, answered)
	over := false
	once := func(a saga.Answer) {
		if !over {
			over = true
			answered(a)
		}
	}
	s.after(send.Timeout, func() { once(saga.Answer{Sent: true, Code: "timeout"}) })
	if s.fault(RequestLost, n.name) {
		return
	}
	delay := s.between(time.Millisecond, 50*time.Millisecond)
	if s.fault(RequestLate, n.name) {
		// After the caller's timeout, but within the margin that `verify` waits for.
		delay = s.between(0, send.Timeout+margin-time.Millisecond)
	}
	s.after(delay, func() { s.world.arrive(send, once) })
}

func (n *node) sendEarly(a journal.Append) {
	for _, r := range a.Records {
		if r.Kind != journal.Intent || r.Attempt == 0 || r.Way != journal.Do {
			continue
		}
		var d saga.IntentData
		if err := r.Decode(&d); err != nil {
			panic(err)
		}
		n.request(machine.Send{Path: r.Path, Way: r.Way, Key: r.Key, Request: *d.Request, Timeout: time.Second}, func(saga.Answer) {})
	}
}

// scan reads messages and claims sagas, as Engine does.
func (n *node) scan() {
	node := n.lease.Node()
	if node == "" || !n.lease.Valid(n.local()) || n.s.fault(ScanLost, n.name) {
		return
	}
	if !n.leaves && n.s.fault(Stop, n.name) {
		n.stop()
		return
	}
	n.readMessages(node)
	if n.leaves {
		return
	}
	if n.s.fault(ClaimForgotten, n.name) {
		claimed, err := n.s.store.Claim(ctx, node, 10)
		if err != nil && !errors.Is(err, journal.ErrFenced) {
			panic(err)
		}
		for _, c := range claimed {
			n.s.forgotten[c.Saga] = true
		}
		return
	}
	claimed := n.taken
	n.taken = nil
	if len(claimed) == 0 {
		var err error
		if claimed, err = n.s.store.Claim(ctx, node, 10); errors.Is(err, journal.ErrFenced) {
			return
		} else if err != nil {
			panic(err)
		}
		if len(claimed) > 0 && n.s.fault(ClaimUnknown, n.name) {
			n.taken = claimed           // the next Claim returns them, by its contract
			for _, c := range claimed { // until then, this node does not run sagas that it owns
				n.s.forgotten[c.Saga] = true
			}
			return
		}
	}
	for _, c := range claimed {
		n.loads[c.Saga]++
		n.later(n.s.between(0, 10*time.Millisecond), func() { n.load(node, c, 1) })
	}
}

// readMessages passes messages to the lanes as far as there is room, as Engine does.
func (n *node) readMessages(node string) {
	recipients, err := n.s.store.Recipients(ctx, node, uuid.Nil, 1<<20)
	if err != nil {
		panic(err)
	}
	recipients = slices.DeleteFunc(recipients, func(b journal.Recipient) bool { return n.loads[b.Saga] > 0 })
	err = n.window.Deliver(recipients, func(sagas []uuid.UUID, limit, bytes int) ([]journal.Message, error) {
		return n.s.store.Messages(ctx, sagas, limit, bytes)
	}, func(ev engine.Received) {
		n.later(n.s.between(0, time.Millisecond), func() {
			ev.At = n.lease.Latest(n.local())
			n.tell(ev.ID, ev)
		})
	})
	if err != nil {
		panic(err)
	}
}

// loadTries is the same as Engine's.
const loadTries = 8

func (n *node) load(node string, c journal.Claimed, try int) {
	if n.lease.Node() != node {
		n.loads[c.Saga]--
		return
	}
	ev := engine.Loaded{Claimed: c, Node: node, Def: n.s.defs[c.Definition], At: n.lease.Latest(n.local())}
	records, err := n.s.store.Records(ctx, c.Saga, 0, 1<<20)
	if err != nil && !errors.Is(err, journal.ErrNotFound) { // it was deleted in the meantime
		panic(err)
	}
	if n.s.fault(LoadFailed, n.name) || err != nil {
		if try < loadTries {
			n.later(min(50*time.Millisecond<<try, 2*time.Second), func() { n.load(node, c, try+1) })
			return
		}
		ev.Err = errRead
	} else if ev.Messages, err = n.s.store.Messages(ctx, []uuid.UUID{c.Saga}, 100, n.messageBytes()); err != nil {
		panic(err)
	}
	ev.Records = records
	n.loads[c.Saga]--
	ev.Memory = n.window.Load(c, ev.Messages)
	n.tell(c.Saga, ev)
}

// findUnheld searches for sagas that the node owns but does not run, as Engine does.
func (n *node) findUnheld() {
	node := n.lease.Node()
	if node == "" || n.leaves || !n.lease.Valid(n.local()) {
		return
	}
	owned, err := n.s.store.Owned(ctx, node, uuid.Nil, 1<<20)
	if err != nil {
		panic(err)
	}
	byLane := make([][]uuid.UUID, len(n.lanes))
	for _, id := range owned {
		if n.loads[id] == 0 {
			byLane[n.laneOf(id)] = append(byLane[n.laneOf(id)], id)
		}
	}
	process := n.epoch
	for i, ids := range byLane {
		if n.epoch != process {
			return
		}
		n.handle(i, engine.Owned{Node: node, IDs: ids})
	}
}
