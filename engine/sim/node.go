package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"recourse/engine"
	"recourse/journal"
	"recourse/saga"
)

// node is the shell around a lane, as the simulator has it: what package
// engine's goroutines do, as events.
type node struct {
	s      *sim
	o      Options
	name   string
	epoch  int // of the process; events of an earlier one are lost
	alive  bool
	frozen time.Time // until then nothing of it happens
	lane   *engine.Lane
	lease  string
	until  time.Time // the lease holds, as far as the node knows
}

var ctx = context.Background()

// later schedules something in this process: it is lost when the process dies,
// and late when it is frozen.
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
	n.alive = true
	n.epoch++
	n.lane = engine.NewLane(engine.LaneConfig{ParkAfter: time.Second, MaxBatch: 8, MaxRecords: 16, Chance: n.s.rng.Uint64})
	n.register()
	n.every(ttl/3, n.renew)
	n.every(poll, n.scan)
}

func (n *node) every(d time.Duration, do func()) {
	n.later(d, func() {
		do()
		n.every(d, do)
	})
}

func (n *node) register() {
	n.lease = n.name + "-" + strconv.Itoa(n.epoch) + "-" + strconv.Itoa(n.s.n)
	l, err := n.s.store.Register(ctx, n.lease, ttl)
	if err != nil {
		panic(err)
	}
	n.until = n.s.now.Add(l.TTL - l.TTL/4)
	n.handle(engine.Leased{Node: n.lease})
}

func (n *node) renew() {
	if n.s.fault(10) {
		return // the request was lost
	}
	l, err := n.s.store.Renew(ctx, n.lease, ttl)
	switch {
	case errors.Is(err, journal.ErrFenced):
		n.handle(engine.LeaseLost{})
		n.register()
	case err != nil:
		panic(err)
	default:
		n.until = n.s.now.Add(l.TTL - l.TTL/4)
	}
}

// handle feeds the lane, and carries out what it wants.
func (n *node) handle(ev engine.Event) {
	if n.crashable() {
		return
	}
	for _, eff := range n.lane.Handle(n.s.now, ev) {
		n.do(eff)
		if n.crashable() {
			return
		}
	}
	if at := n.lane.Alarm(); !at.IsZero() {
		n.later(max(at.Sub(n.s.now), time.Millisecond), func() { n.handle(engine.Tick{}) })
	}
}

func (n *node) do(eff engine.Effect) {
	switch eff := eff.(type) {
	case engine.Commit:
		n.later(eff.After+n.s.between(0, 5*time.Millisecond), func() { n.commit(eff) })
		if n.o.SendEarly {
			for _, a := range eff.Batch {
				n.sendEarly(a)
			}
		}
	case engine.Perform:
		n.later(n.s.between(0, time.Millisecond), func() { n.perform(eff) })
	case engine.Replied:
		if eff.Err == nil {
			n.s.acked[eff.ID] = true
		}
	case engine.Dropped:
		if eff.Err != nil && !errors.Is(eff.Err, journal.ErrFenced) && !errors.Is(eff.Err, journal.ErrConflict) &&
			!errors.Is(eff.Err, saga.ErrUnavailable) && !errors.Is(eff.Err, journal.ErrUnique) && !errors.Is(eff.Err, journal.ErrStartKey) {
			n.s.violate(eff.ID, "the lane gave it up: %v", eff.Err)
		}
	case engine.Reload:
		n.later(n.s.between(0, 10*time.Millisecond), func() { n.load(eff.Node, eff.Claimed) })
	case engine.Fenced:
		n.later(0, func() {
			if n.lease != eff.Node {
				return
			}
			n.handle(engine.LeaseLost{})
			n.register()
		})
	}
}

var errDisk = errors.New("simulated: disk full")

// commit reaches the store, or does not, and its answer reaches the node, or does not.
func (n *node) commit(c engine.Commit) {
	apply := func() ([]journal.Result, error) {
		if n.o.DropRecords && n.s.chance(20) {
			return make([]journal.Result, len(c.Batch)), nil
		}
		return n.s.store.Append(ctx, c.Node, c.Batch)
	}
	answer := func(results []journal.Result, err error) {
		n.later(n.s.between(0, 5*time.Millisecond), func() {
			n.handle(engine.Committed{Number: c.Number, Results: results, Err: err})
		})
	}
	switch {
	case n.s.fault(40): // not applied, and known not to be
		answer(nil, errDisk)
	case n.s.fault(40): // lost on the way
		answer(nil, fmt.Errorf("simulated: %w", journal.ErrUnknown))
	case n.s.fault(40): // applied, but the answer is lost
		_, _ = apply()
		answer(nil, fmt.Errorf("simulated: %w", journal.ErrUnknown))
	case n.s.fault(40): // the answer is lost, and it is applied only later
		n.s.after(n.s.between(time.Millisecond, ttl), func() { _, _ = apply() })
		answer(nil, fmt.Errorf("simulated: %w", journal.ErrUnknown))
	default:
		results, err := apply()
		answer(results, err)
	}
}

// perform sends a request as engine's shell does.
func (n *node) perform(p engine.Perform) {
	if n.lease != p.Node {
		return
	}
	answered := func(a saga.Answer) {
		n.later(0, func() {
			n.handle(engine.Answered{ID: p.ID, Path: p.Send.Path, Way: p.Send.Way, Attempt: p.Send.Attempt, Answer: a})
		})
	}
	if n.s.now.After(n.until) || (!p.Send.Until.IsZero() && n.s.now.After(p.Send.Until)) {
		answered(saga.Answer{Code: "not_sent"})
		return
	}
	n.request(p.Send, answered)
}

// request sends, and answers once: with what came back, or with a time-out.
func (n *node) request(send saga.Send, answered func(saga.Answer)) {
	s := n.s
	if s.fault(30) {
		answered(saga.Answer{Code: "connection"})
		return
	}
	over := false
	once := func(a saga.Answer) {
		if !over {
			over = true
			answered(a)
		}
	}
	s.after(send.Timeout, func() { once(saga.Answer{Sent: true, Code: "timeout"}) })
	if s.fault(30) {
		return // lost on the way there
	}
	delay := s.between(time.Millisecond, 50*time.Millisecond)
	if s.fault(15) {
		// Late: past the caller's time-out, but within the margin that `verify` waits for.
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
		if err := json.Unmarshal(r.Data, &d); err != nil {
			panic(err)
		}
		n.request(saga.Send{Path: r.Path, Way: r.Way, Key: r.Key, Request: *d.Request, Timeout: time.Second}, func(saga.Answer) {})
	}
}

// scan looks for mail and claims, as engine's shell does.
func (n *node) scan() {
	if n.s.now.After(n.until) || n.s.fault(10) {
		return
	}
	mail, err := n.s.store.Mail(ctx, n.lease, 100)
	if err != nil {
		panic(err)
	}
	for _, m := range mail {
		n.later(n.s.between(0, time.Millisecond), func() { n.handle(engine.Mailed{ID: m.Saga, Mail: []journal.Mail{m}}) })
	}
	node := n.lease
	claimed, err := n.s.store.Claim(ctx, node, 10)
	if err != nil {
		panic(err)
	}
	for _, c := range claimed {
		n.later(n.s.between(0, 10*time.Millisecond), func() { n.load(node, c) })
	}
}

func (n *node) load(node string, c journal.Claimed) {
	records, err := n.s.store.Records(ctx, c.Saga, 0, 1<<20)
	if err != nil {
		panic(err)
	}
	n.handle(engine.Loaded{Claimed: c, Node: node, Def: n.s.defs[c.Definition], Records: records})
}
