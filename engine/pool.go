package engine

import (
	"sync"
	"sync/atomic"
)

// goroutinePool runs each task at once, on an idle goroutine if there is one. A new goroutine for
// each request would have to grow its stack again.
type goroutinePool struct {
	tasks chan func()
	quit  chan struct{}
	all   *sync.WaitGroup
	idle  atomic.Int64
}

// maxIdle is how many goroutines at most wait for tasks.
const maxIdle = 256

// do runs f at once, on a goroutine that c.all counts. It must not be called after quit is closed.
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
