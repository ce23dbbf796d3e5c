package dsl

import (
	"fmt"
	"slices"

	"recourse/saga"
	"recourse/saga/expr"
)

// Origin is where a step's output comes from, as far as the warnings go.
type Origin int

// The origins.
const (
	Foreign Origin = iota // another program says it
	Made                  // it is made of what the step reads, and of what its own steps give
	Model                 // a language model's words
	Person                // somebody's word on what was shown
)

// reading is what the templates of a step read.
type reading struct {
	outputs map[string]bool // of steps
	items   map[string]bool // of loops around
	// Of a loop, outputs are those that its list reads, and made those that its own output reads;
	// own says that this reads the items.
	made  map[string]bool
	own   bool
	scope *scope
}

// reads notes what a template of a step reads. Conditions are not asked: they choose a way, and
// nothing of them is sent.
func (p *parser) reads(s *scope, refs []expr.Ref) {
	id := s.step()
	if id == "" || s.undo || s.event != nil {
		return
	}
	r := p.readings[id]
	if r == nil {
		r = &reading{outputs: map[string]bool{}, items: map[string]bool{}, made: map[string]bool{}}
		p.readings[id] = r
	}
	r.scope = s
	for _, ref := range refs {
		loop := s.loopOf(ref.Root)
		switch {
		case ref.Root == "steps" && len(ref.Path) > 0 && s.loop == id:
			r.made[ref.Path[0]] = true
		case ref.Root == "steps" && len(ref.Path) > 0:
			r.outputs[ref.Path[0]] = true
		case loop == "" || ref.Root == "index":
		case ref.Root == "history": // what the iterations before have given
			r.outputs[loop] = true
		case loop == id:
			r.own = true
		default:
			r.items[loop] = true
		}
	}
}

// loopOf names the loop around that adds a root, "" if none does.
func (s *scope) loopOf(root string) string {
	for ; s != nil; s = s.parent {
		if s.vars[root] != nil {
			return s.loop
		}
	}
	return ""
}

// words finds out whose outputs hold a model's words, by step: the model's step is the value.
func (w *warner) words() map[string]*saga.Step {
	models := make(map[string]*saga.Step)
	all := innerFirst(nil, slices.Concat(w.def.Steps, w.def.Finally))
	for changed := true; changed; { // more than twice only for loops that read what they have given
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

// innerFirst lists steps in their order, each behind those inside it.
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

// source is the step whose model's words are in a step's output, nil for none.
func (w *warner) source(s *saga.Step, models map[string]*saga.Step) *saga.Step {
	switch w.kinds[s.Kind].Output {
	case Model:
		return s
	case Made:
		block, ok := s.Body.(saga.Block)
		if !ok {
			return w.read(s.ID, models)
		}
		if r := w.readings[s.ID]; r != nil && block.Loops() {
			if m := w.first(r.made, models); m != nil {
				return m
			}
			if r.own { // what it runs over does not get into its output otherwise
				return w.first(r.outputs, models)
			}
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

// first is the step, the first by its place, whose model's words are in some outputs.
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

// read is the step whose model's words a step's templates read: the first by its place.
func (w *warner) read(id string, models map[string]*saga.Step) *saga.Step {
	r := w.readings[id]
	if r == nil {
		return nil
	}
	first := w.first(r.outputs, models)
	for loop := range r.items { // any order
		first = w.earlier(first, w.read(loop, models))
	}
	return first
}

// fed warns of a write that sends a model's words which nobody has agreed to.
func (w *warner) fed(s *saga.Step) {
	if !writes(s) {
		return
	}
	if w.models == nil {
		w.models = w.words()
	}
	m := w.read(s.ID, w.models)
	if m == nil || w.agreed(m, s) {
		return
	}
	w.say(s, s.Kind, "model-output-feeds-write-without-approval", fmt.Sprintf("%q sends what the model of %q has written, and nobody has agreed to it: put an approval between them", s.ID, m.ID))
}

// agreed reports whether an approval stands on the way from a model's step to another.
func (w *warner) agreed(from, to *saga.Step) bool {
	for id, a := range w.def.ByID { // any order
		if w.kinds[a.Kind].Output == Person && before(w.written[from.ID], w.written[id]) && before(w.written[id], w.written[to.ID]) && w.readings[to.ID].scope.sees(id) {
			return true
		}
	}
	return false
}
