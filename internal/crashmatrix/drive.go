package crashmatrix

import (
	"container/heap"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/machine"
)

// epoch is when every saga starts.
var epoch = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)

// everyID is the id of every saga of a matrix: the runs have nothing in common.
var everyID = uuid.Must(uuid.FromString("019b7000-0000-7000-8000-000000000001"))

const (
	maxEvents = 200_000
	patience  = 24 * time.Hour // how long a saga may do nothing after all its waits are over
)

// run is one saga with its faults.
type run struct {
	p       *plan
	strikes []*strike
	cancel  string // the path of the step whose request makes a person cancel the saga; "": none
	until   string // the id of the step whose first request ends the run; "": none

	store  *memory.Store
	lane   *engine.Lane
	node   string
	life   int // of the process: what an earlier one waits for is lost
	now    time.Time
	events queue
	n      int
	ledger *ledger
	m      *machine.Machine
	here   bool // the lane runs the saga
	err    error

	keys     map[string]endpointKey   // of forward requests, by path
	sends    map[place]int            // requests by step
	order    []place                  // the steps that sent requests, in their order
	turns    map[string]int           // requests by the id of the step
	outcome  map[string]journal.Class // the last of each step
	pivoted  time.Time                // when the pivot succeeded; zero: it has not
	asked    map[uuid.UUID]bool       // approvals that were decided
	approved []string                 // the paths of approvals, in their order
	limit    time.Time                // when the saga counts as one that never ends
	ended    bool
	canceled bool
	reached  *machine.Send // the request that has ended the run
}

// place is a step or a compensation.
type place struct {
	path string
	way  journal.Way
}

// event is a future event.
type event struct {
	at time.Time
	n  int
	do func()
}

