package probe

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/idempotency"
	"recourse/internal/crashmatrix"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/expr"
	"recourse/saga/machine"
)

// finding says what the answers say about the service.
type finding string

// The findings.
const (
	honoured   finding = "honoured"   // the second request got the first answer
	recognised finding = "recognised" // the second request was refused, so it had no effect of its own
	ignored    finding = "ignored"    // the second request had an answer of its own
	refused    finding = "refused"    // another body with the same key is refused
	replayed   finding = "replayed"   // it gets the first answer
	accepted   finding = "accepted"   // it has an answer of its own
	found      finding = "found"
	missing    finding = "missing"
	undone     finding = "undone"
	failed     finding = "failed"
	notTested  finding = "not_tested"
	unclear    finding = "unclear"
)

// said has a sentence for each finding.
var said = map[finding]string{
	honoured:   "the service honours the key: the second answer is the first one",
	recognised: "the service recognises the key: it refuses the second request",
	ignored:    "the service does not honour the key: the second request has another answer",
	refused:    "refused, as it should be",
	replayed:   "the service does not compare bodies: the first answer came again",
	accepted:   "the service takes it for a new request",
	found:      "it finds the request by its key",
	missing:    "it does not find the request",
	undone:     "the service has accepted it",
	failed:     "it failed",
	notTested:  "not tested",
	unclear:    "unclear: the answers do not tell",
}

// result is the result of a probe.
type result struct {
	Step        string   `json:"step"`
	Key         string   `json:"key,omitempty"`
	Sent        []sent   `json:"sent"`
	Repetition  finding  `json:"repetition"`
	OtherBody   finding  `json:"other_body"`
	StatusCheck finding  `json:"status_check"`
	Undo        finding  `json:"undo,omitempty"`
	Problems    []string `json:"problems"` // what the definition relies on and the service does not do
}

// sent is a request and its answer.
type sent struct {
	What    string          `json:"what"`
	Request string          `json:"request"`
	Status  int             `json:"status,omitempty"`
	Code    string          `json:"code,omitempty"` // of an answer that did not come, or was cut
	Body    json.RawMessage `json:"body,omitempty"`
}

// prober sends the requests of a step.
type prober struct {
	def     *saga.Definition
	step    *saga.Step
	reached *crashmatrix.Reached
	send    func(saga.Request) saga.Answer
	check   *machine.Send // the status check; nil: the step has none
	other   *saga.Request // the request with another body; nil: it has no body to change
	changed string        // how the body differs
	effects []saga.Answer // to requests that may have had an effect of their own
	res     result
}

// at returns a machine whose last record is the intent of the request.
func (p *prober) at() (*machine.Machine, error) { return p.as(p.reached.Saga) }

// as is at for a saga with another id: the keys of its next requests differ.
func (p *prober) as(id uuid.UUID) (*machine.Machine, error) {
	return machine.Replay(p.def, id, p.reached.Records)
}

// prepare renders the other requests of the probe.
func (p *prober) prepare() error {
	if p.step.InDoubt.Verify != nil {
		m, err := p.at()
		if err == nil {
			err = p.doubt(m)
		}
		if err != nil {
			return fmt.Errorf("probe: the status check: %w", err)
		}
	}
	if p.step.Idempotency.In == idempotency.None {
		return nil
	}
	r := p.reached.Send.Request
	body, changed := otherBody(r.Body, p.step.Idempotency)
	if changed != "" {
		r.Body = body
		p.other, p.changed = &r, changed
	}
	return nil
}

// doubt puts the step in doubt, and notes the request of its status check.
func (p *prober) doubt(m *machine.Machine) error {
	s := p.reached.Send
	at := m.At().Add(time.Second)
	d, err := m.RecordOutcome(s.Path, s.Way, s.Attempt, saga.InterruptedAnswer(), at, 0)
	if err != nil {
		return err
	}
	if _, err := m.Append(d, at, "probe"); err != nil {
		return err
	}
	return drive(m, at, func(d machine.Dispatch) (saga.Answer, bool) {
		if _, query := saga.SplitQuery(d.Send.Path); query {
			p.check = &d.Send
		}
		return saga.Answer{}, false
	})
}

