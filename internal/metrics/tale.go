package metrics

import (
	"encoding/json"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/retry"
)

// tale is what is remembered of a saga while this node has it. The engine tells of one saga in
// order, so that only the list of tales needs a lock.
type tale struct {
	began  time.Time
	open   map[side]attempt
	doubts map[side]bool
	asked  map[string]json.RawMessage // what the last status query of a step came to

	spent, wasted retry.Money // that are counted, without their currency
	shown         string      // what is spent of these, as its machine writes it
	dear          bool        // it counts as an outlier
}

// side is a way of a step, its status query being one, too.
type side struct {
	path string
	way  journal.Way
}

const verify journal.Way = "verify"

// attempt is one under way.
type attempt struct {
	at   time.Time
	data json.RawMessage // of the intent, if a model is asked
}

// tale finds what is known of a saga, or begins with nothing.
func (m *Metrics) tale(id uuid.UUID) *tale {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tales[id]
	if t == nil {
		t = &tale{shown: "0"}
		m.tales[id] = t
	}
	return t
}

func (m *Metrics) forget(id uuid.UUID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tales, id)
}

func (t *tale) begin(s side, a attempt) {
	if t.open == nil {
		t.open = make(map[side]attempt)
	}
	t.open[s] = a
}

// end forgets an attempt and returns what was known of it; false if nothing was.
func (t *tale) end(s side) (attempt, bool) {
	a, ok := t.open[s]
	delete(t.open, s)
	return a, ok
}

// doubt notes that a side is in doubt, and reports whether that is new.
func (t *tale) doubt(s side) bool {
	if t.doubts[s] {
		return false
	}
	if t.doubts == nil {
		t.doubts = make(map[side]bool)
	}
	t.doubts[s] = true
	return true
}

// answered notes what a step's status query came to.
func (t *tale) answered(path string, outcome json.RawMessage) {
	if t.asked == nil {
		t.asked = make(map[string]json.RawMessage)
	}
	t.asked[path] = outcome
}
