package tracing

import (
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"recourse/journal"
	"recourse/saga"
)

// note adds an event to a step in flight, or to the saga.
func (s *sagaState) note(r *journal.Record, path, name string, attrs ...attribute.KeyValue) {
	list := &s.notes
	base, _ := saga.SplitQuery(path)
	if st := s.inFlight[at{base, r.Way}]; st != nil && path != "" {
		list = &st.notes
	} else {
		attrs = text(attrs, "recourse.step", path)
	}
	add(list, note{r.At, name, attrs})
}

func (s *sagaState) decided(r *journal.Record) {
	if strings.HasSuffix(r.Path, "]") {
		return // the end of an iteration, which its steps show
	}
	var d saga.DecidedData
	read(r, &d)
	var attrs []attribute.KeyValue
	if d.Branch != nil {
		attrs = append(attrs, attribute.Int("recourse.branch", *d.Branch))
	}
	if d.Items != nil {
		attrs = append(attrs, attribute.Int("recourse.items", len(d.Items)))
	}
	attrs = text(text(attrs, "recourse.by", d.By), "recourse.next", string(d.Next))
	if r.Path == "" {
		s.note(r, "", "decided", attrs...)
		return
	}
	st := s.of(r, r.Path)
	add(&st.notes, note{r.At, "decided", attrs})
	if d.Branch == nil && !d.Enter {
		st.follow(r, d.Next, &saga.Failure{Code: d.By, Title: d.Detail}, nil)
	}
}

func (s *sagaState) woke(r *journal.Record) {
	var d saga.WokeData
	read(r, &d)
	s.note(r, r.Path, "woke", text(nil, "recourse.timer", d.Timer)...)
}

func (s *sagaState) signalled(r *journal.Record) {
	var d saga.SignalData
	read(r, &d)
	s.note(r, "", "signalled", text(text(nil, "recourse.signal", d.Name), "recourse.actor", d.Actor)...)
}

// command adds a person's command as an event, and ends the step that it resolves.
func (s *sagaState) command(r *journal.Record) {
	var d saga.CommandData
	read(r, &d)
	attrs := text(text(text(nil, "recourse.command", d.Kind), "recourse.actor", d.Actor), "recourse.outcome", d.Outcome)
	if d.Rejected != nil {
		attrs = text(attrs, "recourse.rejected", d.Rejected.Code)
	} else {
		attrs = text(attrs, "recourse.command.reason", d.Reason)
	}
	s.note(r, r.Path, string(r.Kind), attrs...)
	if r.Path == "" || d.Rejected != nil {
		return
	}
	if st := s.inFlight[at{r.Path, r.Way}]; st != nil {
		st.settle(r, d)
	}
}

// settle ends a step by a person's command.
func (st *step) settle(r *journal.Record, d saga.CommandData) {
	word := d.Outcome
	if d.Kind != "resolve" {
		word = d.Kind
	}
	switch word {
	case "succeeded", "approve":
		st.close(r.At, succeeded, nil)
	case "failed":
		st.close(r.At, failed, &saga.Failure{Code: "operator", Title: "a person has found that it did not happen"})
	case "compensated":
		st.close(r.At, undone, nil)
	case "skip":
		st.close(r.At, skipped, nil)
	case "reject": // after the pivot, another command follows
		st.end, st.status, st.failure = r.At, failed, &saga.Failure{Code: "rejected", Title: "it was not approved"}
	}
}