// maxRecords limits the records of a probe.
const maxRecords = 1000

// drive continues a machine at virtual times. answer answers a request; false ends the drive.
func drive(m *machine.Machine, at time.Time, answer func(machine.Dispatch) (saga.Answer, bool)) error {
	for range maxRecords {
		var draft machine.Draft
		var wait time.Time
		for _, d := range m.Decide() {
			switch d := d.(type) {
			case machine.Dispatch:
				if _, err := m.Append(d.Intent, at, "probe"); err != nil {
					return err
				}
				a, more := answer(d)
				if !more {
					return nil
				}
				var err error
				if draft, err = m.RecordOutcome(d.Send.Path, d.Send.Way, d.Send.Attempt, a, at, 0); err != nil {
					return err
				}
			case machine.Write:
				draft = d.Record
			case machine.WakeAt:
				if draft.Kind == "" {
					draft, wait = d.Woke, d.At
				}
				continue
			default:
				continue
			}
			wait = time.Time{}
			break
		}
		if draft.Kind == "" {
			return nil
		}
		if wait.After(at) {
			at = wait
		}
		if _, err := m.Append(draft, at, "probe"); err != nil {
			return err
		}
	}
	return nil
}

// run sends the requests.
func (p *prober) run(undo bool) *result {
	p.res = result{Step: p.reached.Send.Path, OtherBody: notTested, StatusCheck: notTested, Problems: []string{}}
	if p.step.Idempotency.In != idempotency.None {
		p.res.Key = p.reached.Send.Key
	}
	first := p.exchange("first", p.reached.Send.Request)
	p.note(first)
	if p.succeeded(first) {
		p.compare(first)
	} else {
		p.res.Repetition = unclear
		why := first.Detail
		if first.Code == "" {
			why = fmt.Sprintf("HTTP %d; give an input that the service accepts", first.Status)
		}
		p.problem("the first request was not successful, so the probe says nothing: %s", why)
	}
	if undo && len(p.effects) > 0 {
		p.undo()
	}
	return &p.res
}

// compare sends the other requests, after a first one that was successful.
func (p *prober) compare(first saga.Answer) {
	second := p.exchange("second", p.reached.Send.Request)
	p.res.Repetition = p.repetition(first, second)
	if p.res.Repetition != honoured {
		p.note(second)
	}
	if p.other != nil {
		third := p.exchange("other body", *p.other)
		p.res.OtherBody = p.body(first, third)
		if p.res.OtherBody != replayed {
			p.note(third)
		}
	}
	if p.check != nil {
		p.res.StatusCheck = p.status()
	}
	p.judge()
}

// note adds an answer to the effects, unless the step's rules say that there is certainly none.
func (p *prober) note(a saga.Answer) {
	m, err := p.at()
	if err == nil {
		var d machine.Draft
		s := p.reached.Send
		d, err = m.RecordOutcome(s.Path, s.Way, s.Attempt, a, m.At().Add(time.Second), 0)
		if err == nil && d.Class != journal.Succeeded && d.Class != journal.InDoubt {
			return
		}
	}
	p.effects = append(p.effects, a)
}

func (p *prober) problem(text string, args ...any) {
	p.res.Problems = append(p.res.Problems, fmt.Sprintf(text, args...))
}

// exchange sends a request and notes the answer.
func (p *prober) exchange(what string, r saga.Request) saga.Answer {
	a := p.send(r)
	p.res.Sent = append(p.res.Sent, sent{What: what, Request: r.String(), Status: a.Status, Code: a.Code, Body: shortBody(a.Body)})
	return a
}

