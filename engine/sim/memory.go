package sim

import (
	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
)

// answerMemory is what a process has for answers, counted in answers.
type answerMemory struct {
	epoch   int // of the process
	answers int // that may be in it at once
	taken   int
	waiting []*waiting // the first come first
}

// waiting is an answer that waits to be read.
type waiting struct{ do func() }

// read reads an answer as engine's shell does: it waits for memory, and tells the lane now and then
// that it does.
func (n *node) read(p engine.Perform, do func(memory any)) {
	m := &n.memory
	if m.taken < m.answers {
		m.taken++
		do(m.epoch)
		return
	}
	w := &waiting{}
	w.do = func() {
		w.do = nil
		n.tellWaits(p, "")
		do(m.epoch)
	}
	m.waiting = append(m.waiting, w)
	var still func()
	still = func() {
		if w.do != nil {
			n.tellWaits(p, journal.StallNoMemory)
			n.later(p.Send.Timeout/2, still)
		}
	}
	n.later(p.Send.Timeout/2, still)
}

func (n *node) tellWaits(p engine.Perform, what string) {
	n.tell(p.ID, engine.Waits{ID: p.ID, Path: p.Send.Path, Way: p.Send.Way, Attempt: p.Send.Attempt, For: what})
}

// freed reads the answer that has waited for longest in the place of another. Only what was given
// can be given back, and once.
func (n *node) freed(epoch int) {
	m := &n.memory
	if epoch != m.epoch || m.taken == 0 {
		n.s.violate(uuid.Nil, "12: memory of process %d was given back in process %d, which has %d answers", epoch, m.epoch, m.taken)
		return
	}
	if len(m.waiting) == 0 {
		m.taken--
		return
	}
	next := m.waiting[0]
	m.waiting = m.waiting[1:]
	n.later(0, next.do)
}
