package saga

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/compensation"
	"recourse/journal"
	"recourse/retry"
)

// maxPlanRecords bounds a plan, as it would bound a saga that goes round in circles.
const maxPlanRecords = 10_000

// Plan is what a saga would do if every step succeeded with the outputs it was given.
type Plan struct {
	// Saga is the id that the keys are derived from: the nil UUID. A real saga's keys differ.
	Saga  string        `json:"saga"`
	Steps []PlannedStep `json:"steps"`
	// WorstCase is the sum over the forward steps of attempts × cost: the most that can be spent, or
	// reserved, if there is a bound; see Notes. The budget, if it is less, is the bound.
	WorstCase string `json:"worst_case_cost"`
	Currency  string `json:"currency,omitempty"`
	Budget    string `json:"budget,omitempty"`
	// Undo lists what would be undone, in order, if the saga failed at its last step
	// or, where there is a pivot, at the pivot.
	Undo      []string               `json:"undo"`
	Residual  []compensation.Residue `json:"residual,omitempty"` // what would remain then
	Approvals []string               `json:"approvals"`          // paths of steps that wait for a person
	Notes     []string               `json:"notes,omitempty"`
}

// PlannedStep is a step, or the undoing of one, as it would run.
type PlannedStep struct {
	Path     string          `json:"path"`
	Kind     string          `json:"kind"`
	Skipped  bool            `json:"skipped,omitempty"` // its `when` is false
	Request  *Request        `json:"request,omitempty"`
	Key      string          `json:"key,omitempty"`
	Cost     string          `json:"cost,omitempty"`     // of one attempt, at most
	Attempts int             `json:"attempts,omitempty"` // at most; absent: no end
	WakeAt   *Time           `json:"wake_at,omitempty"`  // of a wait
	Pivot    bool            `json:"pivot,omitempty"`
	Undo     *Planned        `json:"compensation,omitempty"`
	Note     string          `json:"note,omitempty"`
	Output   json.RawMessage `json:"output,omitempty"` // as stubbed, or computed
}

// Planned is a compensation as it would run.
type Planned struct {
	Kind    string   `json:"kind"`
	Request *Request `json:"request,omitempty"`
	Key     string   `json:"key,omitempty"`
	Cost    string   `json:"cost,omitempty"`
	Note    string   `json:"note,omitempty"`
}

// planner drives a machine with made-up outcomes.
type planner struct {
	m     *Machine
	at    time.Time
	stubs map[string]json.RawMessage
	blind []string // calls whose output no stub gives, so far
	plan  Plan
	worst retry.Money
	undo  bool // Undo is settled: the pivot was reached
}

// MakePlan drives a saga of def that was started with d at a time to its end, each call
// succeeding at once with the output that stubs give for its path, or null. A
// step that needs an output which is not given is listed with a note and taken to
// succeed. An error means that the machine could not follow itself.
func MakePlan(def *Definition, d StartedData, stubs map[string]json.RawMessage, at time.Time) (Plan, error) {
	p := &planner{m: New(def, uuid.Nil), at: at, stubs: stubs,
		plan: Plan{Saga: uuid.Nil.String(), Steps: []PlannedStep{}, Undo: []string{}, Approvals: []string{}}}
	if err := p.write(p.m.Start(d)); err != nil {
		return Plan{}, err
	}
	for range maxPlanRecords {
		over, err := p.step()
		if err != nil {
			return Plan{}, fmt.Errorf("plan: %w", err)
		}
		if over {
			return p.finish(), nil
		}
	}
	p.note("the plan was cut after %d records", maxPlanRecords)
	return p.finish(), nil
}

func (p *planner) note(text string, args ...any) {
	p.plan.Notes = append(p.plan.Notes, fmt.Sprintf(text, args...))
}

func (p *planner) write(r journal.Record) error {
	return p.m.Apply(p.m.Seal(r, p.at, "plan"))
}

// step carries out the next decision; over when there is none, or the saga would fail.
func (p *planner) step() (over bool, err error) {
	ds := p.m.Decide()
	if len(ds) == 0 || p.m.forward.over() && p.m.finally.over() {
		return true, nil
	}
	switch d := ds[0].(type) {
	case Dispatch:
		return false, p.call(d)
	case WakeAt:
		if d.At.After(p.at) {
			p.at = d.At
		}
		return false, p.write(d.Woke)
	case Write:
		return p.wrote(d.Record)
	case Hold:
		n := p.m.steps[d.Entry.Path]
		if n == nil { // over budget: the step has no record yet
			n = &node{step: p.m.def.ByID[d.Entry.Path], path: d.Entry.Path}
		}
		return false, p.pretend(n.step, d.Entry.Title+": "+d.Entry.Detail)
	}
	return true, nil
}

// call plans a request and has it succeed.
func (p *planner) call(d Dispatch) error {
	step := p.m.def.ByID[d.Send.Path]
	request := d.Send.Request
	s := p.describe(step)
	s.Request, s.Key = &request, d.Send.Key
	if step.Pivot {
		p.planUndo()
	}
	output := p.output(step)
	if output != nil {
		s.Output = output
	} else {
		p.blind = append(p.blind, step.ID)
		output = json.RawMessage("null")
	}
	if err := p.write(d.Intent); err != nil {
		return err
	}
	o := OutcomeData{Output: output}
	if reserve := step.Cost.reserve(); !reserve.IsZero() {
		o.Cost = reserve.Decimal()
	}
	r := journal.Record{Kind: journal.Outcome, Path: d.Send.Path, Way: d.Send.Way, Attempt: d.Send.Attempt, Generation: d.Send.Generation,
		Class: journal.Succeeded, Data: encode(o)}
	if err := p.write(r); err != nil {
		return err
	}
	s.Undo = p.compensation(step)
	p.plan.Steps = append(p.plan.Steps, s)
	return nil
}

