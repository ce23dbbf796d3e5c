package tracing

import (
	"time"

	"go.opentelemetry.io/otel/attribute"

	"recourse/saga"
	"recourse/saga/history"
)

// note adds an event to a step in flight, or to the saga.
func (s *sagaState) note(e *history.Event, path, name string, attrs ...attribute.KeyValue) {
	list := &s.notes
	if st := s.inFlight[at{e.Track.Step, e.Way}]; st != nil && path != "" {
		list = &st.notes
	} else {
		attrs = text(attrs, "recourse.step", path)
	}
	add(list, note{e.At, name, attrs})
}

func (s *sagaState) decided(e *history.Event) {
	if e.Iteration() {
		return // its steps show it
	}
	d, _ := history.DataOf[saga.DecidedData](e.Record)
	var attrs []attribute.KeyValue
	if d.Branch != nil {
		attrs = append(attrs, attribute.Int("recourse.branch", *d.Branch))
	}
	if d.Items != nil {
		attrs = append(attrs, attribute.Int("recourse.items", len(d.Items)))
	}
	attrs = text(text(attrs, "recourse.by", d.By), "recourse.next", string(d.Next))
	if e.Path == "" {
		s.note(e, "", "decided", attrs...)
		return
	}
	st := s.of(e)
	add(&st.notes, note{e.At, "decided", attrs})
	if d.Branch == nil && !d.Enter {
		st.follow(e.At, d.Next, &saga.Failure{Code: d.By, Title: d.Detail}, nil)
	}
}

func (s *sagaState) woke(e *history.Event) {
	d, _ := history.DataOf[saga.WokeData](e.Record)
	s.note(e, e.Path, "woke", text(nil, "recourse.timer", d.Timer)...)
}

func (s *sagaState) signalled(e *history.Event) {
	d, _ := history.DataOf[saga.SignalData](e.Record)
	s.note(e, "", "signalled", text(text(nil, "recourse.signal", d.Name), "recourse.actor", d.Actor)...)
}

// called begins the span of a session's call.
func (s *sagaState) called(e *history.Event) {
	d, _ := history.DataOf[saga.CalledData](e.Record)
	st := s.of(e)
	add(&st.notes, note{e.At, "called", []attribute.KeyValue{attribute.Int("recourse.life", d.Life)}})
}

// command adds a person's command as an event, and ends the step that it resolves.
func (s *sagaState) command(e *history.Event) {
	d, _ := history.DataOf[saga.CommandData](e.Record)
	attrs := text(text(text(nil, "recourse.command", d.Kind), "recourse.actor", d.Actor), "recourse.outcome", d.Outcome)
	if d.Rejected != nil {
		attrs = text(attrs, "recourse.rejected", d.Rejected.Code)
	} else {
		attrs = text(attrs, "recourse.command.reason", d.Reason)
	}
	s.note(e, e.Path, string(e.Kind), attrs...)
	if e.Path == "" || d.Rejected != nil {
		return
	}
	if d.Kind == "approve" && s.def.Session != nil {
		return // the call begins
	}
	if st := s.inFlight[at{e.Path, e.Way}]; st != nil {
		st.settle(e.At, d)
	}
}

// settle ends a step by a person's command.
func (st *step) settle(when time.Time, d saga.CommandData) {
	word := d.Outcome
	if d.Kind != "resolve" {
		word = d.Kind
	}
	switch word {
	case "succeeded", "approve":
		st.close(when, succeeded, nil)
	case "failed":
		st.close(when, failed, &saga.Failure{Code: "operator", Title: "a person has found that it did not happen"})
	case "compensated":
		st.close(when, undone, nil)
	case "skip":
		st.close(when, skipped, nil)
	case "reject": // after the pivot, another command follows
		st.end, st.status, st.failure = when, failed, &saga.Failure{Code: "rejected", Title: "it was not approved"}
	}
}
