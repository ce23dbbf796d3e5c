package sim

import (
	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
)

// answerMemory is the memory that a process has for responses, counted in responses.
type answerMemory struct {
	epoch   int // number of the process
	answers int // that fit
	taken   int
	waiting []*waiting // in order of arrival
}

// waiting is a response that waits for memory.
type waiting struct{ do func() }

// read reads a response as Engine does: it waits for memory, and reports to the lane that it waits.
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

// freed passes the memory of a response to the one that has waited longest. Memory may be returned
// only once, and only by the process that took it.
func (n *node) freed(epoch int) {
	m := &n.memory
	if epoch != m.epoch || m.taken == 0 {
		n.s.violate(uuid.Nil, "12: memory of process %d was returned in process %d, which has %d responses", epoch, m.epoch, m.taken)
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
