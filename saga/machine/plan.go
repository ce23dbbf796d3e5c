package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/compensation"
	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/expr"
)

// maxPlanRecords limits the records of a plan, in case the saga never ends, and maxPlanBytes their
// data, because each iteration of a loop may send the whole input.
const (
	maxPlanRecords = 10_000
	maxPlanBytes   = 32 << 20
)

// Plan is what a saga would do if every step succeeded with the given outputs. A value that is
// unknown before the saga runs is a placeholder: ‹flight.id› is the field id of the output of step
// flight, ‹input.name› is a field that the input does not have, and a computed value contains its
// expression.
type Plan struct {
	// Saga is the id that the keys are derived from: the nil UUID. A real saga's keys differ.
	Saga  string        `json:"saga"`
	Steps []PlannedStep `json:"steps"`
	// WorstCase is the sum over the forward steps of attempts × cost. It may be more than the
	// budget. A step that is retried without limit counts with one attempt, and a loop whose
	// length is unknown with one iteration; Notes says so.
	WorstCase string `json:"worst_case_cost"`
	Currency  string `json:"currency,omitempty"`
	Budget    string `json:"budget,omitempty"`
	// Undo lists what would be undone, in order, if the saga failed at its last step, or at the
	// pivot if it has one.
	Undo      []string               `json:"undo"`
	Residual  []compensation.Residue `json:"residual,omitempty"` // the effects that would remain then
	Approvals []string               `json:"approvals"`          // paths of steps that wait for a person
	Notes     []string               `json:"notes,omitempty"`
}

// PlannedStep is a step, or a compensation, as it would run.
type PlannedStep struct {
	Path    string `json:"path"`
	Kind    string `json:"kind"`
	Use     string `json:"use,omitempty"`     // the action that it uses, with its version
	Skipped bool   `json:"skipped,omitempty"` // its `when` is false
	// If has the conditions, the outermost first, under which the step runs and whose results are
	// unknown.
	If       []string        `json:"if,omitempty"`
	Request  *saga.Request   `json:"request,omitempty"`
	Key      string          `json:"key,omitempty"`
	Cost     string          `json:"cost,omitempty"`     // of one attempt, at most
	Attempts int             `json:"attempts,omitempty"` // at most; absent: no limit
	WakeAt   *saga.Time      `json:"wake_at,omitempty"`  // for a wait
	Pivot    bool            `json:"pivot,omitempty"`
	Undo     *Planned        `json:"compensation,omitempty"`
	Note     string          `json:"note,omitempty"`
	Output   json.RawMessage `json:"output,omitempty"` // from a stub, or computed
}

// Planned is a compensation as it would run.
type Planned struct {
	Kind    string        `json:"kind"`
	If      string        `json:"if,omitempty"` // its `when`, if the result is unknown
	Request *saga.Request `json:"request,omitempty"`
	Key     string        `json:"key,omitempty"`
	Cost    string        `json:"cost,omitempty"`
	Note    string        `json:"note,omitempty"`
}

// planner drives a machine with invented outcomes.
type planner struct {
	m     *Machine
	at    time.Time
	stubs map[string]json.RawMessage
	plan  Plan
	worst retry.Money
	undo  bool // Undo is complete: the pivot was reached

	records []journal.Record // all that were written, and the intents of compensations
	bytes   int              // of their data
}

// MakePlan drives a saga of def, started with d (see [BeginPlan]) at the time at, to its end. Each
// call succeeds at once with the output that stubs has for its path, or with an unknown one. A step
// whose condition is unknown is listed with the condition; every branch of a switch that may be
// taken is listed; a loop over an unknown list has one iteration. An error means that the machine
// could not apply its own records.
func MakePlan(def *saga.Definition, d saga.StartedData, stubs map[string]json.RawMessage, at time.Time) (Plan, error) {
	p := newPlanner(def, stubs, at)
	return p.run(d)
}

// Sample returns records like those that the sagas of def have, with placeholders for what a saga
// brings with it: those of a plan, and the intents of its compensations. A definition that cannot
// be planned, even one that makes the machine panic, has fewer.
func Sample(def *saga.Definition) (records []journal.Record) {
	p := newPlanner(def, nil, time.UnixMilli(0).UTC())
	defer func() {
		_ = recover()
		finished := saga.FinishedData{Status: saga.Succeeded, Output: placeholder("output")}
		p.records = append(p.records, journal.Record{Kind: journal.Finished, Data: saga.Encode(finished)})
		records = p.records
	}()
	d, _ := BeginPlan(def, StartOptions{Actor: "anonymous"})
	_, _ = p.run(d)
	return nil
}

