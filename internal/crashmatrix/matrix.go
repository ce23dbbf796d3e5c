package crashmatrix

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/expr"
	"recourse/saga/machine"
)

// Options are the options of [Run].
type Options struct {
	Input  json.RawMessage            // nil: made up
	Vars   map[string]json.RawMessage // those that are missing are made up
	Stubs  map[string]json.RawMessage // answers by path or id of a step; those that are missing are made up
	Ledger Honours                    // "": AsDeclared
	Pairs  bool                       // also two faults in one saga
	// Sources are the texts of the actions that the definition uses.
	Sources [][]byte
	// Progress is called after each run, from several goroutines; nil: nobody wants to know.
	Progress func(done, all int)
}

// Matrix has the rows of a definition.
type Matrix struct {
	Definition string          `json:"definition"`
	SHA256     string          `json:"sha256"`
	Ledger     Honours         `json:"ledger"`
	Input      json.RawMessage `json:"input"`
	Rows       []Row           `json:"rows"`
	Notes      []string        `json:"notes"` // what the rows do not cover
	Counts     map[Verdict]int `json:"verdicts"`
}

// Faulty reports whether a row shows a fault of the definition.
func (m *Matrix) Faulty() bool {
	return slices.ContainsFunc(m.Rows, func(r Row) bool { return r.Verdict.Faulty() })
}

// plan is what the runs of a definition have in common.
type plan struct {
	def     *saga.Definition
	id      uuid.UUID // of its sagas
	o       Options
	answers *answers
	data    saga.StartedData
	input   any
	vars    map[string]any
	longest time.Duration   // the longest wait that the definition declares
	final   map[string]bool // ids of the steps of finally
	checked map[string]bool // ids of steps that cannot be undone, and that a check comes after

	mu    sync.Mutex
	notes []string
}

// StartError says why a saga of the definition cannot start with the given input.
type StartError struct{ Findings []saga.Finding }

// Error implements error.
func (e *StartError) Error() string { return "the saga cannot start: " + saga.Details(e.Findings) }

// Run tests a definition. Errors: *StartError; the context's; and those of the engine, which are
// bugs of recourse.
func Run(ctx context.Context, def *saga.Definition, o Options) (*Matrix, error) {
	if o.Ledger == "" {
		o.Ledger = AsDeclared
	}
	p, err := newPlan(def, o)
	if err != nil {
		return nil, err
	}
	base, err := p.baseline()
	if err != nil {
		return nil, err
	}
	jobs := []job{{}}
	jobs = append(jobs, p.jobs(base)...)
	rows, err := p.run(ctx, jobs)
	if err != nil {
		return nil, err
	}
	p.cover(base, rows)
	m := &Matrix{Definition: def.Name, SHA256: def.SHA256, Ledger: o.Ledger, Input: p.o.Input, Rows: rows, Notes: p.notes, Counts: make(map[Verdict]int)}
	slices.Sort(m.Notes)
	m.Notes = append([]string{}, slices.Compact(m.Notes)...)
	for _, row := range rows {
		m.Counts[row.Verdict]++
	}
	return m, nil
}

func newPlan(def *saga.Definition, o Options) (*plan, error) {
	p := &plan{def: def, id: everyID, o: o, answers: newAnswers(o.Stubs, append([][]byte{def.Source}, o.Sources...)...), final: make(map[string]bool), checked: make(map[string]bool)}
	if len(o.Input) == 0 {
		p.o.Input = json.RawMessage("null")
		if def.Input != nil {
			p.o.Input = expr.AppendJSON(nil, p.answers.maker("input", 0).sample(def.Input.Document(), ""))
		}
	}
	vars := make(map[string]json.RawMessage)
	maps.Copy(vars, o.Vars)
	for _, name := range def.VarsUsed {
		declared := slices.ContainsFunc(def.Vars, func(v saga.Var) bool { return v.Name == name })
		if vars[name] == nil && !declared {
			vars[name] = saga.Encode(MadeUpVar(name))
		}
	}
	data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1, Input: p.o.Input, Vars: vars, Actor: "starter"})
	if len(wrong) > 0 {
		return nil, &StartError{wrong}
	}
	p.data = data
	p.input, _ = expr.Decode(data.Input)
	p.vars = make(map[string]any)
	for name, value := range data.Vars {
		p.vars[name] = expr.Raw(value)
	}
	p.longest = def.Timeout
	for _, step := range def.ByID { // any order
		p.longest = max(p.longest, step.Timeout, step.Deadline, step.Retry.Max)
		if c := step.Compensate; c != nil {
			p.longest = max(p.longest, c.Timeout, c.Deadline, c.Retry.Max)
		}
	}
	p.mark(def.Finally)
	for _, w := range def.Warnings {
		if w.Code == "irreversible-before-fallible" {
			if id, ok := quotedID(w.Detail); ok {
				p.checked[id] = true
			}
		}
	}
	return p, nil
}

// MadeUpVar returns the value of a var that the user has not given.
func MadeUpVar(name string) string { return "https://" + strings.ReplaceAll(name, "_", "-") + ".test" }

// quotedID returns the id that a warning begins with.
func quotedID(detail string) (string, bool) {
	rest, ok := strings.CutPrefix(detail, `"`)
	id, _, closed := strings.Cut(rest, `"`)
	return id, ok && closed
}

// mark notes the ids of the steps of finally.
func (p *plan) mark(steps []*saga.Step) {
	for _, s := range steps {
		p.final[s.ID] = true
		if block, ok := s.Body.(saga.Block); ok {
			for _, list := range block.Lists() {
				p.mark(list)
			}
		}
	}
}

func (p *plan) note(text string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, fmt.Sprintf(text, args...))
}

