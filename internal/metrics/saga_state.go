package metrics

import (
	"encoding/json"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/retry"
)

// sagaState is what is remembered of a saga while this node has it. The engine tells of one saga in
// order, so that only the list of tales needs a lock.
type sagaState struct {
	began    time.Time
	inFlight map[track]attempt
	doubts   map[track]bool
	asked    map[string]json.RawMessage // what the last status query of a step came to

	spent, wasted retry.Money // that are counted, without their currency
	shown         string      // what is spent of these, as its machine writes it
	dear          bool        // it counts as an outlier
}

// track is a way of a step, its status query being one, too.
type track struct {
	path string
	way  journal.Way
}

const verify journal.Way = "verify"

// attempt is one under way.
type attempt struct {
	at   time.Time
	data json.RawMessage // of the intent, if a model is asked
}

// state finds what is known of a saga, or begins with nothing.
func (m *Metrics) state(id uuid.UUID) *sagaState {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.states[id]
	if t == nil {
		t = &sagaState{shown: "0"}
		m.states[id] = t
	}
	return t
}

func (m *Metrics) forget(id uuid.UUID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.states, id)
}

func (t *sagaState) begin(s track, a attempt) {
	if t.inFlight == nil {
		t.inFlight = make(map[track]attempt)
	}
	t.inFlight[s] = a
}

// end forgets an attempt and returns what was known of it; false if nothing was.
func (t *sagaState) end(s track) (attempt, bool) {
	a, ok := t.inFlight[s]
	delete(t.inFlight, s)
	return a, ok
}

// doubt notes that a side is in doubt, and reports whether that is new.
func (t *sagaState) doubt(s track) bool {
	if t.doubts[s] {
		return false
	}
	if t.doubts == nil {
		t.doubts = make(map[track]bool)
	}
	t.doubts[s] = true
	return true
}

// answered notes what a step's status query came to.
func (t *sagaState) answered(path string, outcome json.RawMessage) {
	if t.asked == nil {
		t.asked = make(map[string]json.RawMessage)
	}
	t.asked[path] = outcome
}
