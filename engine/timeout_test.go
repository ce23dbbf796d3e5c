package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"recourse/internal/quota"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// Pauses of an attempt do not count against its timeout. The remaining time continues after them.
func TestPausableTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := withPausableTimeout(t.Context(), time.Minute)
		defer ctx.cancel()
		time.Sleep(40 * time.Second)
		ctx.pause(true)
		time.Sleep(time.Hour)
		ctx.pause(false)
		end, ok := ctx.Deadline()
		if left := time.Until(end); ctx.Err() != nil || !ok || left != 20*time.Second {
			t.Errorf("after a pause: %v, %v remaining, want 20s", ctx.Err(), left)
		}
		time.Sleep(19 * time.Second)
		if ctx.Err() != nil {
			t.Error("it ended too early")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("got %v, want a timeout", ctx.Err())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx := withPausableTimeout(t.Context(), time.Minute)
		ctx.cancel()
		if !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("got %v, want a cancellation", ctx.Err())
		}
	})
}

// reader is a service whose responses take all available memory.
type reader struct{ size int64 }

func (r reader) Call(ctx context.Context, _ saga.Request) saga.Answer {
	if err := quota.FromContext(ctx).Reserve(ctx, r.size); err != nil {
		return saga.Answer{Sent: true, Code: saga.Interrupted}
	}
	return saga.Answer{Sent: true, Status: 200}
}

// A response that waits for memory longer than its timeout is still read, and the lane gets reports
// that it waits. If its saga no longer belongs to the node, the wait ends.
func TestAnswersWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		e := New(Config{Callers: map[string]Caller{"http": reader{size}}, AnswerBytes: size})
		l := e.lanes[0]
		call := func(path string) (p Perform, answered chan saga.Answer) {
			p = Perform{Permit: &Permit{}, Send: machine.Send{Kind: "http", Path: path, Timeout: 30 * time.Second}}
			answered = make(chan saga.Answer, 1)
			go func() { answered <- l.call(p, e.answers.Open()) }()
			synctest.Wait()
			return p, answered
		}
		first, second := e.answers.Open(), e.answers.Open()
		for _, a := range []*quota.Account{first, second} {
			if err := a.Reserve(t.Context(), size); err != nil {
				t.Fatal(err)
			}
		}
		_, waits := call("waits")
		lost, gone := call("lost")
		if got := e.answers.Usage().Waiting; got != 2 {
			t.Fatalf("%d responses wait, want 2", got)
		}
		time.Sleep(10 * time.Minute)
		reports := 0
		for ; len(l.events) > 0; reports++ {
			if w, ok := (<-l.events).(Waits); !ok || w.For != journal.StallNoMemory {
				t.Errorf("the lane got %+v, want that a response waits for memory", w)
			}
		}
		if reports < 20 {
			t.Errorf("the lane got %d reports within 20 timeouts, want more than 20", reports)
		}
		lost.Permit.revoke()
		if a := <-gone; a.Code != saga.Interrupted {
			t.Errorf("the response for a saga of another node: %+v, want that it is not read", a)
		}
		second.Close()
		first.Close()
		if a := <-waits; a.Code != "" || a.Status != 200 {
			t.Errorf("the response that waited: %+v, want it to be read", a)
		}
		e.work.Wait()
	})
}

// A lane keeps no reference to committed sagas in its queue: they may be large.
func TestQueueForgets(t *testing.T) {
	l := NewLane(LaneConfig{MaxBatch: 2})
	l.node = "n1"
	for range 3 {
		l.queue = append(l.queue, &run{})
	}
	all := l.queue
	l.flush()
	if len(l.queue) != 1 || all[1] != nil || all[2] != nil {
		t.Errorf("the queue has %d runs, and refers to %v", len(l.queue), all[1:])
	}
}
