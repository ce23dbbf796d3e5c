package metrics

import (
	"github.com/gofrs/uuid/v5"
	"github.com/prometheus/client_golang/prometheus"

	"recourse/engine"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// Acquired implements engine.Observer. The records so far were counted when they were written.
func (m *Metrics) Acquired(g engine.Growth) {
	m.forget(g.Saga) // the state from an earlier time on this node
	r := m.reader(g, true)
	for _, rec := range g.Records {
		r.read(rec)
	}
	r.had(g.Cost)
}

// Appended implements engine.Observer.
func (m *Metrics) Appended(g engine.Growth) {
	r := m.reader(g, false)
	for _, rec := range g.Records {
		r.read(rec)
	}
	if r.last.Seq == g.Machine.Seq() { // otherwise the machine has later records that are not durable yet
		r.spend(g.Machine.Cost())
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
	last  journal.Record

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

// read applies the journal's next record.
func (r *reader) read(rec journal.Record) {
	r.last = rec
	switch rec.Kind {
	case journal.Started:
		r.t.began = rec.At
		r.count(r.m.started)
	case journal.Intent:
		r.intent(rec)
	case journal.Outcome:
		r.outcome(rec)
	case journal.Skipped:
		if rec.Way == journal.Undo {
			r.count(r.m.compensations, "not_needed")
		}
	case journal.Decided:
		r.decided(rec)
	case journal.Operator, journal.Paused, journal.Resumed, journal.Cancelled:
		r.command(rec)
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
	if !r.t.began.IsZero() {
		r.observe(r.m.sagaSeconds.WithLabelValues(r.name, status), r.last.At.Sub(r.t.began).Seconds())
	}
	for range r.t.doubts {
		r.count(r.m.settled, "none")
	}
	r.priced(m.Cost())
}

// trackOf returns the track of a record.
func trackOf(rec journal.Record) track {
	base, query := saga.SplitQuery(rec.Path)
	if query {
		return track{base, verify}
	}
	return track{rec.Path, rec.Way}
}

// kind returns the kind of the step that a track runs.
func (r *reader) kind(s track) string {
	step := r.def.Step(s.path)
	switch {
	case step == nil:
		return other
	case s.way == verify && step.InDoubt.Verify != nil:
		return step.InDoubt.Verify.Call.Kind
	case s.way == journal.Undo && step.Compensate != nil:
		return step.Compensate.Kind
	}
	return step.Kind
}
