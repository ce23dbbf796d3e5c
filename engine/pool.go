package engine

import (
	"sync"
	"sync/atomic"
)

// goroutinePool runs tasks on goroutines that it keeps, as many as there are tasks at once: a new
// goroutine would grow its stack anew for each request.
type goroutinePool struct {
	tasks chan func()
	quit  chan struct{}
	all   *sync.WaitGroup
	idle  atomic.Int64
}

// maxIdle is how many goroutines wait for tasks at most.
const maxIdle = 256

// do runs f at once, on a goroutine that all counts. It is not called any more when quit is closed.
func (c *goroutinePool) do(f func()) {
	select {
	case c.tasks <- f:
	default:
		c.all.Go(func() { c.work(f) })
	}
}

func (c *goroutinePool) work(f func()) {
	for {
		f()
		if c.idle.Add(1) > maxIdle {
			c.idle.Add(-1)
			return
		}
		select {
		case f = <-c.tasks:
			c.idle.Add(-1)
		case <-c.quit:
			return
		}
	}
}
