package main

import (
	"strings"

	"recourse/saga"
)

// branch is where a step stands among the blocks of its definition.
type branch struct {
	depth int
	first bool // of its lane, its branch, its iteration
	loop  bool // the block around it runs it once for each iteration
	block bool // it has steps of its own
}

// branches has them by the steps' ids.
type branches map[string]branch

// layout looks through a definition.
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

// block reports whether the step has steps of its own.
func (by branches) block(path string) bool { return by[saga.StepID(path)].block }

// label is a step's name, below the block that it is in: what runs side by side, or one time after
// the other, begins with ├. Steps of a loop have their iteration's number.
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
