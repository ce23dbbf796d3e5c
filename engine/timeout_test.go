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
)

// Pauses of an attempt do not count against its time-out, and what is left of it counts on after
// them.
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
			t.Errorf("after a pause: %v, and %v are left, want 20s", ctx.Err(), left)
		}
		time.Sleep(19 * time.Second)
		if ctx.Err() != nil {
			t.Error("it ended too early")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("got %v, want that the time-out has passed", ctx.Err())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx := withPausableTimeout(t.Context(), time.Minute)
		ctx.cancel()
		if ctx.Err() != context.Canceled {
			t.Errorf("got %v, want that it was cancelled", ctx.Err())
		}
	})
}

// reader is a service whose answers take as much memory as there is.
type reader struct{ size int64 }

func (r reader) Call(ctx context.Context, _ saga.Request) saga.Answer {
	if err := quota.FromContext(ctx).Reserve(ctx, r.size); err != nil {
		return saga.Answer{Sent: true, Code: saga.Interrupted}
	}
	return saga.Answer{Sent: true, Status: 200}
}

// An answer that waits for memory for longer than its time-out is taken all the same, the lane is
// told that it waits, and one whose saga is not the node's any more waits no longer.
func TestAnswersWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		e := New(Config{Callers: map[string]Caller{"http": reader{size}}, AnswerBytes: size})
		l := e.lanes[0]
		call := func(path string) (p Perform, answered chan saga.Answer) {
			p = Perform{Permit: &Permit{}, Send: saga.Send{Kind: "http", Path: path, Timeout: 30 * time.Second}}
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
			t.Fatalf("%d answers wait, want 2", got)
		}
		time.Sleep(10 * time.Minute)
		told := 0
		for ; len(l.events) > 0; told++ {
			if w, ok := (<-l.events).(Waits); !ok || w.For != journal.StallNoMemory {
				t.Errorf("the lane was told %+v, want that an answer waits", w)
			}
		}
		if told < 20 {
			t.Errorf("the lane was told %d times within 20 time-outs, want more than 20", told)
		}
		lost.Permit.revoke()
		if a := <-gone; a.Code != saga.Interrupted {
			t.Errorf("the answer of a saga that is another's: %+v, want that it is read no more", a)
		}
		second.Close()
		first.Close()
		if a := <-waits; a.Code != "" || a.Status != 200 {
			t.Errorf("the answer that waited: %+v, want it to be read", a)
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
		t.Errorf("the queue has %d runs, and holds on to %v", len(l.queue), all[1:])
	}
}