func newPlanner(def *saga.Definition, stubs map[string]json.RawMessage, at time.Time) *planner {
	return &planner{m: New(def, uuid.Nil), at: at, stubs: stubs,
		plan: Plan{Saga: uuid.Nil.String(), Steps: []PlannedStep{}, Undo: []string{}, Approvals: []string{}}}
}

func (p *planner) run(d saga.StartedData) (Plan, error) {
	p.m.outline = &outline{when: make(map[string]string), vague: make(map[string]string)}
	if err := p.write(p.m.Start(d)); err != nil {
		return Plan{}, err
	}
	for range maxPlanRecords {
		over, err := p.step()
		if err != nil {
			return Plan{}, fmt.Errorf("plan: %w", err)
		}
		if over {
			return p.finish()
		}
		if p.bytes > maxPlanBytes {
			p.note("the plan was cut after %d records, whose data has more than %d MiB", p.m.seq, maxPlanBytes>>20)
			return p.finish()
		}
	}
	p.note("the plan was cut after %d records", maxPlanRecords)
	return p.finish()
}

func (p *planner) note(text string, args ...any) {
	p.plan.Notes = append(p.plan.Notes, fmt.Sprintf(text, args...))
}

func (p *planner) write(d Draft) error {
	r, err := p.m.Append(d, p.at, "plan")
	p.keep(r)
	return err
}

func (p *planner) keep(r journal.Record) {
	p.records = append(p.records, r)
	p.bytes += len(r.Data)
}

// step carries out the next decision. over is true if there is none, or if the saga would fail.
func (p *planner) step() (over bool, err error) {
	var waits *node
	p.m.currentSteps(func(n *node) bool {
		if n.forward.state == awaiting {
			waits = n
		}
		return waits == nil
	})
	if waits != nil {
		return false, p.message(waits)
	}
	ds := slices.DeleteFunc(p.m.Decide(), p.blocks)
	if len(ds) == 0 || p.m.forward.over() && p.m.finally.over() {
		return true, nil
	}
	switch d := first(ds).(type) {
	case Dispatch:
		return false, p.call(d)
	case WakeAt:
		if d.At.After(p.at) {
			p.at = d.At
		}
		return false, p.write(d.Woke)
	case Write:
		return p.wrote(d.Record)
	case Escalate:
		n := p.m.steps[d.Entry.Path]
		if n == nil { // over the budget: the step has no record yet
			n = &node{step: p.m.def.Step(d.Entry.Path), path: d.Entry.Path}
		}
		return false, p.pretend(n.path, d.Entry.Title+": "+d.Entry.Detail)
	}
	return true, nil
}

// blocks reports whether a decision is that a step waits for a person because it fails after the
// pivot. The plan goes no further there, as it does not after a failure before the pivot.
func (p *planner) blocks(d Decision) bool {
	e, ok := d.(Escalate)
	if !ok {
		return false
	}
	n := p.m.steps[e.Entry.Path]
	return n != nil && n.forward.state == blocked
}

// first returns the decision that can be carried out at once, or else the first wait.
func first(ds []Decision) Decision {
	for _, d := range ds {
		switch d.(type) {
		case Dispatch, Write:
			return d
		}
	}
	return ds[0]
}

// message delivers the message that a step waits for.
func (p *planner) message(n *node) error {
	if a := n.awaited.Approval; a != nil {
		p.plan.Approvals = append(p.plan.Approvals, n.path)
	}
	return p.pretend(n.path, "")
}

// call lists a request and makes it succeed.
func (p *planner) call(d Dispatch) error {
	path := d.Send.Path
	step := p.m.def.Step(path)
	request := d.Send.Request
	s := p.describe(path, reserveOf(step, request).Add(p.m.childReserve(&request)).Cost)
	s.Request, s.Key = &request, d.Send.Key
	if step.Pivot {
		p.planUndo()
	}
	output := p.output(path, &s)
	if err := p.write(d.Intent); err != nil {
		return err
	}
	o := saga.OutcomeData{Output: output, Cost: s.Cost}
	r := Draft{Kind: journal.Outcome, Path: d.Send.Path, Way: d.Send.Way, Attempt: d.Send.Attempt, Generation: d.Send.Generation,
		Class: journal.Succeeded, Data: o}
	if err := p.write(r); err != nil {
		return err
	}
	s.Undo = p.compensation(path)
	p.plan.Steps = append(p.plan.Steps, s)
	return nil
}

