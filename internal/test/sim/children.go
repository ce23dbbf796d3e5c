package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
	"recourse/saga"
	runclient "recourse/saga/kinds/run/client"
	"recourse/saga/machine"
)

// spawning is a request to another saga, made by the real caller (package run). That caller blocks
// while it waits, so it runs as a coroutine, and events continue it.
type spawning struct {
	n      *node
	next   func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	answer saga.Answer
	err    error // the result of the start that it waits for
	asks   int   // number of its current wait
	done   bool
}

var errUnknown = errors.New("simulated: result unknown")

// spawn performs a request to another saga.
func (n *node) spawn(send machine.Send, answered func(saga.Answer)) {
	c := &spawning{n: n}
	caller := runclient.Caller{Engine: c, Sagas: n.s.store, Definitions: definitionSet(n.s.defs)}
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		c.answer = caller.Call(ctx, send.Request)
		c.done = true
		answered(c.answer)
	})
	n.s.calls = append(n.s.calls, c)
	n.s.after(send.Timeout, func() { c.resume(1, context.DeadlineExceeded) })
	c.next()
}

// resume ends the wait of that number, unless it is over.
func (c *spawning) resume(number int, err error) {
	if c.asks == number && !c.done {
		c.err = err
		c.asks++
		c.next()
	}
}

// replied passes the lane's reply to a start.
func (c *spawning) replied(err error) { c.resume(1, err) }

// hangUp ends the coroutines that still wait, so that none outlives the run.
func (s *sim) hangUp() {
	for _, c := range s.calls {
		c.n.alive = false // no later event of its node may happen
		c.stop()
	}
}

// StartChild implements runclient.Engine.
func (c *spawning) StartChild(_ context.Context, id uuid.UUID, def *saga.Definition, start journal.Start, data saga.StartedData) error {
	n := c.n
	if !n.lease.Valid(n.local()) || n.leaves {
		return saga.ErrUnavailable
	}
	if n.s.fault(ChildLost, n.name) {
		return errUnknown
	}
	start.CreatedAt = n.s.now
	ask := engine.StartSaga{ID: id, Def: def, Start: start, Data: data, Reply: c}
	if n.s.fault(ChildUnknown, n.name) {
		ask.Reply = "nobody"
		n.later(0, func() { n.tell(id, ask) })
		return errUnknown
	}
	if n.s.fault(ChildLate, n.name) {
		ask.Reply = "nobody"
		n.later(n.s.between(0, 5*time.Second), func() { n.tell(id, ask) })
		return errUnknown
	}
	n.later(0, func() { n.tell(id, ask) })
	c.asks = 1
	if !c.yield(struct{}{}) {
		return errUnknown
	}
	return c.err
}

// Send implements runclient.Engine.
func (c *spawning) Send(_ context.Context, m journal.Message) error {
	if c.n.s.fault(RevertLost, c.n.name) {
		return errUnknown
	}
	if c.n.s.fault(RevertTwice, c.n.name) {
		if err := c.n.s.store.Send(ctx, m); err != nil {
			return err
		}
	}
	return c.n.s.store.Send(ctx, m)
}

// definitionSet has one version of each definition.
type definitionSet map[string]*saga.Definition

// Definition implements runclient.Definitions.
func (d definitionSet) Definition(_ context.Context, name string, _ int) (*saga.Definition, error) {
	if d[name] == nil {
		return nil, fmt.Errorf("definition %s: %w", name, journal.ErrNotFound)
	}
	return d[name], nil
}

// Newest implements runclient.Definitions.
func (d definitionSet) Newest(ctx context.Context, name string) (journal.Document, *saga.Definition, error) {
	def, err := d.Definition(ctx, name, 1)
	return journal.Document{Name: name, Version: 1}, def, err
}
