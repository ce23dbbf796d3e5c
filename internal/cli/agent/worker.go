package agent

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"slices"
	"sync"
	"time"

	"recourse/internal/cli"
	"recourse/internal/cli/remote"
	"recourse/retry"
)

// Worker is `recourse agent worker`.
type Worker struct {
	remote.ServerFlags
	Type     string   `required:"" placeholder:"NAME" help:"Take sessions with this name."`
	Parallel int      `default:"1" help:"How many processes run at once; default ${default}. An agent that is parked does not count."`
	Restarts int      `default:"5" help:"How often a session's process is run again after a failure; default ${default}."`
	Park     bool     `help:"If the program exits with 0 before it has got the ends of its calls, run it again once one of them has ended, as after 75."`
	Command  []string `arg:"" name:"cmd" help:"The agent's program and its arguments, after --."`
}

// idle is the time between two looks for sessions.
const idle = 2 * time.Second

// avoid is the policy for a session whose process has failed too often.
var avoid = retry.Policy{Initial: time.Minute, Max: time.Hour, Factor: 2000, Jitter: 300}

// worker takes sessions, and runs a process in each.
type worker struct {
	*Worker
	app     *cli.App
	program string
	slots   chan struct{} // has an element for each process that runs
	running sync.WaitGroup

	mu    sync.Mutex
	taken map[string]*take // by session. Guarded by mu
}

// take is what the worker knows of a session that it has taken.
type take struct {
	active   bool
	failures int       // runs that have failed, one after the other
	again    time.Time // not before
}

// Run takes sessions until it is stopped. Then it detaches from those that it has.
func (c *Worker) Run(a *cli.App) error {
	program, err := exec.LookPath(c.Command[0])
	if err != nil {
		return cli.Exit(cli.Usage, fmt.Errorf("the agent cannot be run: %w", err))
	}
	if c.Restarts < 0 || c.Parallel < 1 {
		return cli.Exit(cli.Usage, errors.New("--restarts is 0 or more, and --parallel 1 or more"))
	}
	w := &worker{Worker: c, app: a, program: program, slots: make(chan struct{}, c.Parallel), taken: make(map[string]*take)}
	defer w.running.Wait()
	search := &runner{app: a, flags: c.ServerFlags}
	a.Note("recourse: taking sessions named %s", c.Type)
	for {
		if len(w.slots) < c.Parallel {
			free, err := w.search(search)
			if err != nil {
				if a.Ctx.Err() != nil {
					return nil
				}
				return err
			}
			for _, v := range slices.Backward(free) { // the oldest first
				if len(w.slots) == c.Parallel {
					break
				}
				w.begin(v)
			}
		}
		if !search.pause(idle) {
			return nil
		}
	}
}

// search returns sessions without a process, the newest first. It waits for a server that is away.
func (w *worker) search(r *runner) (list []session, _ error) {
	_, err := r.insist(w.app.Ctx, func() (remote.Answer, error) {
		ctx, cancel := context.WithTimeout(w.app.Ctx, requestTime)
		defer cancel()
		cl, err := w.Client(ctx)
		if err != nil {
			return remote.Answer{}, err
		}
		list = nil
		q := url.Values{"name": {w.Type}, "attached": {"false"}}
		for {
			var p remote.Page[session]
			if _, err := cl.Get("/v1/sessions?"+q.Encode(), &p); err != nil {
				return remote.Answer{}, err
			}
			list = append(list, p.Data...)
			if p.Next == "" {
				return remote.Answer{}, nil
			}
			q.Set("cursor", p.Next)
		}
	})
	return list, err
}

// begin takes a session, unless the worker has it, or has failed with it a short time ago.
func (w *worker) begin(v session) {
	if !w.take(v.ID) {
		return
	}
	r := &runner{app: w.app, program: w.program, args: w.Command[1:], flags: w.ServerFlags, restarts: w.Restarts, parks: w.Park, keyed: true, session: v, slots: w.slots, prefix: v.ID[:13] + " "}
	begun := make(chan struct{})
	r.begun = sync.OnceFunc(func() { close(begun) })
	w.running.Go(func() {
		r.watcher = r.watch(true, true)
		err := r.live()
		r.watcher.stop()
		if r.life != nil {
			r.life.stop()
		}
		r.begun()
		w.end(v.ID, r, err)
	})
	<-begun // its process runs, or it was not free: the slot is known
}

// take reports whether the worker may try a session, and notes that it does.
func (w *worker) take(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.taken[id]
	if t == nil {
		t = &take{}
		w.taken[id] = t
	}
	if t.active || time.Now().Before(t.again) {
		return false
	}
	t.active = true
	return true
}

// end notes how a session has ended for the worker.
func (w *worker) end(id string, r *runner, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.taken[id]
	t.active = false
	switch {
	case errors.Is(err, errCommitted):
	case r.life == nil && (cli.ExitCode(err) == held || errors.Is(err, errOver)): // another process was faster
		w.forget(id, t)
		return
	default:
		r.note("%s", err)
	}
	switch cli.ExitCode(err) {
	case cli.OK, undone, remain:
		delete(w.taken, id)
	case held: // another process goes on
		w.forget(id, t)
	default:
		t.failures++
		t.again = time.Now().Add(avoid.Delay(t.failures, random()))
	}
}

// forget forgets a session that another process has, unless the worker is to avoid it: a worker may
// run for months, and meet any number of them.
func (w *worker) forget(id string, t *take) {
	if t.failures == 0 {
		delete(w.taken, id)
	}
}

// errOver is the error of an attach to a session that is over for its agent.
var errOver = errors.New("the session is over")

// slot waits until the process may run, and returns a function that frees its slot. It returns an
// error if the life ends before, or the program should stop.
func (r *runner) slot() (free func(), _ error) {
	if r.slots == nil {
		return func() {}, nil
	}
	select {
	case r.slots <- struct{}{}:
		r.begun()
		return func() { <-r.slots }, nil
	case v := <-r.life.over:
		return nil, r.ended(v)
	case <-r.app.Ctx.Done():
		return nil, r.interrupted()
	}
}