// stub returns the stubbed output of a step, nil if there is none. A stub's key is a path, or the
// id of a step for all iterations.
func (p *planner) stub(path string) json.RawMessage {
	for _, name := range []string{path, saga.StepID(path)} {
		if stub := p.stubs[name]; len(stub) > 0 {
			return stub
		}
	}
	return nil
}

// output returns the assumed output of a step, which is listed if it comes from a stub.
func (p *planner) output(path string, s *PlannedStep) json.RawMessage {
	if s.Output = p.stub(path); s.Output != nil {
		return s.Output
	}
	if n := p.m.steps[path]; n != nil && n.awaited != nil && n.awaited.Approval != nil {
		at := func(field string) string { return expr.Placeholder(path + "." + field) }
		return saga.Encode(map[string]any{"decision": "approved", "by": at("by"), "at": at("at"), "comment": at("comment"), "data": at("data")})
	}
	return placeholder(path)
}

// describe begins the entry of a step and adds the most that it may cost; cost is that of one
// attempt.
func (p *planner) describe(path string, cost retry.Money) PlannedStep {
	step := p.m.def.Step(path)
	s := PlannedStep{Path: path, Kind: step.Kind, Use: step.Use.String(), Pivot: step.Pivot}
	if n := p.node(path); n != nil {
		s.If, s.Note = p.m.outline.conditions(n), p.m.outline.vague[path]
	}
	if _, ok := step.Body.(saga.Call); !ok {
		return s
	}
	s.Attempts = step.Retry.Attempts
	if cost.IsZero() {
		return s
	}
	s.Cost = cost.Decimal()
	if step.Retry.Attempts == 0 {
		p.note("step %s is retried without limit, at %s per attempt: only the budget limits its cost", path, cost)
		p.worst = p.worst.Add(cost)
		return s
	}
	p.worst = p.worst.Add(times(step.Retry.Attempts, cost))
	return s
}

// times returns n × m. It takes log n additions, because a definition may allow a million attempts.
func times(n int, m retry.Money) (product retry.Money) {
	for ; n > 0; n /= 2 {
		if n%2 == 1 {
			product = product.Add(m)
		}
		m = m.Add(m)
	}
	return product
}

// node finds a step, even if it has no record yet.
func (p *planner) node(path string) *node {
	if n := p.m.steps[path]; n != nil {
		return n
	}
	for _, g := range []*group{p.m.forward, p.m.finally} {
		if g.cur != nil && g.cur.path == path {
			return g.cur
		}
	}
	return p.m.due[path]
}

// compensation renders the compensation of a step that has succeeded.
func (p *planner) compensation(path string) *Planned {
	n := p.m.steps[path]
	if n == nil || n.step.Compensate == nil {
		return nil
	}
	c := n.step.Compensate
	u := &Planned{Kind: c.Kind}
	if cost, ok := declaredCost(c.Cost); ok && !cost.IsZero() {
		u.Cost = cost.Decimal()
	}
	if c.When != nil {
		e := p.m.env(n)
		e.output, e.hasOutput = n.compensable(), true
		e.actionInput, _ = p.m.actionInput(n, &n.compensation, &c.Step, e)
		switch yes, err := c.When.Bool(e); {
		case errors.Is(err, expr.ErrUnknown):
			u.If = strings.TrimSpace(c.When.Source())
		case err != nil:
			u.Note = "fails: " + expressionFailure("compensate.when", err).Error()
		case !yes:
			u.Note = "skipped: its `when` is false"
			return u
		}
	}
	request, key, _, err := p.m.render(n, n.compensation.generation, journal.Undo)
	if err != nil {
		u.Note = failing(asFailure("compensate", err))
		return u
	}
	u.Request, u.Key = request, key
	p.keep(journal.Record{Kind: journal.Intent, Path: path, Way: journal.Undo, Attempt: 1, Key: key, Node: "plan",
		Data: saga.Encode(saga.IntentData{Request: request, RequestHash: request.Hash()})})
	return u
}

// wrote lists a record that needs nothing from outside.
func (p *planner) wrote(r Draft) (over bool, err error) {
	step := p.m.def.Step(r.Path)
	switch r.Kind {
	case journal.Finished, journal.Compensating:
		return true, nil
	case journal.Skipped:
		p.plan.Steps = append(p.plan.Steps, PlannedStep{Path: r.Path, Kind: step.Kind, Skipped: true})
	case journal.Intent:
		d := r.Data.(saga.IntentData)
		if d.Awaited != nil {
			break // listed when the message has come
		}
		s := p.describe(r.Path, retry.Money{})
		s.WakeAt = d.WakeAt
		p.plan.Steps = append(p.plan.Steps, s)
	case journal.Decided:
		if !strings.HasSuffix(r.Path, "]") {
			p.plan.Steps = append(p.plan.Steps, p.describe(r.Path, retry.Money{}))
		}
	case journal.Outcome:
		return p.outcome(r)
	}
	return false, p.write(r)
}

