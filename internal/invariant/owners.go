package invariant

import (
	"recourse/journal"
	"recourse/saga"
)

// attempt identifies an attempt of a step.
type attempt struct {
	path   string
	way    journal.Way
	number int
}

// owners checks invariant 3, as far as a journal shows it. The outcome of an attempt is written by
// the node that made the attempt, or by one that took the saga over because that node's lease had
// ended, so no later record may be by that node. A node that released a saga between attempts may
// get it back, and so may a node that released it while a worker or another saga performed the
// attempt.
func (c *sagaCheck) owners(t *sagaState) {
	by := make(map[attempt]string)
	// For the id of each node that was taken over from, heir has its successor's first record.
	heir := make(map[string]journal.Record)
	for i, r := range t.Records {
		if first, ok := heir[r.Node]; ok {
			c.say(3, r.Seq, "record %d is by node %s, but node %s took over from it with record %d", r.Seq, r.Node, first.Node, first.Seq)
			return
		}
		if r.Attempt == 0 {
			continue
		}
		at := attempt{r.Path, r.Way, r.Attempt}
		switch r.Kind {
		case journal.Intent:
			if !t.outside(r, t.data[i].(*saga.IntentData)) {
				by[at] = r.Node
			}
		case journal.Outcome:
			if node, ok := by[at]; ok && node != r.Node {
				heir[node] = r
			}
		}
	}
}

// outside reports whether a worker or another saga performs the attempt, and not the node of the
// intent.
func (t *sagaState) outside(r journal.Record, d *saga.IntentData) bool {
	path, query := saga.SplitQuery(r.Path)
	if query {
		return false
	}
	if t.Definition == nil || t.Definition.Step(path) == nil {
		return d.Request != nil && (d.Request.Task != nil || d.Request.Child != nil || d.Request.Own != nil)
	}
	step := t.Definition.Step(path)
	if r.Way == journal.Undo && step.Compensate != nil {
		step = &step.Compensate.Step
	}
	switch step.Body.(type) {
	case saga.Queued, saga.Spawner, saga.Own:
		return true
	}
	return false
}
