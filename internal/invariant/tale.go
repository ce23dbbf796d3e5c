package invariant

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
)

// querySuffix ends the path of a step's status query.
const querySuffix = ".verify"

// tale is a saga, with its records decoded as far as the rules need them.
type tale struct {
	Saga
	steps    map[string]*told
	order    []*told // by their first record
	finally  map[string]bool
	plan     *saga.CompensatingData
	planAt   int // the index of that record
	finished *saga.FinishedData
	brokenAt error // what Replay says
	machine  *saga.Machine
}

// told is what the journal tells of one step.
type told struct {
	path    string
	step    *saga.Step // nil: the definition does not have it
	first   int64
	do      []sent // intents of the step itself
	undo    []sent
	state   journal.Class // of the forward way, at the end; "" if it never ended
	settled bool          // undone, skipped or left: the undo came to an end
	lifted  bool          // by a person or by `when`: no undo was needed
}

// sent is one intent, with the outcome of its attempt.
type sent struct {
	record  journal.Record
	data    saga.IntentData
	outcome *journal.Record
	result  saga.OutcomeData
}

// read decodes a saga. An error says that a record's data is not of its kind.
func read(s Saga) (*tale, error) {
	t := &tale{Saga: s, steps: make(map[string]*told), finally: make(map[string]bool), planAt: -1}
	nested(s.Definition.Finally, func(st *saga.Step) { t.finally[st.ID] = true })
	for i, r := range s.Records {
		if err := t.take(i, r); err != nil {
			return nil, fmt.Errorf("record %d (%s %s): %w", r.Seq, r.Kind, r.Path, err)
		}
	}
	t.machine, t.brokenAt = saga.Replay(s.Definition, s.ID, s.Records)
	return t, nil
}

// nested visits steps and those inside them.
func nested(steps []*saga.Step, visit func(*saga.Step)) {
	for _, s := range steps {
		visit(s)
		if c, ok := s.Body.(saga.Choice); ok {
			for _, branch := range c.Branches() {
				nested(branch, visit)
			}
		}
	}
}

func (t *tale) take(i int, r journal.Record) error {
	switch r.Kind {
	case journal.Compensating:
		t.plan, t.planAt = new(saga.CompensatingData), i
		return decode(r, t.plan)
	case journal.Finished:
		t.finished = new(saga.FinishedData)
		return decode(r, t.finished)
	}
	if r.Path == "" || strings.HasSuffix(r.Path, querySuffix) {
		return nil
	}
	n := t.steps[r.Path]
	if n == nil {
		n = &told{path: r.Path, step: t.Definition.ByID[r.Path], first: r.Seq}
		t.steps[r.Path] = n
		t.order = append(t.order, n)
	}
	switch r.Kind {
	case journal.Intent:
		return n.intent(r)
	case journal.Outcome:
		return n.took(r)
	case journal.Skipped:
		if r.Way == journal.Undo {
			n.settled, n.lifted = true, true
		}
	case journal.Decided:
		return n.decided(r)
	case journal.Operator:
		return n.ordered(r)
	}
	return nil
}

func decode(r journal.Record, into any) error {
	if len(r.Data) == 0 {
		return nil
	}
	return json.Unmarshal(r.Data, into)
}

func (n *told) side(way journal.Way) *[]sent {
	if way == journal.Undo {
		return &n.undo
	}
	return &n.do
}

func (n *told) intent(r journal.Record) error {
	s := sent{record: r}
	if err := decode(r, &s.data); err != nil {
		return err
	}
	if s.data.Request != nil {
		list := n.side(r.Way)
		*list = append(*list, s)
	}
	return nil
}

func (n *told) took(r journal.Record) error {
	var d saga.OutcomeData
	if err := decode(r, &d); err != nil {
		return err
	}
	list := *n.side(r.Way)
	for i := range list {
		if list[i].record.Attempt == r.Attempt && r.Attempt > 0 {
			list[i].outcome, list[i].result = &r, d
		}
	}
	switch {
	case r.Way == journal.Undo && d.Then == saga.ThenDone:
		n.settled = true
	case r.Way != journal.Undo:
		n.state = r.Class
	}
	return nil
}

func (n *told) decided(r journal.Record) error {
	var d saga.DecidedData
	if err := decode(r, &d); err != nil {
		return err
	}
	if d.Branch == nil && d.Then == saga.ThenDone {
		n.state = journal.Succeeded
	}
	if d.Branch == nil && d.Then == saga.ThenFail {
		n.state = journal.Refused
	}
	return nil
}

func (n *told) ordered(r journal.Record) error {
	var d saga.OrderData
	if err := decode(r, &d); err != nil || d.Rejected != nil {
		return err
	}
	switch d.Outcome {
	case "succeeded":
		n.state = journal.Succeeded
	case "failed":
		n.state = journal.Refused
	case "compensated":
		n.settled, n.lifted = true, true
	case "skip":
		n.settled, n.lifted = r.Way == journal.Undo, true
	}
	return nil
}

// call returns the step's call, if it is one that can leave an effect.
func (n *told) call() (saga.Call, bool) {
	if n.step == nil {
		return nil, false
	}
	c, ok := n.step.Body.(saga.Call)
	return c, ok && !c.ReadOnly()
}

// keysOf lists the different keys that a way of the step was sent with.
func keysOf(list []sent) []string {
	var keys []string
	seen := make(map[string]bool)
	for _, s := range list {
		if k := s.record.Key; k != "" && !seen[k] {
			seen[k] = true
			keys = append(keys, k)
		}
	}
	return keys
}

// step names a step of a saga.
type step struct {
	saga uuid.UUID
	path string
	way  journal.Way
	gen  int
}
