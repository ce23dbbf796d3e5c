package tracing

import (
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"recourse/engine"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/machine"
)

// sagaState is the state of a saga that has not ended: its beginning, and its steps that have not
// ended. Data that cannot be read is left out of the spans; the engine reports the error.
type sagaState struct {
	t      *Tracer
	trace  saga.Trace
	def    *saga.Definition
	inside map[string]*saga.Step // the block around a step, by the step's id; nil: there are no blocks
	silent bool                  // an earlier node has exported the ended spans
	over   bool

	journal  history.Reader
	notes    []note
	inFlight map[at]*step
}

// at identifies a track of a step.
type at struct {
	path string
	way  journal.Way
}

func newSagaState(t *Tracer, trace saga.Trace, def *saga.Definition) *sagaState {
	s := &sagaState{t: t, trace: trace, def: def, inFlight: make(map[at]*step)}
	s.surround(nil, def.Steps)
	s.surround(nil, def.Finally)
	return s
}

// surround notes the block of each step.
func (s *sagaState) surround(by *saga.Step, steps []*saga.Step) {
	for _, inner := range steps {
		if by != nil {
			if s.inside == nil {
				s.inside = make(map[string]*saga.Step)
			}
			s.inside[inner.ID] = by
		}
		if b, ok := inner.Body.(saga.Block); ok {
			for _, list := range b.Lists() {
				s.surround(inner, list)
			}
		}
	}
}

// around returns the path of the block of a step, "" if it is in none.
func (s *sagaState) around(path string) string {
	id := saga.StepID(path)
	by := s.inside[id]
	if by == nil {
		return ""
	}
	prefix := strings.TrimSuffix(path, id)
	if by.Body.(saga.Block).Loops() {
		return prefix[:strings.LastIndexByte(prefix, '[')]
	}
	return prefix + by.ID
}

// apply applies records.
func (s *sagaState) apply(g engine.Growth) {
	for i := range g.Records {
		e := s.journal.Read(&g.Records[i])
		switch e.Kind {
		case journal.Intent:
			s.intent(&e)
		case journal.Outcome:
			s.outcome(&e)
		case journal.Decided:
			s.decided(&e)
		case journal.Woke:
			s.woke(&e)
		case journal.Signalled:
			s.signalled(&e)
		case journal.Compensating:
			s.compensating(&e)
		case journal.Cancelled, journal.Paused, journal.Resumed, journal.Operator:
			s.command(&e)
		case journal.Attached:
			d, _ := history.DataOf[saga.AttachedData](e.Record)
			s.note(&e, "", "attached", text([]attribute.KeyValue{attribute.Int("recourse.life", d.Life)}, "recourse.holder", d.Holder)...)
		case journal.Called:
			s.called(&e)
		case journal.Committed:
			s.note(&e, "", "committed")
		case journal.Finished:
			s.finished(&e, g.Machine)
		}
	}
}

// put queues an ended span.
func (s *sagaState) put(o source) {
	if !s.silent {
		s.t.put(o)
	}
}

// compensating ends the spans of forward steps, which do not continue. Steps of finally begin
// later.
func (s *sagaState) compensating(e *history.Event) {
	d, _ := history.DataOf[saga.CompensatingData](e.Record)
	s.note(e, "", "compensating", text([]attribute.KeyValue{attribute.Int("recourse.steps", len(d.Plan))}, "recourse.reason", d.Reason.Code)...)
	s.abandon(e.At, "")
}

// finished exports the saga's own span, and those of abandoned steps.
func (s *sagaState) finished(e *history.Event, m *machine.Machine) {
	s.abandon(e.At, "")
	_, version := m.DefinitionVersion()
	d, _ := history.DataOf[saga.FinishedData](e.Record)
	s.over = true
	s.put(&ending{s: s, version: version, start: s.journal.Began(), end: e.At, data: d, labels: m.Labels(), cost: m.Cost()})
}

// ending is a saga's own span.
type ending struct {
	s          *sagaState
	version    saga.Version
	start, end time.Time
	data       saga.FinishedData
	labels     map[string]string
	cost       saga.CostView
}

func (e *ending) size() int { return 0 }

func (e *ending) span() span {
	s := e.s
	out := span{of: &s.trace, id: s.trace.Root(), parent: s.trace.Parent, remote: true, name: s.def.Name, kind: trace.SpanKindInternal, start: e.start, end: e.end, events: s.notes}
	out.attrs = []attribute.KeyValue{
		attribute.String("recourse.saga.id", s.trace.Saga.String()),
		attribute.String("recourse.definition", s.def.Name),
		attribute.String("recourse.version", e.version.String()),
		attribute.String("recourse.status", string(e.data.Status)),
		attribute.String("recourse.cost.spent", e.cost.Spent),
		attribute.String("recourse.cost.wasted", e.cost.Wasted),
	}
	out.attrs = text(out.attrs, "recourse.cost.currency", e.cost.Currency)
	if why := e.data.Reason; why != nil {
		out.attrs = append(out.attrs, attribute.String("recourse.reason", why.Code))
		out.attrs = text(out.attrs, "recourse.reason.step", why.Step)
		out.why = why.Title
	}
	for name, value := range e.labels { // any order
		out.attrs = append(out.attrs, attribute.String("recourse.label."+name, value))
	}
	out.failed = e.data.Status == saga.Failed
	return out
}