func (p *prober) succeeded(a saga.Answer) bool { return a.Code == "" && p.step.Expect.Holds(a.Status) }

// replayHeaders are the headers by which services mark a repeated answer.
var replayHeaders = []string{"idempotency-replayed", "idempotent-replayed", "idempotent-replay", "x-idempotent-replayed"}

// marked reports whether an answer says that it is a repetition.
func marked(a saga.Answer) bool {
	return slices.ContainsFunc(replayHeaders, func(name string) bool { return strings.EqualFold(a.Headers[name], "true") })
}

// repetition compares the answers to the same request.
func (p *prober) repetition(first, second saga.Answer) finding {
	switch {
	case marked(second):
		return honoured
	case second.Code == "" && (second.Status == 409 || second.Status == 422 || second.Status == 412):
		return recognised
	case !p.succeeded(second):
		return unclear
	case !bytes.Equal(first.Body, second.Body):
		return ignored
	case !identifies(first.Body):
		return unclear
	}
	return honoured
}

// identifies reports whether an answer has something in it that two effects would not share. An
// empty answer, or one that is only a word, says nothing.
func identifies(body json.RawMessage) bool {
	return len(body) > 0 && (body[0] == '{' || body[0] == '[') && len(body) > 2 && bytes.ContainsAny(body, "0123456789")
}

// body judges the answer to another body with the same key.
func (p *prober) body(first, third saga.Answer) finding {
	switch {
	case third.Code == "" && third.Status >= 400 && third.Status <= 499:
		return refused
	case !p.succeeded(third):
		return unclear
	case marked(third):
		return replayed
	case !bytes.Equal(first.Body, third.Body):
		return accepted
	case !identifies(first.Body):
		return unclear
	}
	return replayed
}

// status sends the status check, and evaluates its condition.
func (p *prober) status() finding {
	a := p.exchange("status check", p.check.Request)
	m, err := p.at()
	if err != nil {
		return unclear
	}
	var d machine.Draft
	at := m.At().Add(time.Second)
	if d, err = m.RecordOutcome(p.reached.Send.Path, journal.Do, p.reached.Send.Attempt, saga.InterruptedAnswer(), at, 0); err != nil {
		return unclear
	}
	if _, err := m.Append(d, at, "probe"); err != nil {
		return unclear
	}
	says := unclear
	err = drive(m, at, func(d machine.Dispatch) (saga.Answer, bool) {
		_, query := saga.SplitQuery(d.Send.Path)
		if !query {
			says = missing // the step is sent again
			return saga.Answer{}, false
		}
		outcome, err := m.RecordOutcome(d.Send.Path, d.Send.Way, d.Send.Attempt, a, at, 0)
		if err != nil {
			return saga.Answer{}, false
		}
		if data, ok := outcome.Data.(saga.OutcomeData); ok && data.Found != nil {
			says = map[bool]finding{true: found, false: missing}[*data.Found]
		}
		return saga.Answer{}, false
	})
	if err != nil {
		return unclear
	}
	return says
}

// judge compares the findings with what the definition relies on.
func (p *prober) judge() {
	keyless := p.step.Idempotency.In == idempotency.None
	switch {
	case p.step.InDoubt.Policy == saga.RetrySame && p.res.Repetition == ignored && keyless:
		p.problem("the step is repeated without a key after a lost answer, and each repetition has an effect: send a key, or use in_doubt: verify or ask")
	case p.step.InDoubt.Policy == saga.RetrySame && p.res.Repetition == ignored:
		p.problem("in_doubt: retry relies on the key, which the service does not honour: use in_doubt: verify or ask")
	case p.step.InDoubt.Policy == saga.RetrySame && p.res.Repetition == unclear:
		p.problem("in_doubt: retry relies on the key, and the answers do not show whether the service honours it: look at the service")
	}
	switch {
	case p.check == nil:
	case p.res.StatusCheck == missing:
		p.problem("in_doubt.verify does not find a request that has taken effect: look at its `http` and `found`")
	case p.res.StatusCheck == unclear:
		p.problem("in_doubt.verify has no conclusive answer: look at its `http` and `found`")
	}
	if p.res.OtherBody == accepted && p.res.Repetition != ignored {
		p.problem("another body with the same key is a new request for the service: its keys are not bound to what they were used for")
	}
}

