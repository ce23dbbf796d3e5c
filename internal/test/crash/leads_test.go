package crash

import (
	"syscall"
	"time"
)

// killOne kills a node, so that another one takes over and the node registers again.
func killOne(c *campaign) { c.one(syscall.SIGKILL) }

// stopOne stops a node.
func stopOne(c *campaign) { c.one(syscall.SIGTERM) }

func (c *campaign) one(sig syscall.Signal) {
	if p := c.fleet.await(20 * time.Second); p != nil {
		p.signal(sig)
	}
}

// freezeOne freezes a node past its lease.
func freezeOne(c *campaign) {
	if p := c.fleet.await(20 * time.Second); p != nil {
		c.fleet.freeze(p)
	}
}

// loseAnAnswer makes a node repeat a commit that was written.
func loseAnAnswer(c *campaign) {
	const at = "commit.after.outcome.do"
	if c.take(at) {
		defer c.free(at)
		if err := arm(c.fleet.dir, at, "error"); err != nil {
			c.t.Error(err)
		}
		for range 400 {
			if _, ok := c.struck(at); ok {
				return
			}
			<-time.After(5 * time.Millisecond)
		}
	}
}
