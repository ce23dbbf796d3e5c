package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
	"recourse/saga"
)

// reapEvery is how often a node checks for tasks that nobody else will end.
const reapEvery = time.Second

// reap ends tasks that nobody else will end, and sends messages to their sagas, as Engine does.
func (n *node) reap() {
	if n.leaves || n.s.fault(ReapLost, n.name) {
		return
	}
	_, _, err := n.s.store.ReapTasks(ctx, 100, func(t journal.Task, end journal.TaskEnd) journal.Message {
		m := engine.Reaped(t, end)
		m.ID = n.s.aside.id(n.s.now)
		n.s.shop.ends[t.ID] = append(n.s.shop.ends[t.ID], string(end))
		return m
	})
	if err != nil {
		panic(err)
	}
}

// shop is what the simulation knows of tasks in addition to the store.
type shop struct {
	claims map[uuid.UUID]uuid.UUID // the token under which each task was claimed
	until  map[uuid.UUID]time.Time // when the task's lease ends, by the last response to the worker
	ends   map[uuid.UUID][]string  // how each task has ended: at most once
}

// worker is an outside process that does tasks.
type worker struct {
	s     *sim
	name  string
	types []string
	life  int       // number of the process: work that an earlier one began is lost
	token uuid.UUID // of a claim whose response was lost
	busy  int
}

// hire starts the workers. None of them does tasks of the type "rare" while faults strike.
func (s *sim) hire() {
	s.shop = shop{claims: make(map[uuid.UUID]uuid.UUID), until: make(map[uuid.UUID]time.Time), ends: make(map[uuid.UUID][]string)}
	for i := range 3 {
		w := &worker{s: s, name: fmt.Sprint("w", i), types: []string{"pack", "ship", "unship"}}
		s.workers = append(s.workers, w)
		w.later(0, w.poll)
	}
}

// later schedules an event of this process.
func (w *worker) later(d time.Duration, do func()) {
	life := w.life
	w.s.after(d, func() {
		if w.life == life {
			do()
		}
	})
}

// die ends the process. Another one begins after a while.
func (w *worker) die() {
	w.life++
	w.token, w.busy = uuid.Nil, 0
	w.later(w.s.aside.between(100*time.Millisecond, 4*time.Second), w.poll)
}

// poll claims tasks, and schedules the next poll.
func (w *worker) poll() {
	s := w.s
	w.later(s.aside.between(200*time.Millisecond, 900*time.Millisecond), w.poll)
	if w.busy > 1 {
		return
	}
	types, token := w.types, w.token
	if s.healed {
		types = append(slices.Clone(types), "rare")
	}
	if token.IsNil() {
		token = s.aside.id(s.now)
	}
	w.token = uuid.Nil
	tasks, err := s.store.ClaimTasks(ctx, journal.TaskClaim{Worker: w.name, Types: types, Max: 1 + s.aside.IntN(2), Token: token})
	if err != nil {
		panic(err)
	}
	for _, t := range tasks {
		s.claimed(t, token)
	}
	if len(tasks) > 0 && s.fault(TasksUnknown, w.name) {
		w.token = token // the next claim gets the same tasks
		return
	}
	for _, t := range tasks {
		w.begin(t, token)
	}
}

// claimed checks a claimed task: it was claimed only once, and its intent was committed before.
func (s *sim) claimed(t journal.ClaimedTask, token uuid.UUID) {
	if before, again := s.shop.claims[t.ID]; again && before != token {
		s.violate(t.Saga, "task %s of %s was claimed by two workers", t.ID, t.Path)
	}
	s.shop.claims[t.ID], s.shop.until[t.ID] = token, t.Until
	records, err := s.store.Records(ctx, t.Saga, 0, 1<<20)
	if err != nil {
		panic(err)
	}
	if !slices.ContainsFunc(records, func(r journal.Record) bool {
		return r.Kind == journal.Intent && r.Path == t.Path && r.Way == t.Way && r.Attempt == t.Attempt && r.Key == t.Key
	}) {
		s.violate(t.Saga, "4: the task of %s was claimed before its intent was committed", t.Path)
	}
}

// job is a task that a worker has claimed.
type job struct {
	w      *worker
	t      journal.ClaimedTask
	token  uuid.UUID
	silent bool // it sends no heartbeats
	worked bool
	over   bool
	result saga.TaskResult
}