// output is what the step is taken to give; nil when no stub says.
func (p *planner) output(step *Step) json.RawMessage {
	if stub, ok := p.stubs[step.ID]; ok && len(stub) > 0 {
		return stub
	}
	return nil
}

// describe begins the entry of a step and books the most that it may cost.
func (p *planner) describe(step *Step) PlannedStep {
	s := PlannedStep{Path: step.ID, Kind: step.Kind, Pivot: step.Pivot}
	if _, ok := step.Body.(Call); !ok {
		return s
	}
	s.Attempts = step.Retry.Attempts
	cost := step.Cost.reserve()
	if cost.IsZero() {
		return s
	}
	s.Cost = cost.Decimal()
	if step.Retry.Attempts == 0 {
		p.note("step %s is retried for ever at %s each time: its cost has no bound but the budget", step.ID, cost)
		p.worst = p.worst.Add(cost)
		return s
	}
	for range step.Retry.Attempts {
		p.worst = p.worst.Add(cost)
	}
	return s
}

// compensation renders what would undo a step that has succeeded.
func (p *planner) compensation(step *Step) *Planned {
	c := step.Compensate
	n := p.m.steps[step.ID]
	if c == nil || n == nil {
		return nil
	}
	u := &Planned{Kind: c.Kind}
	if cost := c.Cost.reserve(); !cost.IsZero() {
		u.Cost = cost.Decimal()
	}
	request, key, err := p.m.render(n, n.undo.generation, journal.Undo)
	if err != nil {
		u.Note = p.missing(asFailure("compensate", err))
		return u
	}
	u.Request, u.Key = request, key
	return u
}

// wrote follows a record that needs nothing from outside.
func (p *planner) wrote(r journal.Record) (over bool, err error) {
	step := p.m.def.ByID[r.Path]
	switch r.Kind {
	case journal.Finished, journal.Compensating:
		return true, nil
	case journal.Skipped:
		p.plan.Steps = append(p.plan.Steps, PlannedStep{Path: step.ID, Kind: step.Kind, Skipped: true})
	case journal.Intent:
		var d IntentData
		if err := read(r, &d); err != nil {
			return false, err
		}
		s := p.describe(step)
		s.WakeAt = d.WakeAt
		p.plan.Steps = append(p.plan.Steps, s)
	case journal.Decided:
		p.plan.Steps = append(p.plan.Steps, p.describe(step))
	case journal.Outcome:
		return p.outcome(step, r)
	}
	return false, p.write(r)
}

// outcome follows the outcome of a step that only computes, or cannot begin.
func (p *planner) outcome(step *Step, r journal.Record) (over bool, err error) {
	var d OutcomeData
	if err := read(r, &d); err != nil {
		return false, err
	}
	n := p.m.steps[step.ID]
	switch {
	case d.Error != nil && n != nil && n.do.state == chosen:
		return false, p.write(r) // of a step inside it, which is listed
	case d.Error != nil && d.Error.Code != codeExpression && d.Error.Code != codeBudget:
		s := p.describe(step)
		s.Note = "fails: " + d.Error.Error()
		p.plan.Steps = append(p.plan.Steps, s)
		return false, p.write(r)
	case d.Error != nil:
		return false, p.pretend(step, p.missing(d.Error))
	}
	if _, ok := step.Body.(Value); ok {
		s := p.describe(step)
		s.Output = d.Output
		p.plan.Steps = append(p.plan.Steps, s)
	}
	return false, p.write(r)
}

// pretend lists a step that cannot be rendered or paid, and has it succeed all the same.
func (p *planner) pretend(step *Step, why string) error {
	s := p.describe(step)
	s.Note = why
	if step.Pivot {
		p.planUndo()
	}
	output := p.output(step)
	if output != nil {
		s.Output = output
	} else {
		p.blind = append(p.blind, step.ID)
		output = json.RawMessage("null")
	}
	r := journal.Record{Kind: journal.Outcome, Path: step.ID, Way: journal.Do, Class: journal.Succeeded, Data: encode(OutcomeData{Output: output})}
	if err := p.write(r); err != nil {
		return err
	}
	s.Undo = p.compensation(step)
	p.plan.Steps = append(p.plan.Steps, s)
	return nil
}

// missing says which stub would let a template be rendered.
func (p *planner) missing(f *Failure) string {
	if f.Code != codeExpression || len(p.blind) == 0 {
		return f.Error()
	}
	var named []string
	for _, id := range p.blind {
		if strings.Contains(f.Detail, "steps."+id+".") && !slices.Contains(named, id) {
			named = append(named, id)
		}
	}
	if len(named) == 0 {
		named = p.blind[len(p.blind)-1:]
	}
	return "give a stub for " + strings.Join(named, ", ") + ": " + f.Error()
}

// planUndo settles what a failure from here on would undo.
func (p *planner) planUndo() {
	if p.undo {
		return
	}
	p.undo = true
	undo, left := compensation.Plan(p.m.effects())
	p.plan.Undo, p.plan.Residual = append(p.plan.Undo, undo...), left
}

func (p *planner) finish() Plan {
	p.planUndo()
	p.plan.WorstCase, p.plan.Currency = p.worst.Decimal(), p.m.currency()
	if b := p.m.account.Budget; b != nil {
		p.plan.Budget = b.Decimal()
	}
	return p.plan
}
