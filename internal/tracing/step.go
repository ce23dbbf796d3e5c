package tracing

import (
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
)

// The statuses of a step's span.
const (
	succeeded = "succeeded"
	failed    = "failed"
	doubted   = "in_doubt"
	undone    = "undone"
	skipped   = "skipped"   // by a person
	abandoned = "abandoned" // its block continued without it
)

// step is a step, or its compensation, from its first record on.
type step struct {
	s      *sagaState
	at     at
	parent saga.SpanID
	start  time.Time
	end    time.Time // as known so far: a step in doubt may be resolved later

	attempts int
	notes    []note
	status   string
	failure  *saga.Failure
}

// of returns the step of an event, which it begins if necessary.
func (s *sagaState) of(e *history.Event) *step {
	key := at{e.Track.Step, e.Way}
	if key.way == "" {
		key.way = journal.Do
	}
	st := s.inFlight[key]
	if st == nil {
		st = &step{s: s, at: key, start: e.At, parent: s.trace.Root()}
		if around := s.around(key.path); around != "" && key.way == journal.Do {
			st.parent = s.trace.Step(around, journal.Do)
		}
		s.inFlight[key] = st
	}
	return st
}

// close ends a step's span, and the abandoned ones inside it.
func (st *step) close(end time.Time, status string, f *saga.Failure) {
	st.end, st.status, st.failure = end, status, f
	delete(st.s.inFlight, st.at)
	st.s.put(st)
	if st.at.way == journal.Do && st.s.inside != nil {
		st.s.abandon(end, st.at.path)
	}
}

// abandon ends the spans of abandoned steps: those inside a block, or all of them ("").
func (s *sagaState) abandon(end time.Time, block string) {
	var left []*step
	for _, st := range s.inFlight { // any order
		if block == "" || st.at.way == journal.Do && s.within(st.at.path, block) {
			left = append(left, st)
		}
	}
	slices.SortFunc(left, func(a, b *step) int { return a.start.Compare(b.start) })
	for _, st := range left {
		if st.status == "" {
			st.end, st.status = end, abandoned
		}
		delete(s.inFlight, st.at)
		s.put(st)
	}
}

// within reports whether a step is inside a block, at any depth.
func (s *sagaState) within(path, block string) bool {
	for around := s.around(path); around != ""; around = s.around(around) {
		if around == block {
			return true
		}
	}
	return false
}

func (s *sagaState) intent(e *history.Event) {
	st := s.of(e)
	switch {
	case e.Track.Check: // a span of the attempt is enough
	case e.Attempt > 0:
		st.attempts++
	default:
		d, _ := history.DataOf[saga.IntentData](e.Record)
		attrs := wake(nil, d.WakeAt)
		if a := d.Awaited; a != nil && a.Approval != nil {
			attrs = append(attrs, attribute.Bool("recourse.approval", true))
		} else if a != nil {
			attrs = text(attrs, "recourse.signal", a.Signal)
		}
		add(&st.notes, note{e.At, "waiting", attrs})
	}
}

func wake(attrs []attribute.KeyValue, at *saga.Time) []attribute.KeyValue {
	if at == nil {
		return attrs
	}
	return append(attrs, attribute.String("recourse.wake_at", at.UTC().Format(journal.TimeFormat)))
}

func (s *sagaState) outcome(e *history.Event) {
	d, _ := history.OutcomeOf(e.Record)
	st := s.of(e)
	if intent := e.Begun.Record; intent != nil {
		s.put(&attempt{st: st, intent: intent, outcome: e.Record, data: d, query: e.Track.Check})
	}
	if !e.Track.Check {
		st.follow(e.At, d.Next, d.Error, d.RetryAt)
	}
}

// follow applies the next action that a record decides.
func (st *step) follow(when time.Time, next saga.Next, f *saga.Failure, retryAt *saga.Time) {
	switch next {
	case saga.NextDone:
		status := succeeded
		if st.at.way == journal.Undo {
			status = undone
		}
		st.close(when, status, nil)
	case saga.NextFail:
		st.close(when, failed, f)
	case saga.NextInDoubt:
		st.end, st.status, st.failure = when, doubted, f
	default:
		st.status = ""
		add(&st.notes, note{when, "waiting", wake([]attribute.KeyValue{attribute.String("recourse.next", string(next))}, retryAt)})
	}
}

func (st *step) size() int { return 0 }

// span makes the step's own span.
func (st *step) span() span {
	s := st.s
	out := span{of: &s.trace, id: s.trace.Step(st.at.path, st.at.way), parent: st.parent, name: saga.StepID(st.at.path), kind: trace.SpanKindInternal, start: st.start, end: st.end,
		events: st.notes}
	if st.at.way == journal.Undo {
		out.name = "undo " + out.name
	}
	out.attrs = []attribute.KeyValue{
		attribute.String("recourse.saga.id", s.trace.Saga.String()),
		attribute.String("recourse.step", st.at.path),
		attribute.String("recourse.way", string(st.at.way)),
		attribute.String("recourse.status", st.status),
		attribute.Int("recourse.attempts", st.attempts),
	}
	if def := s.runs(st.at, false); def != nil {
		out.attrs = append(out.attrs, attribute.String("recourse.kind", def.Kind))
		out.attrs = text(out.attrs, "recourse.action", def.Use.String())
	}
	out.failed = st.status == failed || st.status == doubted
	if f := st.failure; f != nil {
		out.attrs = append(out.attrs, attribute.String("error.type", f.Code))
		out.why = f.Title
	}
	return out
}

// runs returns the definition of a step, of its compensation, or of its status check; nil if there
// is none.
func (s *sagaState) runs(a at, query bool) *saga.Step {
	def := s.def.Step(a.path)
	switch {
	case def == nil:
		return nil
	case query:
		if v := def.InDoubt.Verify; v != nil {
			return v.Call
		}
		return nil
	case a.way == journal.Undo:
		if def.Compensate == nil {
			return nil
		}
		return &def.Compensate.Step
	}
	return def
}
