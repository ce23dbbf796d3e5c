package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

// Worker does the work of `task` steps. Client, Types and Handle are required.
type Worker struct {
	Client *Client
	Types  []string // of the tasks that it takes
	// Handle does the work and returns the step's output, which becomes JSON. An error is told to
	// the saga: see Refuse, Retryable and InDoubt. Its context ends when the lease is lost, the
	// saga does not want the work any more, the task's time is over, or the worker stops:
	// context.Cause says which. Handle runs up to Concurrency times at once.
	Handle func(ctx context.Context, t Task) (any, error)

	Concurrency int           // 1
	Name        string        // for people; by default the host's name and the process's id
	Lease       time.Duration // how long heartbeats may be apart; 0: each step's `heartbeat`
	Drain       time.Duration // 30s: how long handlers may go on when the worker is to stop
	Log         *slog.Logger  // nil: slog.Default
}

const (
	pollWait  = 30 * time.Second
	callTime  = 15 * time.Second // for a request, beside what it asks to wait
	lastClaim = time.Second      // for an answer that is on its way when the worker is to stop
	maxClaim  = 100

	longInFlight = 2 // times that a claim's key may be found in flight, a second apart
)

// Run works until ctx is done; then it takes no more tasks, and returns when those under way have
// ended. While the server is away it tries again. It returns early only when the server refuses it:
// an *Error.
func (w Worker) Run(ctx context.Context) error {
	if w.Client == nil || w.Handle == nil || len(w.Types) == 0 {
		return errors.New("a worker needs a Client, Types and a Handle")
	}
	w.Concurrency = max(w.Concurrency, 1)
	if w.Name == "" {
		host, _ := os.Hostname() // "" will do
		w.Name = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	if w.Drain == 0 {
		w.Drain = 30 * time.Second
	}
	if w.Log == nil {
		w.Log = slog.Default()
	}
	r := &running{Worker: w, free: make(chan struct{}, w.Concurrency)}
	var stop context.CancelCauseFunc
	r.handlers, stop = context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	defer after(ctx, w.Drain, func() { stop(ErrStopping) })()
	err := r.claims(ctx)
	r.work.Wait()
	return err
}

// after calls f some time after ctx is done, unless undone before.
func after(ctx context.Context, d time.Duration, f func()) (undo func()) {
	var mu sync.Mutex
	var timer *time.Timer
	stop := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		timer = time.AfterFunc(d, f)
	})
	return func() {
		stop()
		mu.Lock()
		defer mu.Unlock()
		if timer != nil {
			timer.Stop()
		}
	}
}

// running is a worker at work.
type running struct {
	Worker
	handlers context.Context // what the handlers run under
	free     chan struct{}   // a token for each handler that runs
	work     sync.WaitGroup
}

// claims takes tasks while there is room for them.
func (r *running) claims(ctx context.Context) error {
	// A task that is given in an answer on its way is lost with it, so the last claim may still be
	// answered.
	polling, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer after(ctx, lastClaim, cut)()
	for {
		select {
		case r.free <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		room := 1
		for full := false; !full && room < maxClaim; {
			select {
			case r.free <- struct{}{}:
				room++
			default:
				full = true
			}
		}
		c, err := r.claim(ctx, polling, room)
		for range room - len(c.tasks) {
			<-r.free
		}
		for _, t := range c.tasks {
			r.work.Go(func() {
				defer func() { <-r.free }()
				r.do(t, c)
			})
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("claim tasks: %w", err)
		}
	}
}

// claimed is what a claim got.
type claimed struct {
	tasks    []Task
	at       time.Time // when the answer came
	repeated bool      // the tasks may have been claimed long before that
}

// claim waits for up to room tasks. It is repeated under one key, so that what the server has given
// is not lost with an answer.
func (r *running) claim(ctx, polling context.Context, room int) (claimed, error) {
	in := map[string]any{"types": r.Types, "worker": r.Name, "max": room, "wait": pollWait.String()}
	if r.Lease > 0 {
		in["lease"] = fmt.Sprintf("%dms", r.Lease.Milliseconds())
	}
	key, inFlight := rand.Text(), 0
	for n := 0; ; n++ {
		var out struct{ Data []Task }
		one, cancel := context.WithTimeout(polling, pollWait+callTime)
		err := r.Client.call(one, http.MethodPost, "/v1/tasks/claim", in, &out, "Idempotency-Key", key)
		cancel()
		if err == nil {
			return claimed{tasks: out.Data, at: time.Now(), repeated: n > 0}, nil
		}
		if !passing(err) || ctx.Err() != nil {
			return claimed{}, err
		}
		if e, ok := errors.AsType[*Error](err); ok && e.Code == "key_in_flight" {
			// A server that lives notices that we have gone. One that died leaves the key taken for
			// minutes, and what it gave away under it comes back when its lease ends.
			if inFlight++; inFlight == longInFlight {
				key, inFlight = rand.Text(), 0
			}
		}
		if n == 0 {
			r.Log.Warn("could not claim tasks; trying again", "error", err)
		}
		if rest(ctx, n, err) != nil {
			return claimed{}, err
		}
	}
}

// do does one task.
func (r *running) do(t Task, c claimed) {
	log := r.Log.With("task", t.ID, "type", t.Type, "saga", t.Saga, "step", t.Step, "attempt", t.Attempt)
	if c.repeated { // its lease may have run out before the answer came
		if _, err := r.beat(t, c.at.Add(t.lease())); err != nil && !passing(err) {
			log.Warn("a task was lost before it was begun", "error", err)
			return
		}
	}
	cost := &spent{}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.handlers, spentKey{}, cost))
	defer cancel(nil)
	ctx, over := context.WithDeadlineCause(ctx, c.at.Add(t.left()), ErrLeaseLost)
	defer over()
	lost, stop := r.keep(t, c.at, cancel)
	defer stop()
	out, err := r.handle(ctx, log, t)
	if lost.Err() != nil {
		log.Warn("a task's lease was lost while it was worked on", "error", err)
		return
	}
	what, in := said(out, err)
	if decimal := cost.get(); decimal != "" {
		in["cost"] = decimal
	}
	err = r.end(lost, t, what, in)
	if e, ok := errors.AsType[*Error](err); ok && !passing(err) && e.Code != "lease_lost" {
		log.Error("the server does not take what a task's handler returned; the task is in doubt", "error", err)
		err = r.end(lost, t, "fail", failed(&failure{Code: "bad_result", InDoubt: true, err: err}))
	}
	if err != nil {
		log.Warn("could not say how a task ended, or not be sure of it; if the server does not know it, it is taken for lost", "error", err)
	}
}

