package invariant

import (
	"strings"

	"recourse/journal"
	"recourse/saga"
)

// loop is a loop that runs.
type loop struct {
	limit int
	under map[string]bool // paths of iterations in flight
	over  map[string]bool // paths of ended iterations, whose steps in doubt may be resolved later
}

// loops checks the part of invariant 14 about loops: at every prefix, at most `max_parallel`
// iterations are in flight.
func (c *sagaCheck) loops(t *sagaState) {
	running := make(map[string]*loop)
	for i, r := range t.Records {
		switch d := t.data[i].(type) {
		case *saga.DecidedData:
			if strings.HasSuffix(r.Path, "]") {
				if l := running[owner(r.Path)]; l != nil {
					delete(l.under, r.Path)
					l.over[r.Path] = true
				}
				continue
			}
			if d.Enter {
				t.enter(running, r.Path, d)
			}
		case *saga.OutcomeData:
			if r.Way != journal.Undo {
				delete(running, r.Path)
			}
		case *saga.CommandData, *saga.CompensatingData:
			continue
		}
		if r.Way == journal.Undo {
			continue
		}
		for at, path := 0, r.Path; ; {
			end := strings.IndexByte(path[at:], ']')
			if end < 0 {
				break
			}
			at += end + 1
			l := running[owner(path[:at])]
			if l == nil || l.over[path[:at]] {
				continue
			}
			if l.under[path[:at]] = true; l.limit > 0 && len(l.under) > l.limit {
				c.say(14, r.Seq, "after record %d, %d iterations of %s are in flight, more than max_parallel = %d", r.Seq, len(l.under), owner(path[:at]), l.limit)
				return
			}
		}
	}
}

// enter notes a loop that begins.
func (t *sagaState) enter(running map[string]*loop, path string, d *saga.DecidedData) {
	step := t.Definition.Step(path)
	if step == nil {
		return
	}
	b, ok := step.Body.(saga.Block)
	if !ok || !b.Loops() {
		return
	}
	if layout, err := b.Layout(saga.Entered{Branch: d.Branch, Items: d.Items}); err == nil {
		running[path] = &loop{limit: layout.Limit, under: make(map[string]bool), over: make(map[string]bool)}
	}
}

// owner returns the path of the loop of an iteration.
func owner(iteration string) string { return iteration[:strings.LastIndexByte(iteration, '[')] }