// begin does a task. Its effect happens at a random time before its end.
func (w *worker) begin(t journal.ClaimedTask, token uuid.UUID) {
	s := w.s
	w.busy++
	j := &job{w: w, t: t, token: token, result: saga.TaskResult{Outcome: "failed", Error: &saga.Failure{Code: "no_mood", Title: "the worker gives up"}}}
	takes := s.aside.between(20*time.Millisecond, 2*time.Second)
	if s.fault(WorkerSlow, w.name) {
		// Late, but like a request within the margin that `verify` waits for.
		j.silent, takes = true, s.aside.between(t.Lease, t.Timeout+margin-time.Millisecond)
	}
	if s.fault(WorkerDies, w.name) {
		w.later(s.aside.between(0, takes), w.die)
	}
	if s.fault(WorkFails, w.name) {
		j.result.Retryable = s.aside.IntN(2) == 0
		j.result.InDoubt = s.aside.IntN(3) == 0
		// It reports a definite failure only if nothing has happened.
		j.worked = !j.result.InDoubt || s.aside.IntN(2) == 0
	}
	w.later(s.aside.between(0, takes), j.work)
	w.later(takes, j.end)
	j.beats()
}

// beats sends heartbeats, which extend the lease.
func (j *job) beats() {
	s := j.w.s
	j.w.later(j.t.Lease/3, func() {
		if j.over || j.silent {
			return
		}
		defer j.beats()
		if s.fault(BeatLost, j.w.name) {
			return
		}
		lease, err := s.store.Heartbeat(ctx, j.t.ID, j.token)
		switch {
		case errors.Is(err, journal.ErrTaskLost):
			j.over = j.over || s.aside.IntN(2) == 0 // some workers stop then, some ignore it
			j.finish()
		case err != nil:
			panic(err)
		default:
			s.shop.until[j.t.ID] = lease.Until
			if lease.Cancel && !j.worked { // nothing has happened yet, so it stops without an effect
				j.worked = true
			}
		}
	})
}

// work has the effect, unless the worker has stopped or failed before.
func (j *job) work() {
	if j.over || j.worked {
		return
	}
	j.worked = true
	w := j.w.s.world
	var a saga.Answer
	if j.t.Type == "unship" {
		var in struct{ Key string }
		if err := json.Unmarshal(j.t.Input, &in); err != nil {
			panic(err)
		}
		a, _ = w.undo(j.t.Key, j.t.Type, in.Key, "")
	} else {
		a, _ = w.make(j.t.Key, j.t.Type, 0)
	}
	switch {
	case j.result.InDoubt: // the worker does not know whether it had an effect
	case a.Status < 300:
		j.result = saga.TaskResult{Outcome: "completed", Output: a.Body}
	default:
		j.result.Error = &saga.Failure{Code: "refused", Title: fmt.Sprint("the remote service says ", a.Status)}
	}
}

func (j *job) finish() {
	if j.over && j.w.busy > 0 {
		j.w.busy--
	}
}

// end reports the result of the task until it gets a response.
func (j *job) end() {
	s := j.w.s
	if j.over {
		return
	}
	if s.fault(WordLost, j.w.name) {
		j.w.later(s.aside.between(50*time.Millisecond, time.Second), j.end)
		return
	}
	err := j.report(j.result)
	if err == nil {
		switch earlier := s.shop.ends[j.t.ID]; {
		case earlier == nil && !s.shop.until[j.t.ID].After(s.now):
			s.violate(j.t.Saga, "the result of %s was accepted after the lease of the task", j.t.Path)
		case earlier != nil && earlier[0] != j.result.Outcome:
			s.violate(j.t.Saga, "the result of %s was accepted after the task had ended: %s", j.t.Path, earlier[0])
		}
		s.shop.ends[j.t.ID] = []string{j.result.Outcome}
	}
	if s.fault(WordUnknown, j.w.name) {
		j.w.later(s.aside.between(50*time.Millisecond, time.Second), j.end)
		return
	}
	j.over = true
	j.finish()
	if err != nil || !s.fault(WordTwice, j.w.name) {
		return
	}
	if err := j.report(j.result); err != nil {
		s.violate(j.t.Saga, "the same result of %s was refused the second time: %v", j.t.Path, err)
	}
	if err := j.report(saga.TaskResult{Outcome: "failed", Error: &saga.Failure{Code: "otherwise", Title: "another result"}}); err == nil {
		s.violate(j.t.Saga, "a task of %s was ended a second time, with another result", j.t.Path)
	}
}

// report stores the result of a task as package api does.
func (j *job) report(r saga.TaskResult) error {
	data, err := json.Marshal(saga.Command{Do: saga.EndTask{Way: j.t.Way, Attempt: j.t.Attempt, Result: r}, Path: j.t.Path, Actor: j.w.name})
	if err != nil {
		panic(err)
	}
	s := j.w.s
	err = s.store.EndTask(ctx, j.t.ID, j.token, string(data), journal.Message{ID: s.aside.id(s.now), Saga: j.t.Saga, Kind: saga.CommandMessage, Data: data})
	if err != nil && !errors.Is(err, journal.ErrTaskLost) {
		panic(err)
	}
	return err
}