// handle calls the handler. One that panics leaves its task in doubt.
func (r *running) handle(ctx context.Context, log *slog.Logger, t Task) (out any, err error) {
	defer func() {
		if v := recover(); v != nil {
			log.Error("a task's handler panicked", "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("the handler panicked: %v", v)
		}
	}()
	return r.Handle(ctx, t)
}

// said is what the server is told of a task.
func said(out any, err error) (what string, in map[string]any) {
	if err != nil {
		return "fail", failed(outcome(err))
	}
	raw, err := encode(out)
	if err != nil {
		return "fail", failed(&failure{Code: "bad_result", InDoubt: true, err: err})
	}
	return "complete", map[string]any{"output": json.RawMessage(raw)}
}

func failed(f *failure) map[string]any {
	in := map[string]any{"error": map[string]string{"code": f.Code, "detail": f.Error()}}
	if f.Retryable {
		in["retryable"] = true
	}
	if f.InDoubt {
		in["in_doubt"] = true
	}
	return in
}

// keep sends heartbeats until it is stopped. lost ends when the lease is lost, and the handler's
// context with it.
func (r *running) keep(t Task, at time.Time, cancel context.CancelCauseFunc) (lost context.Context, stop func()) {
	lost, lose := context.WithCancelCause(context.Background())
	var done sync.WaitGroup
	quit := make(chan struct{})
	done.Go(func() {
		every := time.NewTicker(max(t.lease()/3, time.Millisecond))
		defer every.Stop()
		for until := at.Add(t.lease()); ; {
			select {
			case <-quit:
				return
			case <-every.C:
			}
			began := time.Now()
			unwanted, err := r.beat(t, until)
			switch {
			case err == nil:
				until = began.Add(t.lease())
			case !passing(err) || !time.Now().Before(until):
				lose(ErrLeaseLost)
				cancel(ErrLeaseLost)
				return
			}
			if unwanted {
				cancel(ErrUnwanted)
			}
		}
	})
	return lost, func() {
		close(quit)
		done.Wait()
		lose(nil)
	}
}

func (r *running) beat(t Task, until time.Time) (unwanted bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), min(t.lease()/3, callTime))
	defer cancel()
	ctx, over := context.WithDeadline(ctx, until)
	defer over()
	var out struct{ Cancel bool }
	err = r.Client.call(ctx, http.MethodPost, "/v1/tasks/"+t.ID+"/heartbeat", map[string]string{"lease": t.Lease}, &out)
	return out.Cancel, err
}

// end says how a task ended, for as long as it has its lease: the heartbeats go on meanwhile.
func (r *running) end(lost context.Context, t Task, what string, in map[string]any) error {
	in["lease"] = t.Lease
	return r.Client.insist(lost, func() error {
		ctx, cancel := context.WithTimeout(lost, callTime)
		defer cancel()
		var out struct{}
		return r.Client.call(ctx, http.MethodPost, "/v1/tasks/"+t.ID+"/"+what, in, &out)
	})
}
