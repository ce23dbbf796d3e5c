package metrics

import (
	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/history"
)

// sagaState is the state of a saga while it runs on this node. The engine reports the records of
// one saga in order, so only the map of states needs a lock.
type sagaState struct {
	journal history.Reader // keeps only the intents of requests to models
	doubts  map[history.Track]bool
	checked map[string]*journal.Record // the outcome of a step's last status check

	session sessionState // if it is one of an agent

	spent, wasted retry.Money // the counted amounts, without their currency
	shown         string      // the spent amount, as its machine formats it
	dear          bool        // the saga was counted as an outlier
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

// doubt notes that a track is in doubt, and reports whether that is new.
func (t *sagaState) doubt(s history.Track) bool {
	if t.doubts[s] {
		return false
	}
	if t.doubts == nil {
		t.doubts = make(map[history.Track]bool)
	}
	t.doubts[s] = true
	return true
}

// checkEnded notes the outcome of a step's status check.
func (t *sagaState) checkEnded(e *history.Event) {
	if t.checked == nil {
		t.checked = make(map[string]*journal.Record)
	}
	t.checked[e.Track.Step] = e.Record
}

// conclusive reports whether a step's last status check was conclusive.
func (t *sagaState) conclusive(step string) bool {
	r := t.checked[step]
	if r == nil {
		return false
	}
	d, err := history.OutcomeOf(r)
	return err == nil && d.Next == saga.NextConclusive
}
