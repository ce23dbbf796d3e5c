package invariant

import (
	"fmt"
	"strings"
	"time"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// sagaState is a saga with decoded records, for all rules.
type sagaState struct {
	Saga
	data     []any // of each record: *saga.IntentData and so on, by its kind; nil: none
	steps    map[string]*stepState
	order    []*stepState    // by their first record
	calls    []called        // of a session
	owns     map[string]*own // steps that an agent does itself, by path
	finally  map[string]bool
	plan     *saga.CompensatingData
	planAt   int // the index of that record; -1: none
	finished *saga.FinishedData
	brokenAt error           // the error of Replay
	origin   *sagaState      // the saga that this one undoes; nil: none
	from     *sagaState      // the saga from a step of which this one goes on; nil: none
	reused   map[string]bool // ids of the steps whose outcomes it has taken over
	forkOf   *sagaState      // the saga that this one is a fork of, as it was then; nil: none
	machine  *machine.Machine
}

// read decodes a saga. An error says that the data of the record with that seq does not match its
// kind.
func read(s Saga) (*sagaState, int64, error) {
	if len(s.Records) == 0 {
		return nil, 0, fmt.Errorf("it has no records")
	}
	t := &sagaState{Saga: s, data: make([]any, len(s.Records)), steps: make(map[string]*stepState), finally: make(map[string]bool), planAt: -1, machine: s.Machine}
	if s.Definition != nil {
		nested(s.Definition.Finally, func(st *saga.Step) { t.finally[st.ID] = true })
	}
	for i, r := range s.Records {
		d, err := decode(r)
		if err != nil {
			return nil, r.Seq, fmt.Errorf("record %d (%s %s): its data cannot be read: %w", r.Seq, r.Kind, r.Path, err)
		}
		t.data[i] = d
		if i == 0 {
			if err := t.readOrigin(); err != nil {
				return nil, r.Seq, fmt.Errorf("the journal that it begins with: %w", err)
			}
		}
		t.apply(i, r)
	}
	if s.Definition != nil && t.machine == nil {
		t.machine, t.brokenAt = machine.Replay(s.Definition, s.ID, s.Records)
	}
	return t, 0, nil
}

// decode reads a record's data into a pointer to the type of its kind.
func decode(r journal.Record) (any, error) {
	var d any
	switch r.Kind {
	case journal.Started:
		d = new(saga.StartedData)
	case journal.Intent:
		d = new(saga.IntentData)
	case journal.Outcome:
		d = new(saga.OutcomeData)
	case journal.Decided:
		d = new(saga.DecidedData)
	case journal.Woke:
		d = new(saga.WokeData)
	case journal.Compensating:
		d = new(saga.CompensatingData)
	case journal.Finished:
		d = new(saga.FinishedData)
	case journal.Operator, journal.Cancelled, journal.Paused, journal.Resumed:
		d = new(saga.CommandData)
	case journal.Attached:
		d = new(saga.AttachedData)
	case journal.Called:
		d = new(saga.CalledData)
	case journal.Committed:
		d = new(saga.CommittedData)
	default:
		return nil, nil
	}
	return d, r.Decode(d)
}

// last returns the time of the last record.
func (t *sagaState) last() time.Time { return t.Records[len(t.Records)-1].At }

// final reports whether a path belongs to a step in `finally`, or inside one.
func (t *sagaState) final(path string) bool {
	base, _ := saga.SplitQuery(path)
	return t.finally[saga.StepID(base)]
}

// ended returns how the saga ended, "" if it has not.
func (t *sagaState) ended() saga.Status {
	if t.finished == nil {
		return ""
	}
	return t.finished.Status
}

// nested visits steps and the steps inside them.
func nested(steps []*saga.Step, visit func(*saga.Step)) {
	for _, s := range steps {
		visit(s)
		if b, ok := s.Body.(saga.Block); ok {
			for _, list := range b.Lists() {
				nested(list, visit)
			}
		}
	}
}

func (t *sagaState) apply(i int, r journal.Record) {
	switch d := t.data[i].(type) {
	case *saga.CompensatingData:
		t.plan, t.planAt = d, i
		return
	case *saga.FinishedData:
		t.finished = d
		return
	case *saga.CalledData:
		t.calls = append(t.calls, called{r, d})
		t.begun(r, d)
		return
	case *saga.OutcomeData:
		t.redeclare(r, d)
	case *saga.DecidedData:
		if strings.HasSuffix(r.Path, "]") && d.By == "" { // the end of an iteration
			return
		}
	}
	if _, query := saga.SplitQuery(r.Path); query || r.Path == "" {
		return
	}
	n := t.steps[r.Path]
	if n == nil {
		if d, ok := t.data[i].(*saga.CommandData); ok && (d.Rejected != nil || d.Outcome == saga.NewEffect) {
			return // the step has not begun
		}
		n = &stepState{path: r.Path, first: r.Seq}
		if o := t.owns[r.Path]; o != nil {
			n.step = o.step
		} else if t.Definition != nil {
			n.step = t.Definition.Step(r.Path)
		}
		t.steps[r.Path] = n
		t.order = append(t.order, n)
	}
	n.apply(r, t.data[i])
	if r.Way != journal.Undo && r.Kind != journal.Intent {
		n.ended = r.At
	}
}