// queue is a heap of events, by time and then by order.
type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if !q[i].at.Equal(q[j].at) {
		return q[i].at.Before(q[j].at)
	}
	return q[i].n < q[j].n
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(e any)   { *q = append(*q, e.(event)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	(*q)[len(*q)-1] = event{}
	*q = (*q)[:len(*q)-1]
	return last
}

var ctx = context.Background()

// drive runs the saga until it has ended, waits for a person, or never ends.
func (p *plan) drive(cancel string, faults ...Fault) (*run, error) {
	return p.newRun(cancel, faults...).drive()
}

// newRun returns a saga that has not started.
func (p *plan) newRun(cancel string, faults ...Fault) *run {
	r := &run{p: p, cancel: cancel, now: epoch, ledger: newLedger(p.o.Ledger), keys: make(map[string]endpointKey), sends: make(map[place]int),
		turns: make(map[string]int), outcome: make(map[string]journal.Class), asked: make(map[uuid.UUID]bool)}
	for _, f := range faults {
		r.strikes = append(r.strikes, &strike{Fault: f})
	}
	return r
}

// drive runs the saga.
func (r *run) drive() (*run, error) {
	p := r.p
	r.store = memory.New(memory.Config{Now: func() time.Time { return r.now }})
	r.begin()
	r.progress(r.now)
	r.handle(engine.StartSaga{ID: r.p.id, Def: p.def, Start: journal.Start{Definition: p.def.Name, Version: 1}, Data: p.data, Reply: true})
	for range maxEvents {
		if r.err != nil {
			return nil, r.err
		}
		if len(r.events) == 0 || r.now.After(r.limit) || r.reached != nil {
			return r, nil
		}
		next := heap.Pop(&r.events).(event)
		r.now = next.at
		next.do()
	}
	return r, nil
}

// after schedules an event outside the process.
func (r *run) after(d time.Duration, do func()) {
	r.n++
	heap.Push(&r.events, event{at: r.now.Add(d), n: r.n, do: do})
}

// later schedules an event of this process: it is lost if the process dies.
func (r *run) later(d time.Duration, do func()) {
	life := r.life
	r.after(d, func() {
		if r.life == life {
			do()
		}
	})
}

// progress notes that the saga has made progress, or waits until a known time.
func (r *run) progress(at time.Time) {
	if end := at.Add(r.p.longest + outage + patience); end.After(r.limit) {
		r.limit = end
	}
}

// begin starts a process.
func (r *run) begin() {
	former := r.node
	r.life++
	r.node, r.here = "node-"+strconv.Itoa(r.life), false
	var dead []string
	if former != "" {
		dead = []string{former}
	}
	if _, err := r.store.Register(ctx, r.node, math.MaxInt64/4, dead...); err != nil {
		r.err = err
		return
	}
	r.lane = engine.NewLane(engine.LaneConfig{ParkAfter: time.Minute, MaxBatch: 8, MaxRecords: 16, Random: func() uint64 { return 1 << 63 }})
	r.handle(engine.Leased{Node: r.node})
	r.here = former == "" // the lane is about to start the saga
}

// crash ends the process. The next one continues the saga.
func (r *run) crash() {
	r.begin()
	r.later(time.Second, r.scan)
}

// handle gives the lane an event, and carries out its effects.
func (r *run) handle(ev engine.Event) {
	life := r.life
	for _, eff := range r.lane.Handle(r.now, r.now, ev) {
		if r.life != life {
			return
		}
		r.do(eff)
	}
	if at := r.lane.Alarm(); r.life == life && !at.IsZero() {
		r.later(max(at.Sub(r.now), time.Millisecond), func() {
			if at := r.lane.Alarm(); !at.IsZero() && !at.After(r.now) {
				r.handle(engine.Tick{})
			}
		})
	}
}

func (r *run) do(eff engine.Effect) {
	switch eff := eff.(type) {
	case engine.Commit:
		r.later(eff.After, func() { r.commit(eff) })
	case engine.Perform:
		r.later(0, func() { r.perform(eff.Send) })
	case engine.Replied:
		if eff.Err != nil {
			r.err = fmt.Errorf("the saga cannot start: %w", eff.Err)
		}
	case engine.Acquired:
		r.m = eff.Machine
		r.observe(nil)
	case engine.Advanced:
		r.m = eff.Machine
		r.observe(eff.Records)
	case engine.Dropped:
		if eff.Err != nil && r.err == nil {
			r.err = fmt.Errorf("the engine gave the saga up: %w", eff.Err)
		}
		r.here = false
		r.scan()
	}
}

// commit stores a batch, and gives its tasks to a worker.
func (r *run) commit(c engine.Commit) {
	results, err := r.store.Append(ctx, c.Node, c.Batch)
	for _, a := range c.Batch {
		for _, t := range a.Tasks {
			r.task(t)
		}
	}
	r.handle(engine.Committed{Number: c.Number, Results: results, Err: err})
}

// scan claims the saga if it can be claimed, or reads its messages.
func (r *run) scan() {
	if r.here {
		r.deliver()
		return
	}
	claimed, err := r.store.Claim(ctx, r.node, 1)
	if err != nil {
		r.err = err
		return
	}
	if len(claimed) == 0 {
		head, err := r.store.Saga(ctx, r.p.id)
		switch {
		case err != nil:
			r.err = err
		case head.EndedAt.IsZero() && head.WakeAt.After(r.now):
			r.later(head.WakeAt.Sub(r.now), func() {
				if !r.here {
					r.scan()
				}
			})
		}
		return
	}
	records, err := r.store.Records(ctx, r.p.id, 0, math.MaxInt32)
	if err != nil {
		r.err = err
		return
	}
	r.here = true
	r.handle(engine.Loaded{Claimed: claimed[0], Node: r.node, Def: r.p.def, Records: records, Messages: r.messages(), At: r.now})
}

func (r *run) messages() []journal.Message {
	list, err := r.store.Messages(ctx, []uuid.UUID{r.p.id}, 1000, math.MaxInt32)
	if err != nil {
		r.err = err
	}
	return list
}

// deliver passes the saga's messages to the lane.
func (r *run) deliver() {
	if list := r.messages(); len(list) > 0 {
		r.handle(engine.Received{ID: r.p.id, Messages: list, At: r.now})
	}
}

// send sends the saga a command.
func (r *run) send(c saga.Command) {
	r.n++
	m, err := c.Message(uuid.NewV5(r.p.id, "message "+strconv.Itoa(r.n)), r.p.id)
	if err == nil {
		err = r.store.Send(ctx, m)
	}
	if err != nil {
		r.err = err
		return
	}
	r.later(0, r.scan)
}

// observe reads new records, and does what people and other systems would do.
func (r *run) observe(records []journal.Record) {
	for i := range records {
		r.record(&records[i])
	}
	for _, e := range r.m.Inbox() {
		if e.Kind == saga.InboxApproval && !r.asked[e.ID] {
			r.asked[e.ID] = true
			r.decide(e)
		}
	}
}

func (r *run) record(rec *journal.Record) {
	step := r.p.def.Step(rec.Path)
	switch rec.Kind {
	case journal.Intent:
		d, _ := history.DataOf[saga.IntentData](rec)
		if d.WakeAt != nil {
			r.progress(d.WakeAt.Time)
		}
		if rec.Attempt <= 1 {
			r.progress(r.now)
		}
		if d.Awaited != nil && step != nil {
			r.await(step, rec.Path)
		}
	case journal.Outcome:
		base, query := saga.SplitQuery(rec.Path)
		if step = r.p.def.Step(base); rec.Way != journal.Do || step == nil {
			return
		}
		if query {
			if d, _ := history.DataOf[saga.OutcomeData](rec); d.Found == nil || !*d.Found {
				return
			}
		}
		r.outcome[base] = rec.Class
		if rec.Class == journal.Succeeded && step.Pivot && r.pivoted.IsZero() {
			r.pivoted = r.now
		}
	case journal.Finished:
		r.ended = true
		r.progress(r.now)
	case journal.Compensating, journal.Decided, journal.Skipped:
		r.progress(r.now)
	}
}

// await sends the signal that a step waits for.
func (r *run) await(step *saga.Step, path string) {
	receiver, ok := step.Body.(saga.Receiver)
	if !ok {
		return
	}
	r.turns[step.ID]++
	data := r.p.answers.body(path, nil, "", r.turns[step.ID]-1)
	r.after(time.Second, func() {
		r.send(saga.Command{Do: saga.Signal{Name: receiver.Signal(), Data: data}, Actor: "partner"})
	})
}

// decide approves an approval, unless a fault rejects it.
func (r *run) decide(e saga.Entry) {
	r.approved = append(r.approved, e.Path)
	who := "approver"
	if len(e.Approvers) > 0 {
		who = e.Approvers[0]
	}
	c := saga.Command{Path: e.Path, Actor: who, Role: who, Reason: "decided by the test"}
	var data json.RawMessage
	if len(e.Form) > 0 {
		data = r.p.answers.form(e.Path, e.Form)
	}
	c.Do = saga.Approve{Shown: e.ShownHash, Data: data}
	if s := r.strike(e.Path, journal.Do); s != nil && s.Kind == Rejected {
		c.Do = saga.Reject{Shown: e.ShownHash, Data: data}
	}
	r.after(time.Second, func() { r.send(c) })
}

// strike returns the fault that strikes a request; nil: none.
func (r *run) strike(path string, way journal.Way) *strike {
	for _, s := range r.strikes {
		if s.Step == path && s.Way == way && !s.over(r.now) {
			if s.count++; s.count == 1 {
				s.first = r.now
			}
			return s
		}
	}
	return nil
}

// perform sends a request.
func (r *run) perform(send machine.Send) {
	answer := func(a saga.Answer) {
		r.handle(engine.Answered{ID: r.p.id, Path: send.Path, Way: send.Way, Attempt: send.Attempt, Answer: a, At: r.now})
	}
	if !send.Until.IsZero() && r.now.After(send.Until) {
		answer(saga.Answer{Code: "not_sent"})
		return
	}
	reached := func() saga.Answer { return r.reach(&send) }
	if base, query := saga.SplitQuery(send.Path); query {
		r.later(latency, func() {
			a := r.status(base)
			a.Body = inForm(send.Request, a.Body)
			answer(a)
		})
		return
	}
	r.sent(place{send.Path, send.Way})
	if send.Way == journal.Do && r.until != "" && saga.StepID(send.Path) == r.until {
		r.reached = &send
		return
	}
	if send.Way == journal.Do {
		r.keys[send.Path] = keyOf(&send)
		r.stop(send.Path)
	}
	s := r.strike(send.Path, send.Way)
	if s == nil {
		r.later(latency, func() { answer(reached()) })
		return
	}
	failed := saga.Answer{Sent: true, Status: s.Kind.status(), Body: json.RawMessage(`{"title":"made up by recourse test"}`)}
	if send.Request.Child != nil && failed.Status < 500 {
		failed.Final, failed.Report = true, &saga.Report{}
	}
	lost := saga.Answer{Sent: true, Code: "connection", Detail: "the connection was lost"}
	switch kind := s.Kind; {
	case kind == CrashBefore:
		r.crash()
	case kind == CrashAfter:
		reached()
		r.crash()
	case kind == AnswerLost, kind.effect() && kind.status() != 0 && kind.status() < 500 && s.count == 1:
		r.later(latency, func() { reached(); answer(lost) })
	case kind == BrokenDone:
		r.later(latency, func() { reached(); answer(failed) })
	case kind == Silent, kind == SilentDone:
		if kind == SilentDone {
			r.after(send.Timeout+lateness, func() { reached() })
		}
		r.later(send.Timeout, func() { answer(saga.Answer{Sent: true, Code: "timeout", Detail: "no answer in time"}) })
	default:
		r.later(latency, func() { answer(failed) })
	}
}

// sent counts a request.
func (r *run) sent(at place) {
	if r.sends[at]++; r.sends[at] == 1 {
		r.order = append(r.order, at)
	}
}

// stop lets a person cancel the saga, if the run is one of a compensation.
func (r *run) stop(path string) {
	if path == r.cancel && !r.canceled {
		r.canceled = true
		r.send(saga.Command{Do: saga.Cancel{}, Actor: "operator", Reason: "canceled by the test"})
	}
}

// reach makes a request take effect at the remote service, and returns its answer.
func (r *run) reach(send *machine.Send) saga.Answer {
	step := r.p.def.Step(send.Path)
	of := body(step, send.Way)
	a := saga.Answer{Sent: true, Status: 200}
	if len(of.Expect.Status) > 0 {
		a.Status = of.Expect.Status[0].From
	}
	if send.Way == journal.Undo {
		a.Body = inForm(send.Request, r.p.answers.body("", of.Expect.Schema, "undo", 0))
		return r.ledger.revert(of, send, a)
	}
	return r.ledger.arrive(of, send, r.now, func(id string) saga.Answer {
		r.turns[step.ID]++
		turn := r.turns[step.ID] - 1
		if _, model := of.Body.(saga.Modelled); model {
			a.Body = r.p.answers.completion(send.Path, send.Request.Body, turn)
		} else {
			a.Body = inForm(send.Request, r.p.answers.body(send.Path, of.Expect.Schema, id, turn))
		}
		return a
	})
}

// inForm returns a made-up answer in the form that answers to the request have.
func inForm(q saga.Request, body json.RawMessage) json.RawMessage {
	if q.Tool == nil {
		return body
	}
	return saga.Encode(map[string]any{"content": []any{}, "structured": body, "is_error": false})
}

// status answers the status check of a step.
func (r *run) status(path string) saga.Answer {
	step := r.p.def.Step(path)
	e := r.ledger.found(r.keys[path])
	roots := map[string]any{"key": r.keys[path].key, "input": r.p.input, "vars": r.p.vars}
	doc, ok := r.p.answers.status(path, step.InDoubt.Verify, roots, e)
	if !ok {
		r.p.note("no made-up answer fits the status check of %s: give one with --stubs, as {%q: {\"found\": …, \"missing\": …}}", step.ID, saga.QueryPath(step.ID))
	}
	return saga.Answer{Sent: true, Status: 200, Body: doc}
}

// task lets a worker do a task.
func (r *run) task(t journal.Task) {
	send := machine.Send{Path: t.Path, Way: t.Way, Attempt: t.Attempt, Key: t.Key, Request: saga.Request{Task: &saga.TaskRequest{Type: t.Type, Input: t.Input}}}
	r.sent(place{t.Path, t.Way})
	if t.Way == journal.Do {
		r.keys[t.Path] = keyOf(&send)
		r.after(0, func() { r.stop(t.Path) })
	}
	end := func(d time.Duration, res saga.TaskResult) {
		r.after(d, func() {
			r.send(saga.Command{Do: saga.EndTask{Way: t.Way, Attempt: t.Attempt, Result: res}, Path: t.Path})
		})
	}
	failed := saga.TaskResult{Outcome: saga.TaskFailed, Error: &saga.Failure{Code: "made_up", Title: "made up by recourse test"}}
	done := func() {
		r.after(latency, func() {
			a := r.reach(&send)
			res := saga.TaskResult{Outcome: saga.TaskCompleted, Output: a.Body}
			if a.Status >= 400 {
				res = failed
			}
			r.send(saga.Command{Do: saga.EndTask{Way: t.Way, Attempt: t.Attempt, Result: res}, Path: t.Path})
		})
	}
	expired := saga.TaskResult{Outcome: string(journal.TaskExpired)}
	s := r.strike(t.Path, t.Way)
	if s == nil {
		done()
		return
	}
	switch s.Kind {
	case CrashBefore:
		r.after(0, r.crash)
		done()
	case CrashAfter:
		done()
		r.after(latency, r.crash)
	case AnswerLost:
		r.after(latency, func() { r.reach(&send) })
		end(t.Lease, expired)
	case BadEffect, BusyEffect, SilentDone:
		if s.count == 1 || s.Kind == SilentDone {
			r.after(latency, func() { r.reach(&send) })
			end(t.Lease, expired)
			return
		}
		failed.Retryable = s.Kind == BusyEffect
		end(latency, failed)
	case Silent:
		end(t.Lease, expired)
	default:
		if s.Kind == BrokenDone {
			r.after(latency, func() { r.reach(&send) })
		}
		failed.Retryable, failed.InDoubt = s.Kind == Busy, s.Kind.status() == 500
		end(2*latency, failed)
	}
}
