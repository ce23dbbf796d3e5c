package measure

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// leaseOfIdle is the lease of the idle sessions, which is the default, and beatEvery the time
// between the heartbeats of each: a third, as the command `agent run` does.
const (
	leaseOfIdle = 30 * time.Second
	beatEvery   = leaseOfIdle / 3
)

// idle measures sessions whose processes do nothing but send heartbeats, on a server of their own.
func (c *agents) idle(ctx context.Context) error {
	c.gone += cpuOf(c.engine.PID)
	c.Engine.Kill()
	var err error
	if c.engine, err = c.Engine.Start(); err != nil {
		return err
	}
	if a, err := c.open(ctx, 10); err != nil { // what the first sessions need is not counted
		return err
	} else if err := c.commit(ctx, a); err != nil {
		return err
	}
	before, err := c.memory(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	beats := make(chan beat, c.Sessions)
	var opening, beating sync.WaitGroup
	next := make(chan struct{}, c.Sessions)
	for range c.Sessions {
		next <- struct{}{}
	}
	close(next)
	for range agentsAtOnce {
		opening.Go(func() {
			for range next {
				a, err := openAgent(ctx, c.engine)
				if err != nil {
					cancel(err)
					return
				}
				beats <- beat{a, time.Now().Add(beatEvery)}
			}
		})
		beating.Go(func() { sendBeats(ctx, beats, cancel) })
	}
	opening.Wait()
	defer beating.Wait()
	defer cancel(nil)
	if err := pause(ctx, min(beatEvery, c.Each)); err != nil { // until nothing is left of the openings
		return err
	}
	began, used := time.Now(), cpuOf(c.engine.PID)
	if err := pause(ctx, c.Each); err != nil {
		return err
	}
	cores := float64(cpuOf(c.engine.PID)-used) / float64(time.Since(began))
	after, err := c.memory(ctx)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%d idle attached sessions: ", c.Sessions)
	n := float64(c.Sessions)
	c.target(what+"CPU", cores, 0.3, "cores")
	c.target(what+"memory of each, in use", float64(after-before)/n/1024, 20, "KiB")
	return nil
}

// beat is a heartbeat of an agent that is due.
type beat struct {
	a   *agent
	due time.Time
}

// sendBeats sends heartbeats when they are due, until ctx is done.
func sendBeats(ctx context.Context, beats chan beat, cancel context.CancelCauseFunc) {
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-beats: // in the order in which they are due
			if pause(ctx, time.Until(b.due)) != nil {
				return
			}
			if _, err := b.a.send(ctx, b.a.path("/heartbeat"), "{}"); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("heartbeat: %w", err))
				return
			}
			beats <- beat{b.a, b.due.Add(beatEvery)}
		}
	}
}

// memory returns how many bytes of the server's memory are in use after a garbage collection.
func (c *agents) memory(ctx context.Context) (int64, error) {
	if _, err := do(ctx, http.MethodGet, "http://"+c.engine.Debug+"/debug/pprof/heap?gc=1", ""); err != nil {
		return 0, fmt.Errorf("have the server collect its garbage: %w", err)
	}
	var sum int64
	for _, name := range []string{"go_memstats_heap_inuse_bytes", "go_memstats_stack_inuse_bytes"} {
		n, err := metricOf(ctx, c.engine, name)
		if err != nil {
			return 0, err
		}
		sum += int64(n)
	}
	return sum, nil
}

// others returns the CPU time that programs other than those of the benchmark have used so far.
func (c *agents) others() time.Duration {
	return others(c.db, c.engine, c.Stub) - c.gone
}
