package memory_test

import (
	"sync"
	"testing"
	"time"

	"recourse/journal/journaltest"
	"recourse/journal/memory"
)

func TestStore(t *testing.T) {
	journaltest.Run(t, journaltest.Options{Open: func(*testing.T) journaltest.Subject {
		c := &clock{now: time.UnixMilli(1_800_000_000_000)}
		return journaltest.Subject{Store: memory.New(memory.Config{Now: c.Now}), Advance: c.Advance}
	}})
}

func BenchmarkAppend(b *testing.B) {
	journaltest.BenchmarkAppend(b, memory.New(memory.Config{}))
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestForgetsTasks(t *testing.T) {
	c := &clock{now: time.UnixMilli(1_800_000_000_000)}
	journaltest.ForgetsTasks(t, memory.New(memory.Config{Now: c.Now}), c.Advance)
}
