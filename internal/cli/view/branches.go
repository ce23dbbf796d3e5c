package view

import (
	"strings"

	"recourse/saga"
)

// branch is a step's position in the blocks of its definition.
type branch struct {
	depth int
	first bool // first step of its list
	loop  bool // the enclosing block repeats it
	block bool // it has nested steps
}

// branches maps step ids to positions.
type branches map[string]branch

// layout returns the positions of a definition's steps.
func layout(def *saga.Definition) branches {
	by := make(branches)
	by.steps(def.Steps, 0, false)
	by.steps(def.Finally, 0, false)
	return by
}

func (by branches) steps(list []*saga.Step, depth int, loop bool) {
	for i, s := range list {
		b, block := s.Body.(saga.Block)
		by[s.ID] = branch{depth, i == 0, loop, block}
		if block {
			for _, inner := range b.Lists() {
				by.steps(inner, depth+1, b.Loops())
			}
		}
	}
}

// block reports whether the step has nested steps.
func (by branches) block(path string) bool { return by[saga.StepID(path)].block }

// label returns a step's name below its block. Parallel branches and iterations begin with ├. Steps
// of a loop have the iteration's number.
func (by branches) label(path string) string {
	b := by[saga.StepID(path)]
	if b.depth == 0 {
		return path
	}
	around, name := "", path
	if dot := strings.LastIndexByte(path, '.'); dot >= 0 {
		around, name = path[:dot], path[dot+1:]
	}
	if b.loop {
		name = around[strings.LastIndexByte(around, '['):] + " " + name
	}
	guide := "│ "
	if b.first {
		guide = "├ "
	}
	return strings.Repeat("│ ", b.depth-1) + guide + name
}
