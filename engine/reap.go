package engine

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
)

// reapLimit bounds the tasks that are ended at once, and those that are deleted at once.
const reapLimit = 100

// reapOnce ends up to reapLimit tasks that nobody else will end, and sends a message to the saga of
// each: tasks whose worker stopped sending heartbeats or took too long, and tasks that were
// withdrawn before a worker claimed them. It also deletes up to reapLimit tasks that ended long
// ago. It returns how many it ended, and whether there may be more to end or to delete.
func reapOnce(ctx context.Context, tasks journal.Tasks) (n int, more bool, err error) {
	return tasks.ReapTasks(ctx, reapLimit, Reaped)
}

// Reaped returns the message that reports to a saga how its task ended.
func Reaped(t journal.Task, end journal.TaskEnd) journal.Message {
	command := saga.Command{Do: saga.EndTask{Way: t.Way, Attempt: t.Attempt, Result: saga.TaskResult{Outcome: string(end)}}, Path: t.Path}
	m, err := command.Message(uuid.Must(uuid.NewV7()), t.Saga) // crypto/rand never fails
	if err != nil {
		panic(err) // all its fields can be encoded
	}
	return m
}

// reapEvery is the average interval between two reaps.
const reapEvery = time.Second

// reap ends, at intervals, the tasks that nobody else will end. Every node does so: a task that one
// node has ended is gone for the others.
func (e *Engine) reap(quit <-chan struct{}) {
	for {
		select {
		case <-quit:
			return
		case <-time.After(reapEvery - reapEvery/4 + rand.N(reapEvery/2)):
		}
		e.reapAll()
	}
}

// reapAll reaps until no task is left to end or to delete.
func (e *Engine) reapAll() {
	for more := true; more && !e.stopping.Load(); {
		ctx, cancel := context.WithTimeout(e.storeCtx, 30*time.Second)
		var n int
		var err error
		n, more, err = reapOnce(ctx, e.cfg.Store)
		cancel()
		if e.storeCtx.Err() == nil {
			e.reaps.observe(err)
		}
		if n > 0 {
			e.wakeScanner()
		}
	}
}
