package compare

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/expr"
	"recourse/saga/history"
	"recourse/saga/machine"
)

// Verdict says how a step of two sagas differs.
type Verdict string

// The verdicts.
const (
	Same         Verdict = "same"
	OtherInput   Verdict = "other-input"   // its request differs, or the input of its action
	OtherOutcome Verdict = "other-outcome" // its status, its output or its error differs
	OnlyHere     Verdict = "only-here"     // only the first saga has reached it
	OnlyThere    Verdict = "only-there"    // only the second one has
)

// Verdicts lists them in the order in which people read them.
var Verdicts = []Verdict{Same, OtherInput, OtherOutcome, OnlyHere, OnlyThere}

// Result is a comparison.
type Result struct {
	Here  Saga `json:"here"`
	There Saga `json:"there"`
	// Steps are as the first saga lists them, then those that only the second one has reached.
	Steps []Step          `json:"steps"`
	Count map[Verdict]int `json:"verdicts"`
}

// Saga is one of the two.
type Saga struct {
	ID         string        `json:"id"`
	Definition string        `json:"definition"`
	Version    string        `json:"version"`
	Status     saga.Status   `json:"status"`
	Cost       saga.CostView `json:"cost"`
	CreatedAt  saga.Time     `json:"created_at"`
	EndedAt    *saga.Time    `json:"ended_at,omitempty"`
}

// Step is a step of both sagas, or of one.
type Step struct {
	Path    string  `json:"path"` // in the first saga that has it
	Kind    string  `json:"kind"`
	Use     string  `json:"use,omitempty"`
	Verdict Verdict `json:"verdict"`
	// Difference is the first one: below /request, /input, /status, /output or /error.
	Difference *Difference `json:"difference,omitempty"`
	Here       *Side       `json:"here,omitempty"`
	There      *Side       `json:"there,omitempty"`
}

// Side is what one saga has done in a step.
type Side struct {
	Path      string             `json:"path"`
	Status    machine.StepStatus `json:"status"`
	Attempts  int                `json:"attempts"` // without status checks and compensations
	Cost      string             `json:"cost"`
	StartedAt *saga.Time         `json:"started_at,omitempty"` // when its first request was sent
	EndedAt   *saga.Time         `json:"ended_at,omitempty"`   // when the last response to one of its requests came
}

// side is a step before it is aligned.
type side struct {
	step     machine.StepView
	identity string
	content  map[string]any // what can differ
	brief    Side
}

// Sagas compares two sagas, or two sessions, whose records were applied to the machines. An error
// wraps saga.ErrUnreadable.
func Sagas(here, there *machine.Machine, recordsHere, recordsThere []journal.Record) (Result, error) {
	a, err := sides(here, recordsHere)
	if err != nil {
		return Result{}, fmt.Errorf("saga %s: %w", here.ID(), err)
	}
	b, err := sides(there, recordsThere)
	if err != nil {
		return Result{}, fmt.Errorf("saga %s: %w", there.ID(), err)
	}
	res := Result{Here: about(here), There: about(there), Steps: []Step{}, Count: make(map[Verdict]int, len(Verdicts))}
	for _, v := range Verdicts {
		res.Count[v] = 0
	}
	others := make(map[string]*side, len(b))
	for i := range b {
		others[b[i].identity] = &b[i]
	}
	for i := range a {
		other := others[a[i].identity]
		delete(others, a[i].identity)
		res.add(&a[i], other)
	}
	for i := range b {
		if others[b[i].identity] != nil {
			res.add(nil, &b[i])
		}
	}
	return res, nil
}

func about(m *machine.Machine) Saga {
	v := m.View()
	return Saga{ID: v.ID, Definition: v.Definition, Version: v.Version, Status: v.Status, Cost: v.Cost, CreatedAt: v.CreatedAt, EndedAt: v.EndedAt}
}

// add adds a step that at least one of the sagas has.
func (r *Result) add(here, there *side) {
	var s Step
	switch {
	case there == nil || here != nil && reached(here) && !reached(there):
		if !reached(here) {
			return
		}
		s = Step{Path: here.step.Path, Kind: here.step.Kind, Use: here.step.Use, Verdict: OnlyHere, Here: &here.brief}
	case here == nil || !reached(here):
		if !reached(there) {
			return
		}
		s = Step{Path: there.step.Path, Kind: there.step.Kind, Use: there.step.Use, Verdict: OnlyThere, There: &there.brief}
	default:
		s = Step{Path: here.step.Path, Kind: here.step.Kind, Use: here.step.Use, Verdict: Same, Here: &here.brief, There: &there.brief}
		if here.step.ReusedFrom != "" || there.step.ReusedFrom != "" { // it was not asked for again
			delete(here.content, "request")
			delete(there.content, "request")
		}
		if s.Difference = Values(here.content, there.content); s.Difference != nil {
			s.Verdict = OtherOutcome
		}
		for _, field := range []string{"input", "request"} { // what was asked comes before what was answered
			if d := Values(here.content[field], there.content[field]); d != nil {
				d.Pointer = "/" + field + d.Pointer
				s.Verdict, s.Difference = OtherInput, d
				break
			}
		}
	}
	r.Steps = append(r.Steps, s)
	r.Count[s.Verdict]++
}

