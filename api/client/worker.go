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
	Types  []string // types of tasks that it claims
	// Handle does the work and returns the step's output, which is encoded as JSON. The worker
	// reports an error to the server: see Refuse, Retryable and InDoubt. The context ends when the
	// lease is lost, the saga no longer needs the work, the task's deadline passes, or the worker
	// stops; context.Cause says which. Handle runs up to Concurrency times at once.
	Handle func(ctx context.Context, t Task) (any, error)

	Concurrency int           // default 1
	Name        string        // shown to people; by default the host's name and the process id
	Lease       time.Duration // maximum time between heartbeats; 0: each step's `heartbeat`
	Drain       time.Duration // default 30s: how long handlers may continue when the worker stops
	Log         *slog.Logger  // nil: slog.Default
}

const (
	pollWait  = 30 * time.Second
	callTime  = 15 * time.Second // timeout of a request, besides the wait that it asks for
	lastClaim = time.Second      // time for a claim in flight when the worker stops
	maxClaim  = 100

	longInFlight = 2 // responses `key_in_flight`, a second apart, before a claim uses a new key
)

// Run works until ctx is done. Then it claims no more tasks, and returns when those in flight have
// ended. While the server is down it retries. It returns earlier only if the server refuses the
// worker, with an *Error.
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

// after calls f a duration after ctx is done, unless undo is called before.
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

// running is the state of Run.
type running struct {
	Worker
	handlers context.Context // parent of the handlers' contexts
	free     chan struct{}   // a token for each running handler
	work     sync.WaitGroup
}

// claims is the loop that claims tasks while handlers are free.
func (r *running) claims(ctx context.Context) error {
	// Tasks in a response that is not read are lost until their leases end, so the last claim may
	// still finish.
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

// claimed is the result of a claim.
type claimed struct {
	tasks    []Task
	at       time.Time // time of the response
	repeated bool      // the tasks may have been claimed long before
}

// claim waits for up to room tasks. All its attempts have one idempotency key, so that tasks in a
// lost response are not lost.
func (r *running) claim(ctx, polling context.Context, room int) (claimed, error) {
	in := map[string]any{"types": r.Types, "worker": r.Name, "max": room, "wait": inMillis(pollWait)}
	if r.Lease > 0 {
		in["lease"] = inMillis(r.Lease)
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
		if !temporary(err) || ctx.Err() != nil {
			return claimed{}, err
		}
		if e, ok := errors.AsType[*Error](err); ok && e.Code == "key_in_flight" {
			// A live server notices that this client has gone. A server that died leaves the key in
			// flight for minutes; tasks that it claimed return when their leases end.
			if inFlight++; inFlight == longInFlight {
				key, inFlight = rand.Text(), 0
			}
		}
		if n == 0 {
			r.Log.Warn("could not claim tasks; retrying", "error", err)
		}
		if backoff(ctx, n, err) != nil {
			return claimed{}, err
		}
	}
}

// do runs one task.
func (r *running) do(t Task, c claimed) {
	log := r.Log.With("task", t.ID, "type", t.Type, "saga", t.Saga, "step", t.Step, "attempt", t.Attempt)
	at := c.at
	if c.repeated {
		var err error
		if at, err = r.confirm(t, c.at); err != nil {
			log.Warn("the work of a task did not begin", "error", err)
			return
		}
	}
	cost := &spent{}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.handlers, spentKey{}, cost))
	defer cancel(nil)
	ctx, over := context.WithDeadlineCause(ctx, c.at.Add(t.left()), ErrLeaseLost)
	defer over()
	lost, stop := r.keep(t, at, cancel)
	defer stop()
	out, err := r.handle(ctx, log, t)
	if lost.Err() != nil {
		log.Warn("a task's lease was lost during the work", "error", err)
		return
	}
	action, in := report(out, err)
	if decimal := cost.get(); decimal != "" {
		in["cost"] = decimal
	}
	err = r.end(lost, t, action, in)
	if e, ok := errors.AsType[*Error](err); ok && !temporary(err) && e.Code != "lease_lost" {
		log.Error("the server refused the result of a task's handler; the task is in doubt", "error", err)
		err = r.end(lost, t, "fail", failed(&failure{Code: "bad_result", InDoubt: true, err: err}))
	}
	if err != nil {
		log.Warn("could not report the end of a task, or the report is unconfirmed; if the server did not get it, the task's lease will expire", "error", err)
	}
}

// confirm returns the time of a heartbeat that has shown that the lease lasts. The lease may have
// expired before the response to the claim, at the time at, and another worker may do the work. A
// task that is not wanted is given back.
func (r *running) confirm(t Task, at time.Time) (time.Time, error) {
	until := at.Add(t.lease())
	ctx, cancel := context.WithDeadline(r.handlers, until)
	defer cancel()
	for n := 0; ; n++ {
		began := time.Now()
		unwanted, err := r.beat(t, until)
		switch {
		case unwanted:
			return at, errors.Join(ErrUnwanted, r.end(ctx, t, "fail", failed(outcome(Retryable(ErrUnwanted)))))
		case !temporary(err) || backoff(ctx, n, err) != nil:
			return began, err
		}
	}
}

// handle calls the handler. A panic leaves the task in doubt.
func (r *running) handle(ctx context.Context, log *slog.Logger, t Task) (out any, err error) {
	defer func() {
		if v := recover(); v != nil {
			log.Error("a task's handler panicked", "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("the handler panicked: %v", v)
		}
	}()
	return r.Handle(ctx, t)
}

// report returns the action and the body of the request that ends a task.
func report(out any, err error) (action string, in map[string]any) {
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

// keep sends heartbeats until stop is called. lost ends when the lease is lost, and so does the
// handler's context.
func (r *running) keep(t Task, at time.Time, cancel context.CancelCauseFunc) (lost context.Context, stop func()) {
	lost, lose := context.WithCancelCause(context.Background())
	var done sync.WaitGroup
	quit := make(chan struct{})
	done.Go(func() {
		every := time.NewTicker(max(t.lease()/3, time.Millisecond))
		defer every.Stop()
		gone := func() {
			lose(ErrLeaseLost)
			cancel(ErrLeaseLost)
		}
		until := at.Add(t.lease())
		expiry := time.AfterFunc(time.Until(until), gone)
		defer expiry.Stop()
		for {
			select {
			case <-quit:
				return
			case <-lost.Done():
				return
			case <-every.C:
			}
			began := time.Now()
			unwanted, err := r.beat(t, until)
			switch {
			case err == nil:
				until = began.Add(t.lease())
				expiry.Reset(time.Until(until))
			case !temporary(err):
				gone()
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

// end reports the end of a task while its lease lasts; heartbeats continue meanwhile.
func (r *running) end(lost context.Context, t Task, action string, in map[string]any) error {
	in["lease"] = t.Lease
	return r.Client.retry(lost, func() error {
		ctx, cancel := context.WithTimeout(lost, callTime)
		defer cancel()
		var out struct{}
		return r.Client.call(ctx, http.MethodPost, "/v1/tasks/"+t.ID+"/"+action, in, &out)
	})
}
