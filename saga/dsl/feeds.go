package dsl

import (
	"fmt"
	"slices"

	"recourse/saga"
	"recourse/saga/expr"
)

// Origin says who determines a step's output, for the warnings.
type Origin int

// The origins.
const (
	Foreign Origin = iota // another program
	Made                  // the step itself, from the values that it reads and the outputs of its own steps
	Model                 // a language model
	Person                // a person who decided on what was shown
)

// reading is the set of values that the templates of a step read; for a loop, those of the list
// that it runs over.
type reading struct {
	outputs map[string]bool // ids of steps
	items   map[string]bool // ids of loops around the step; in result, also the loop itself
	scope   *scope
	sent    []expr.Ref // without those of templates over the answer
	result  *reading   // the values that a loop's own output reads; nil: it has no own output
}

func newReading() *reading {
	return &reading{outputs: map[string]bool{}, items: map[string]bool{}}
}

// reads records the values that a template of a step reads. Conditions do not count: they choose a
// branch, and nothing of them is sent.
func (p *parser) reads(s *scope, at Place, refs []expr.Ref) {
	id := s.step()
	if id == "" || s.undo || s.event != nil {
		return
	}
	r := p.readings[id]
	if r == nil {
		r = newReading()
		p.readings[id] = r
	}
	r.scope = s
	if s.loop == id {
		if r.result == nil {
			r.result = newReading()
		}
		r = r.result
	}
	if at != OnResult {
		r.sent = append(r.sent, refs...)
	}
	for _, ref := range refs {
		loop := s.loopOf(ref.Root)
		switch {
		case ref.Root == "steps" && len(ref.Path) > 0:
			r.outputs[ref.Path[0]] = true
		case loop == "" || ref.Root == "index":
		case ref.Root == "history": // the outputs of earlier iterations
			r.outputs[loop] = true
		default:
			r.items[loop] = true
		}
	}
}

// depends records the steps whose results the templates and conditions of a step, or of its
// compensation, read, and with them those of the blocks around it.
func (p *parser) depends(s *scope, refs []expr.Ref) {
	if s.event != nil {
		return
	}
	reads := p.def.Reads
	if s.undo {
		reads = p.def.UndoReads
	}
	for _, ref := range refs {
		if ref.Root != "steps" || len(ref.Path) == 0 {
			continue
		}
		for in := s; in != nil; in = in.parent {
			if in.self != "" && !slices.Contains(reads[in.self], ref.Path[0]) {
				reads[in.self] = append(reads[in.self], ref.Path[0])
			}
		}
	}
}

// loopOf returns the id of the loop that adds a root, "" if none does.
func (s *scope) loopOf(root string) string {
	for ; s != nil; s = s.parent {
		if s.vars[root] != nil {
			return s.loop
		}
	}
	return ""
}

// words finds the steps whose outputs contain text of a language model. The value is the step that
// calls the model.
func (w *warner) words() map[string]*saga.Step {
	models := make(map[string]*saga.Step)
	all := innerFirst(nil, slices.Concat(w.def.Steps, w.def.Finally))
	for changed := true; changed; { // more than two rounds only for loops that read their own outputs
		changed = false
		for _, s := range all {
			if models[s.ID] != nil {
				continue
			}
			if m := w.source(s, models); m != nil {
				models[s.ID], changed = m, true
			}
		}
	}
	return models
}

// innerFirst lists steps in their order, each after the steps inside it.
func innerFirst(all, steps []*saga.Step) []*saga.Step {
	for _, s := range steps {
		if block, ok := s.Body.(saga.Block); ok {
			for _, list := range block.Lists() {
				all = innerFirst(all, list)
			}
		}
		all = append(all, s)
	}
	return all
}

// source returns the model's step whose text a step's output contains, nil for none.
func (w *warner) source(s *saga.Step, models map[string]*saga.Step) *saga.Step {
	switch w.kinds[s.Kind].Output {
	case Model:
		return s
	case Made:
		r := w.readings[s.ID]
		block, ok := s.Body.(saga.Block)
		switch {
		case !ok:
			return w.read(r, models)
		case r != nil && r.result != nil:
			return w.read(r.result, models)
		}
		for _, list := range block.Lists() {
			for _, inner := range list {
				if m := models[inner.ID]; m != nil {
					return m
				}
			}
		}
	}
	return nil
}

// first returns the first model's step, by its place, whose text is in some of the outputs.
func (w *warner) first(outputs map[string]bool, models map[string]*saga.Step) *saga.Step {
	var first *saga.Step
	for output := range outputs { // any order
		first = w.earlier(first, models[output])
	}
	return first
}

func (w *warner) earlier(a, b *saga.Step) *saga.Step {
	if a == nil || b != nil && before(w.written[b.ID], w.written[a.ID]) {
		return b
	}
	return a
}

// read returns the first model's step, by its place, whose text a reading contains. r may be nil.
func (w *warner) read(r *reading, models map[string]*saga.Step) *saga.Step {
	if r == nil {
		return nil
	}
	first := w.first(r.outputs, models)
	for loop := range r.items { // any order
		first = w.earlier(first, w.read(w.readings[loop], models))
	}
	return first
}

// fed warns of a write that sends a model's text without an approval.
func (w *warner) fed(s *saga.Step) {
	if !writes(s) {
		return
	}
	if w.models == nil {
		w.models = w.words()
	}
	m := w.read(w.readings[s.ID], w.models)
	if m == nil || w.agreed(m, s) {
		return
	}
	w.say(s, s.Kind, "model-output-feeds-write-without-approval", fmt.Sprintf("%q sends what the model of %q has written, and no approval allows it: put an approval between them", s.ID, m.ID))
}

// agreed reports whether there is an approval between a model's step and another step.
func (w *warner) agreed(from, to *saga.Step) bool {
	for id, a := range w.def.ByID { // any order
		if w.kinds[a.Kind].Output == Person && before(w.written[from.ID], w.written[id]) && before(w.written[id], w.written[to.ID]) && w.readings[to.ID].scope.sees(id) && w.sequential(a, to) {
			return true
		}
	}
	return false
}