// outcome lists the outcome of a step that only computes, or that cannot begin.
func (p *planner) outcome(r Draft) (over bool, err error) {
	d := r.Data.(saga.OutcomeData)
	step := p.m.def.Step(r.Path)
	n := p.node(r.Path)
	_, call := step.Body.(saga.Call)
	open := n != nil && p.m.outline.maybe(n)
	switch {
	case n != nil && n.forward.state == entered: // a block, which is listed already
		if p.m.outline.vague[r.Path] != "" && d.Error == nil || open {
			return false, p.ended(r, d)
		}
		if d.Error != nil && n.block.broken == nil {
			p.annotate(r.Path, failing(d.Error))
		}
		return false, p.write(r)
	case d.Error != nil && (d.Error.Code == codeBudget || d.Error.Code == codeUnknown || open):
		return false, p.pretend(r.Path, failing(d.Error))
	case d.Error != nil:
		s := p.describe(r.Path, retry.Money{})
		s.Note = failing(d.Error)
		p.plan.Steps = append(p.plan.Steps, s)
		return false, p.write(r)
	case !call && d.Output != nil && (n == nil || n.first == 0): // not the end of a wait, which is listed already
		if stub := p.stub(r.Path); stub != nil {
			d.Output = stub
			r.Data = d
		}
		s := p.describe(r.Path, retry.Money{})
		s.Output = d.Output
		p.plan.Steps = append(p.plan.Steps, s)
		if open {
			return false, p.ended(r, d)
		}
	}
	return false, p.write(r)
}

// ended appends the success of a block whose output is unknown, because it is unknown whether or
// how often its steps run.
func (p *planner) ended(r Draft, d saga.OutcomeData) error {
	if d.Error == nil {
		d.Output = p.stub(r.Path)
		if d.Output == nil {
			d.Output = placeholder(r.Path)
		}
	}
	if vague := p.m.outline.vague[r.Path]; vague != "" {
		p.annotate(r.Path, vague) // for a repeat, known only at its end
	}
	r.Data = d
	return p.write(r)
}

// annotate sets the note of a step that is listed.
func (p *planner) annotate(path, note string) {
	if i := slices.IndexFunc(p.plan.Steps, func(s PlannedStep) bool { return s.Path == path }); i >= 0 {
		p.plan.Steps[i].Note = note
	}
}

// failing returns the note of a step that will fail, or that may fail.
func failing(f *saga.Failure) string {
	if f.Code == codeUnknown || f.Code == codeBudget {
		return f.Error()
	}
	return "fails: " + f.Error()
}

// pretend lists a step that cannot be rendered or paid for, or that waits for a person, and makes
// it succeed.
func (p *planner) pretend(path, why string) error {
	step := p.m.def.Step(path)
	cost, _ := declaredCost(step.Cost)
	s := p.describe(path, cost)
	if why != "" {
		s.Note = why
	}
	if step.Pivot {
		p.planUndo()
	}
	output := p.output(path, &s)
	r := Draft{Kind: journal.Outcome, Path: path, Way: journal.Do, Class: journal.Succeeded, Data: saga.OutcomeData{Output: output}}
	if err := p.write(r); err != nil {
		return err
	}
	s.Undo = p.compensation(path)
	p.plan.Steps = append(p.plan.Steps, s)
	return nil
}

// planUndo lists what a failure at this point would undo.
func (p *planner) planUndo() {
	if p.undo {
		return
	}
	p.undo = true
	undo, left := compensation.Plan(p.m.effects())
	p.plan.Undo, p.plan.Residual = append(p.plan.Undo, undo...), left
}

func (p *planner) finish() (Plan, error) {
	p.planUndo()
	p.plan.WorstCase, p.plan.Currency = p.worst.Decimal(), p.m.currency()
	if b := p.m.account.Budget; b != nil {
		p.plan.Budget = b.Decimal()
	}
	for _, path := range slices.Sorted(maps.Keys(p.m.outline.vague)) {
		if _, choice := p.m.def.Step(path).Body.(saga.Chooser); !choice && !p.worst.IsZero() {
			p.note("the worst case counts one iteration of %s, whose number is not known", path)
		}
	}
	var shown Plan
	if err := json.Unmarshal(expr.ShowPlaceholders(saga.Encode(p.plan)), &shown); err != nil {
		return Plan{}, fmt.Errorf("plan: %w", err)
	}
	return shown, nil
}
