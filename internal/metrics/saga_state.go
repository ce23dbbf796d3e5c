package metrics

import (
	"encoding/json"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/retry"
)

// sagaState is the state of a saga while it runs on this node. The engine reports the records of
// one saga in order, so only the map of states needs a lock.
type sagaState struct {
	began    time.Time
	inFlight map[track]attempt
	doubts   map[track]bool
	asked    map[string]json.RawMessage // the outcome of a step's last status query

	spent, wasted retry.Money // the counted amounts, without their currency
	shown         string      // the spent amount, as its machine formats it
	dear          bool        // the saga was counted as an outlier
}

// track is a track of a step: forward, compensation, or status query.
type track struct {
	path string
	way  journal.Way
}

const verify journal.Way = "verify"

// attempt is an attempt in flight.
type attempt struct {
	at   time.Time
	data json.RawMessage // of the intent, for a request to a model
}

// state returns the state of a saga, which is empty at first.
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

// end removes an attempt and returns it; false: it is unknown.
func (t *sagaState) end(s track) (attempt, bool) {
	a, ok := t.inFlight[s]
	delete(t.inFlight, s)
	return a, ok
}

// doubt notes that a track is in doubt, and reports whether that is new.
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

// answered notes the outcome of a step's status query.
func (t *sagaState) answered(path string, outcome json.RawMessage) {
	if t.asked == nil {
		t.asked = make(map[string]json.RawMessage)
	}
	t.asked[path] = outcome
}
