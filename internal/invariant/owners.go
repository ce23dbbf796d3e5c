package invariant

import (
	"slices"

	"recourse/journal"
	"recourse/saga"
)

// attempt names an attempt of a step.
type attempt struct {
	path   string
	way    journal.Way
	number int
}

// owners is invariant 3, as far as a journal shows it: the outcome of an attempt is
// written by the node that made it, or by one that took the saga over because that node's
// lease had ended; so nothing of that node may follow. Nodes that hand a
// saga over between attempts may get it back.
func (c *look) owners(t *tale) {
	by := make(map[attempt]string)
	heir := make(map[string]journal.Record) // of a node that was taken over from: its successor's first record
	for i, r := range t.Records {
		if first, ok := heir[r.Node]; ok {
			c.say(3, r.Seq, "record %d is by node %s, which node %s had taken over from with record %d", r.Seq, r.Node, first.Node, first.Seq)
			return
		}
		if r.Attempt == 0 {
			continue
		}
		at := attempt{r.Path, r.Way, r.Attempt}
		switch r.Kind {
		case journal.Intent:
			if d, ok := t.data[i].(*saga.IntentData); ok && !outside(d) {
				by[at] = r.Node
			}
		case journal.Outcome:
			if node, ok := by[at]; ok && node != r.Node {
				heir[node] = r
			}
		}
	}
}

// outside reports whether an attempt is for a worker or for another saga, which tell whoever has the saga then.
func outside(d *saga.IntentData) bool {
	return d.Request != nil && slices.Contains([]string{"TASK", "RUN", "REVERT"}, d.Request.Method)
}