// reached reports whether the saga has come to the step.
func reached(s *side) bool {
	return s.step.Status != machine.Pending && !(s.step.Status == machine.StepSkipped && len(s.step.Attempts) == 0)
}

// sides lists the steps of one saga.
func sides(m *machine.Machine, records []journal.Record) ([]side, error) {
	var log history.Steps
	session := m.Definition().Session != nil
	if session { // requests to models are aligned by what they ask
		if err := inherited(&log, records); err != nil {
			return nil, err
		}
	}
	for i := range records {
		if err := log.Add(&records[i]); err != nil {
			return nil, err
		}
	}
	inputs := make(map[string]json.RawMessage) // of calls of actions
	for _, c := range machine.Calls(m, &log) {
		inputs[c.Path] = c.Input
	}
	times := make(map[string]int)
	var list []side
	for _, v := range machine.StepsOf(m, &log) {
		s := side{step: v, identity: v.Path, brief: Side{Path: v.Path, Status: v.Status, Cost: v.Cost}, content: map[string]any{"status": string(v.Status)}}
		s.timed()
		put(s.content, "output", v.Output)
		if v.Error != nil {
			s.content["error"] = v.Error.Code
		}
		if len(v.Input) > 0 {
			request, err := requestOf(m, &v)
			if err != nil {
				return nil, err
			}
			s.content["request"] = request
		}
		if input, called := inputs[v.Path]; called {
			put(s.content, "input", input)
			delete(s.content, "request") // it follows from the input
		}
		if session && !strings.HasPrefix(v.Path, saga.OwnPrefix) {
			asked := v.Kind + " " + v.Use + " " + string(saga.Encode([]any{s.content["input"], s.content["request"]}))
			times[asked]++
			s.identity = asked + " " + strconv.Itoa(times[asked])
		}
		list = append(list, s)
	}
	return list, nil
}

// inherited adds the records with which a fork begins to log.
func inherited(log *history.Steps, records []journal.Record) error {
	d, err := history.Started(records)
	if err != nil || d.Fork == nil {
		return err
	}
	if err := inherited(log, d.Origin); err != nil {
		return err
	}
	for i := range d.Origin {
		if err := log.Add(&d.Origin[i]); err != nil {
			return err
		}
	}
	return nil
}

// put adds a value, if there is one.
func put(into map[string]any, name string, doc json.RawMessage) {
	if len(doc) == 0 {
		return
	}
	if v, err := expr.Decode(doc); err == nil {
		into[name] = v
	}
}

// shortKey is the length below which a key may well occur in a text that does not mean it.
const shortKey = 16

// requestOf returns the last request of a step without its key and the saga's id, which always
// differ.
func requestOf(m *machine.Machine, v *machine.StepView) (map[string]any, error) {
	var q saga.Request
	if err := json.Unmarshal(v.Input, &q); err != nil {
		return nil, fmt.Errorf("%w: request of %s: %w", saga.ErrUnreadable, v.Path, err)
	}
	var names []string
	key, short := v.Key, ""
	if len(key) < shortKey {
		key, short = "", key
	}
	// The key comes first, because it may contain an id.
	for _, one := range [][2]string{{key, "‹key›"}, {m.ID().String(), "‹saga›"}, {v.ReusedFrom, "‹saga›"}} {
		if one[0] != "" {
			names = append(names, one[0], one[1])
		}
	}
	// An author's key may be any text, so it must not be replaced in the JSON itself: a key such as
	// 42 occurs in numbers, too.
	ids := strings.NewReplacer(names...)
	request, _ := expr.MapTexts(Request(q), func(text string) string {
		// A short key is a whole text, or the last parameter of a URL.
		if before, found := strings.CutSuffix(text, short); found && short != "" && (before == "" || before[len(before)-1] == '=') {
			text = before + "‹key›"
		}
		return ids.Replace(text)
	}).(map[string]any)
	return request, nil
}

// timed says when the step's own requests were sent and answered.
func (s *side) timed() {
	for _, a := range s.step.Attempts {
		if a.Query || a.Way == journal.Undo {
			continue
		}
		s.brief.Attempts++
		if s.brief.StartedAt == nil {
			s.brief.StartedAt = &a.SentAt
		}
		s.brief.EndedAt = a.EndedAt
	}
}
