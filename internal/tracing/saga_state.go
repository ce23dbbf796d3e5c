package tracing

import (
	"encoding/json"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"recourse/engine"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// sagaState is the state of a saga that has not ended: its beginning, and its steps that have not
// ended.
type sagaState struct {
	t      *Tracer
	trace  saga.Trace
	def    *saga.Definition
	inside map[string]*saga.Step // the block around a step, by the step's id; nil: there are no blocks
	silent bool                  // an earlier node has exported the ended spans
	over   bool

	began    time.Time
	version  string
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
		r := &g.Records[i]
		switch r.Kind {
		case journal.Started:
			var d struct {
				Version saga.Version `json:"version"`
			}
			read(r, &d)
			s.began, s.version = r.At, d.Version.String()
		case journal.Intent:
			s.intent(r)
		case journal.Outcome:
			s.outcome(r)
		case journal.Decided:
			s.decided(r)
		case journal.Woke:
			s.woke(r)
		case journal.Signalled:
			s.signalled(r)
		case journal.Compensating:
			s.compensating(r)
		case journal.Cancelled, journal.Paused, journal.Resumed, journal.Operator:
			s.command(r)
		case journal.Finished:
			s.finished(r, g.Machine)
		}
	}
}

// read reads a record's data. Fields that cannot be read stay empty; the engine reports the error.
func read(r *journal.Record, into any) {
	if len(r.Data) > 0 {
		_ = json.Unmarshal(r.Data, into)
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
func (s *sagaState) compensating(r *journal.Record) {
	var d saga.CompensatingData
	read(r, &d)
	s.note(r, "", "compensating", text([]attribute.KeyValue{attribute.Int("recourse.steps", len(d.Plan))}, "recourse.reason", d.Reason.Code)...)
	s.abandon(r.At, "")
}

// finished exports the saga's own span, and those of abandoned steps.
func (s *sagaState) finished(r *journal.Record, m *machine.Machine) {
	s.abandon(r.At, "")
	e := &ending{s: s, end: r.At, labels: m.Labels(), cost: m.Cost()}
	read(r, &e.data)
	s.over = true
	s.put(e)
}

// ending is a saga's own span.
type ending struct {
	s      *sagaState
	end    time.Time
	data   saga.FinishedData
	labels map[string]string
	cost   saga.CostView
}

func (e *ending) size() int { return 0 }

func (e *ending) span() span {
	s := e.s
	out := span{of: &s.trace, id: s.trace.Root(), parent: s.trace.Parent, remote: true, name: s.def.Name, kind: trace.SpanKindInternal, start: s.began, end: e.end, events: s.notes}
	out.attrs = []attribute.KeyValue{
		attribute.String("recourse.saga.id", s.trace.Saga.String()),
		attribute.String("recourse.definition", s.def.Name),
		attribute.String("recourse.version", s.version),
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
