package engine

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
)

// reapLimit bounds the tasks that one look ends.
const reapLimit = 100

// reapOnce has the sagas know of up to reapLimit tasks that nobody will end: those whose worker
// fell silent or took too long, and those that were not wanted any more before anybody had begun
// them. It says how many there were.
func reapOnce(ctx context.Context, tasks journal.Tasks) (int, error) {
	return tasks.ReapTasks(ctx, reapLimit, Reaped)
}

// Reaped is what a task's saga is told.
func Reaped(t journal.Task, fate journal.TaskEnd) journal.Message {
	word := saga.Command{Kind: "task", Path: t.Path, Way: t.Way, Attempt: t.Attempt, Task: &saga.TaskResult{Outcome: string(fate)}}
	m, err := word.Message(uuid.Must(uuid.NewV7()), t.Saga) // crypto/rand never fails
	if err != nil {
		panic(err) // it holds nothing that cannot be written
	}
	return m
}

// reapEvery is how long a worker that fell silent may go unnoticed.
const reapEvery = time.Second

// reap ends the tasks that nobody else will, now and then. Every node does: what one ends is gone
// for the others.
func (e *Engine) reap(quit <-chan struct{}) {
	for {
		select {
		case <-quit:
			return
		case <-time.After(reapEvery - reapEvery/4 + rand.N(reapEvery/2)):
		}
		for n := reapLimit; n == reapLimit && !e.stopping.Load(); {
			ctx, cancel := context.WithTimeout(e.storeCtx, 30*time.Second)
			var err error
			n, err = reapOnce(ctx, e.cfg.Store)
			cancel()
			if e.storeCtx.Err() == nil {
				e.reaps.observe(err)
			}
			if n > 0 {
				e.wakeScanner()
			}
		}
	}
}
