package history

import (
	"encoding/json"
	"fmt"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// Attempt is one attempt as users see it.
type Attempt struct {
	Attempt    int           `json:"attempt"`
	Generation int           `json:"generation"`
	Way        journal.Way   `json:"way"`
	Class      journal.Class `json:"class,omitempty"` // absent while in flight
	Key        string        `json:"key,omitempty"`
	SentAt     saga.Time     `json:"sent_at"`
	EndedAt    *saga.Time    `json:"ended_at,omitempty"`
	StatusCode int           `json:"status_code,omitempty"`
	Error      *saga.Failure `json:"error,omitempty"`
	Cost       string        `json:"cost,omitempty"`
	Query      bool          `json:"query,omitempty"` // a status check, not the step itself
}

// Steps keeps what a journal says about each step and the saga's machine does not keep, so that a
// growing journal is read only once. The zero value has read nothing. It is not safe for concurrent
// use.
type Steps struct {
	byPath map[string]*Step
}

// Step is what a journal says about one step.
type Step struct {
	Attempts []Attempt       // of all tracks, in the order of their intents
	Input    json.RawMessage // the last request of the forward track
	Output   json.RawMessage // of the first attempt of the forward track that succeeded

	cost   retry.Money
	priced bool // some of its cost is known
}

// Cost returns the amount that the step's attempts have cost.
func (s *Step) Cost() string {
	if !s.priced {
		return "0"
	}
	return s.cost.Decimal()
}

// Step returns what the records say about a step; nil if they say nothing. It is valid until more
// records are added.
func (s *Steps) Step(path string) *Step { return s.byPath[path] }

// Add adds the journal's next record. An error wraps saga.ErrUnreadable.
func (s *Steps) Add(r *journal.Record) error {
	if r.Attempt == 0 || r.Kind != journal.Intent && r.Kind != journal.Outcome {
		return nil
	}
	track := TrackOf(r)
	step := s.byPath[track.Step]
	if step == nil {
		step = &Step{}
		if s.byPath == nil {
			s.byPath = make(map[string]*Step)
		}
		s.byPath[track.Step] = step
	}
	data, err := Decode(r)
	if err != nil {
		return fmt.Errorf("%w: data: %w", saga.ErrUnreadable, err)
	}
	switch d := data.(type) {
	case *saga.IntentData:
		step.intent(r, track, d)
	case *saga.OutcomeData:
		return step.outcome(r, track, d)
	}
	return nil
}

func (s *Step) intent(r *journal.Record, t Track, d *saga.IntentData) {
	if !t.Check && t.Way == journal.Do && d.Request != nil {
		s.Input = saga.Encode(d.Request)
	}
	s.Attempts = append(s.Attempts, Attempt{Attempt: r.Attempt, Generation: r.Generation, Way: r.Way, Key: r.Key, SentAt: saga.Time{Time: r.At}, Query: t.Check})
}

func (s *Step) outcome(r *journal.Record, t Track, d *saga.OutcomeData) error {
	for i := len(s.Attempts) - 1; i >= 0; i-- {
		a := &s.Attempts[i]
		if a.Attempt != r.Attempt || a.Way != r.Way || a.Query != t.Check {
			continue
		}
		a.Class, a.EndedAt, a.StatusCode, a.Error, a.Cost = r.Class, &saga.Time{Time: r.At}, d.StatusCode, d.Error, d.Cost
		break
	}
	if s.Output == nil && !t.Check && r.Way == journal.Do && r.Class == journal.Succeeded {
		s.Output = d.Output
	}
	if d.Cost != "" {
		cost, err := retry.Total(d.Cost, "")
		if err != nil {
			return fmt.Errorf("%w: cost: %w", saga.ErrUnreadable, err)
		}
		s.cost, s.priced = s.cost.Add(cost), true
	}
	return nil
}