// baseline runs the saga without a fault. It first finds answers with which most of its steps run.
func (p *plan) baseline() (*run, error) {
	var first error
	calls := 0
	for _, step := range p.def.ByID { // any order
		if _, ok := step.Body.(saga.Call); ok {
			calls++
		}
	}
	const succeeds = 1000
	p.answers.improve(func() int {
		r, err := p.drive("")
		if err != nil {
			if first == nil {
				first = err
			}
			return -1
		}
		ids := make(map[string]bool)
		for _, at := range r.order {
			ids[saga.StepID(at.path)] = true
		}
		for _, path := range r.approved {
			ids[saga.StepID(path)] = true
		}
		score := len(ids)
		if r.m.Status() == saga.Succeeded {
			score += succeeds
		}
		return score
	}, succeeds+calls)
	r, err := p.drive("")
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.notes = nil // those of discarded answers
	p.mu.Unlock()
	return r, nil
}

// job is one run.
type job struct {
	cancel string
	faults []Fault
}

// jobs lists the runs: each fault of each step, then of each compensation, then the pairs.
func (p *plan) jobs(base *run) (jobs []job) {
	var forward []place
	seen := make(map[string]bool)
	for _, at := range base.order {
		if id := saga.StepID(at.path); at.way == journal.Do && !seen[id] {
			seen[id] = true
			forward = append(forward, at)
		}
	}
	for _, at := range forward {
		for _, kind := range p.faultsOf(at) {
			jobs = append(jobs, job{faults: []Fault{{at.path, at.way, kind}}})
		}
	}
	for _, path := range base.approved {
		if id := saga.StepID(path); !seen[id] {
			seen[id] = true
			jobs = append(jobs, job{faults: []Fault{{path, journal.Do, Rejected}}})
		}
	}
	for _, at := range forward {
		if p.def.Step(at.path).Compensate == nil || p.final[saga.StepID(at.path)] {
			continue
		}
		undo := place{at.path, journal.Undo}
		jobs = append(jobs, job{cancel: at.path, faults: []Fault{{undo.path, undo.way, None}}})
		for _, kind := range p.faultsOf(undo) {
			jobs = append(jobs, job{cancel: at.path, faults: []Fault{{undo.path, undo.way, kind}}})
		}
	}
	if p.o.Pairs {
		jobs = append(jobs, p.pairs(forward)...)
	}
	return jobs
}

// faultsOf lists the faults of a request. A request that only reads has no effect.
func (p *plan) faultsOf(at place) (kinds []Kind) {
	call, ok := body(p.def.Step(at.path), at.way).Body.(saga.Call)
	for _, kind := range Kinds {
		if ok && call.ReadOnly() && kind.effect() {
			continue
		}
		kinds = append(kinds, kind)
	}
	return kinds
}

// pairs lists the runs with two faults: one of a step, and one of a later step or of a
// compensation.
func (p *plan) pairs(forward []place) (jobs []job) {
	for i, at := range forward {
		var then []place
		then = append(then, forward[i+1:]...)
		for _, undone := range forward[:i+1] {
			if p.def.Step(undone.path).Compensate != nil {
				then = append(then, place{undone.path, journal.Undo})
			}
		}
		for _, kind := range p.faultsOf(at) {
			for _, second := range then {
				for _, other := range p.faultsOf(second) {
					jobs = append(jobs, job{faults: []Fault{{at.path, at.way, kind}, {second.path, second.way, other}}})
				}
			}
		}
	}
	return jobs
}

// run makes the runs, several at a time, and returns their rows in order. Runs whose faults did not
// strike have none.
func (p *plan) run(ctx context.Context, jobs []job) ([]Row, error) {
	rows, errs := make([]*Row, len(jobs)), make([]error, len(jobs))
	var next, done atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(jobs) {
					return
				}
				rows[i], errs[i] = p.one(jobs[i])
				if p.o.Progress != nil {
					p.o.Progress(int(done.Add(1)), len(jobs))
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	list := []Row{}
	for i, row := range rows {
		if errs[i] != nil {
			return nil, errs[i]
		}
		if row != nil {
			list = append(list, *row)
		}
	}
	return list, nil
}

// one makes one run.
func (p *plan) one(j job) (*Row, error) {
	var faults []Fault
	for _, f := range j.faults {
		if f.Kind != None {
			faults = append(faults, f)
		}
	}
	r, err := p.drive(j.cancel, faults...)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", j.faults, err)
	}
	for _, s := range r.strikes {
		if s.count == 0 {
			return nil, nil
		}
	}
	if j.cancel != "" && r.m.Status() == saga.Succeeded {
		return nil, nil // past the pivot nothing is undone
	}
	row := r.row(j.faults...)
	return &row, nil
}

// cover notes what the rows do not cover.
func (p *plan) cover(base *run, rows []Row) {
	if len(rows) > 0 && rows[0].End != saga.Succeeded {
		why := "the saga does not succeed without a fault"
		if reason := base.m.Reason(); reason != nil {
			why += ": " + strings.TrimPrefix(reason.Step+": ", ": ") + reason.Title
			if reason.Detail != "" {
				why += ": " + reason.Detail
			}
		}
		p.note("%s. Give the input with --input, and answers with --stubs", why)
	}
	reached := make(map[string]bool)
	for _, row := range rows {
		reached[saga.StepID(row.Step)] = true
	}
	var missed []string
	for id, step := range p.def.ByID { // sorted below
		if call, ok := step.Body.(saga.Call); ok && call != nil && !reached[id] && !strings.Contains(id, "-") {
			missed = append(missed, id)
		}
	}
	if slices.Sort(missed); len(missed) > 0 {
		p.note("not reached: %s. Give the input with --input, and answers with --stubs", strings.Join(missed, ", "))
	}
}