// undo runs the compensation for each answer that may stand for an effect.
func (p *prober) undo() {
	p.res.Undo = undone
	look := "look for the effect by what was sent"
	if p.res.Key != "" {
		look = "look for the effect by its key " + p.res.Key
	}
	for i, a := range p.effects {
		id := p.reached.Saga
		if i > 0 { // each effect is undone with a key of its own
			id = uuid.NewV5(id, fmt.Sprint("effect ", i+1))
		}
		if err := p.compensate(fmt.Sprintf("undo %d", i+1), id, a); err != nil {
			p.res.Undo = failed
			p.problem("the compensation of effect %d: %v; %s", i+1, err, look)
		}
	}
}

// compensate runs the compensation as if a was the step's answer in the saga with this id.
func (p *prober) compensate(what string, id uuid.UUID, a saga.Answer) error {
	m, err := p.as(id)
	if err != nil {
		return err
	}
	s := p.reached.Send
	at := m.At().Add(time.Second)
	// The command comes before the answer, because after its last step a saga cannot be undone.
	turn, err := m.Validate(uuid.NewV5(m.ID(), what), saga.Command{Do: saga.Compensate{}, Reason: "probe", Actor: "probe", At: at})
	if err != nil {
		return err
	}
	if _, err := m.Append(turn, at, "probe"); err != nil {
		return err
	}
	for _, f := range m.InFlight() {
		got := a
		if f.Path != s.Path { // of a parallel branch, whose request was not sent
			got = saga.Answer{Code: "egress_denied"}
		}
		d, err := m.RecordOutcome(f.Path, f.Way, f.Number, got, at, 0)
		if err != nil {
			return err
		}
		if _, err := m.Append(d, at, "probe"); err != nil {
			return err
		}
	}
	var answer saga.Answer
	var outcome machine.Draft
	var wrong error
	err = drive(m, at, func(d machine.Dispatch) (saga.Answer, bool) {
		if d.Send.Path != s.Path || d.Send.Way != journal.Undo {
			return saga.Answer{}, false // no other request is sent
		}
		answer = p.exchange(what, d.Send.Request)
		outcome, wrong = m.RecordOutcome(d.Send.Path, d.Send.Way, d.Send.Attempt, answer, at, 0)
		return answer, false
	})
	switch err := cmp.Or(err, wrong); {
	case err != nil:
		return err
	case outcome.Class == "":
		return fmt.Errorf("the machine does not run it (status %s)", m.Status())
	case outcome.Class != journal.Succeeded:
		return fmt.Errorf("it is %s: the answer was %d %s", outcome.Class, answer.Status, answer.Code)
	}
	return nil
}

// otherBody changes one value of a body, but not the key in it. changed says how; "": it has no
// value to change.
func otherBody(body json.RawMessage, key idempotency.Placement) (_ json.RawMessage, changed string) {
	doc, err := expr.Decode(body)
	object, ok := doc.(map[string]any)
	if err != nil || !ok {
		return nil, ""
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if key.In == idempotency.Body && name == key.Name {
			continue
		}
		switch v := object[name].(type) {
		case string:
			if v == "" || strings.Contains(v, "${") {
				continue
			}
			object[name] = v + "-other"
		case json.Number:
			object[name] = json.Number("1" + strings.TrimPrefix(v.String(), "-"))
		case bool:
			object[name] = !v
		default:
			continue
		}
		return expr.AppendJSON(nil, object), name + " differs"
	}
	return nil, ""
}
