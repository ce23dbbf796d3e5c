package metrics

import (
	"github.com/gofrs/uuid/v5"
	"github.com/prometheus/client_golang/prometheus"

	"recourse/engine"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/machine"
)

// Acquired implements engine.Observer. The records so far were counted when they were written.
func (m *Metrics) Acquired(g engine.Growth) {
	m.forget(g.Saga) // the state from an earlier time on this node
	r := m.reader(g, true)
	for i := range g.Records {
		r.read(&g.Records[i])
	}
	r.had(g.Cost.Own())
	r.settleCalls(g.Machine)
}

// Appended implements engine.Observer.
func (m *Metrics) Appended(g engine.Growth) {
	r := m.reader(g, false)
	for i := range g.Records {
		r.read(&g.Records[i])
	}
	if r.last.Seq == g.Machine.Seq() { // otherwise the machine has later records that are not durable yet
		r.spend(g.Machine.Cost().Own())
		r.settleCalls(g.Machine)
	}
	if r.last.Kind == journal.Finished {
		r.end(g.Machine)
	}
}

// Released implements engine.Observer.
func (m *Metrics) Released(id uuid.UUID) { m.forget(id) }

// reader counts the new records of a saga.
type reader struct {
	m     *Metrics
	t     *sagaState
	def   *saga.Definition
	name  string // the definition's label
	quiet bool   // the records were counted before
	last  *journal.Record

	id    uuid.UUID
	trace *saga.Trace
}

func (m *Metrics) reader(g engine.Growth, quiet bool) *reader {
	def := g.Machine.Definition()
	name, fresh := m.definitions.label(def.Name)
	if fresh { // so that the first count shows as an increase
		for _, c := range []*prometheus.CounterVec{m.doubts, m.refusals, m.outliers} {
			c.WithLabelValues(name)
		}
		m.compensations.WithLabelValues(name, "stuck")
	}
	return &reader{m: m, t: m.state(g.Saga), def: def, name: name, quiet: quiet, id: g.Saga, trace: g.Machine.Trace()}
}

// exemplar returns the ids of the saga and its trace.
func (r *reader) exemplar() prometheus.Labels {
	return prometheus.Labels{"saga_id": r.id.String(), "trace_id": r.trace.ID.String()}
}

// observe adds to a histogram, with an exemplar.
func (r *reader) observe(h prometheus.Observer, v float64) {
	h.(prometheus.ExemplarObserver).ObserveWithExemplar(v, r.exemplar())
}

// count adds one to a counter whose first label is the definition.
func (r *reader) count(c *prometheus.CounterVec, labels ...string) {
	if !r.quiet {
		c.WithLabelValues(append([]string{r.name}, labels...)...).Inc()
	}
}

// read counts the journal's next record. It ignores data that cannot be read; the engine reports
// the error.
func (r *reader) read(rec *journal.Record) {
	r.last = rec
	if r.def.Session != nil {
		r.session(rec)
	}
	e := r.t.journal.Read(rec)
	switch e.Kind {
	case journal.Started:
		r.count(r.m.started)
	case journal.Intent:
		r.intent(&e)
	case journal.Outcome:
		r.outcome(&e)
	case journal.Skipped:
		if e.Way == journal.Undo {
			r.count(r.m.compensations, "not_needed")
		}
	case journal.Decided:
		r.decided(&e)
	case journal.Operator, journal.Paused, journal.Resumed, journal.Cancelled:
		r.command(&e)
	case journal.Signalled:
		r.reported("signal", "done")
	}
}

// end counts the saga's end, with the doubts that remain.
func (r *reader) end(m *machine.Machine) {
	reason := "none"
	if why := m.Reason(); why != nil {
		reason = why.Code
	}
	status := string(m.Status())
	r.count(r.m.ended, status, reason)
	if began := r.t.journal.Began(); !began.IsZero() {
		r.observe(r.m.sagaSeconds.WithLabelValues(r.name, status), r.last.At.Sub(began).Seconds())
	}
	for range r.t.doubts {
		r.count(r.m.settled, "none")
	}
	r.priced(m.Cost().Own())
}

// kind returns the kind of the step that a track runs.
func (r *reader) kind(s history.Track) string {
	step := r.def.Step(s.Step)
	switch {
	case step == nil:
		return other
	case s.Check && step.InDoubt.Verify != nil:
		return step.InDoubt.Verify.Call.Kind
	case s.Way == journal.Undo && step.Compensate != nil:
		return step.Compensate.Kind
	}
	return step.Kind
}
