package sim

import (
	"bytes"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/compensation"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// announced checks that each event is in the append of its outcome.
func (s *sim) announced(batch []journal.Append) {
	for _, a := range batch {
		for _, e := range a.Events {
			if isNotice(e) {
				continue
			}
			if !slices.ContainsFunc(a.Records, func(r journal.Record) bool { return eventID(a.Saga, r) == e.ID && bytes.Equal(eventOf(r), e.Data) }) {
				s.violate(a.Saga, "an event for %s was committed without its outcome", e.Sink)
			}
		}
	}
}

// eventOf returns the event of a record; nil: it has none.
func eventOf(r journal.Record) []byte {
	if r.Kind != journal.Outcome {
		return nil
	}
	var d saga.OutcomeData
	mustRead(r, &d)
	return d.Event
}

func eventID(id uuid.UUID, r journal.Record) uuid.UUID { return uuid.NewV5(id, "event:"+r.Path) }

// checkOutbox compares the outbox, from which nothing was delivered, with the journals.
func (s *sim) checkOutbox(journals map[uuid.UUID][]journal.Record) {
	stats, err := s.store.OutboxStats(ctx)
	if err != nil {
		panic(err)
	}
	var sinks []string
	for _, st := range stats {
		sinks = append(sinks, st.Sink)
	}
	out, err := s.store.ClaimEvents(ctx, sinks, 1<<20, time.Hour)
	if err != nil {
		panic(err)
	}
	waiting := make(map[uuid.UUID][]journal.Delivery)
	for _, e := range out {
		waiting[e.ID] = append(waiting[e.ID], e)
	}
	for id, records := range journals { // any order
		for _, r := range records {
			event := eventOf(r)
			if event == nil {
				continue
			}
			list, ok := waiting[eventID(id, r)]
			delete(waiting, eventID(id, r))
			switch {
			case !ok:
				s.violate(id, "the event of %s is not in the outbox, or it was sent twice", r.Path)
			case slices.ContainsFunc(list, func(e journal.Delivery) bool { return e.Saga != id || !bytes.Equal(e.Data, event) }):
				s.violate(id, "the event of %s differs from the one in the outbox", r.Path)
			}
		}
	}
	s.checkNotices(waiting, journals)
	for _, list := range waiting { // any order
		s.violate(list[0].Saga, "an event in the outbox is in no journal")
	}
}

// checkTasks checks that each attempt of a task ended exactly once, as its worker reported or as
// the store found, and that the journal says the same.
func (s *sim) checkTasks(def *saga.Definition, id uuid.UUID, records []journal.Record) {
	for _, r := range records {
		if _, query := saga.SplitQuery(r.Path); query || r.Kind != journal.Outcome || r.Attempt == 0 {
			continue
		}
		step := def.Step(r.Path)
		if _, own := step.Body.(saga.Own); own { // no worker does it, and an http action undoes it
			continue
		}
		if r.Way == journal.Undo {
			step = &step.Compensate.Step
		}
		if _, ok := step.Body.(saga.Queued); !ok {
			continue
		}
		var d saga.OutcomeData
		mustRead(r, &d)
		ends := s.shop.ends[machine.TaskID(id, r.Path, r.Way, r.Attempt)]
		want := "completed"
		if d.Error != nil {
			want = map[string]string{"heartbeat_lost": "expired", "withdrawn": "withdrawn"}[d.Error.Code]
		}
		switch {
		case len(ends) != 1:
			s.violate(id, "the task of %s attempt %d ended %d times: %v", r.Path, r.Attempt, len(ends), ends)
		case want == "" && ends[0] != "failed" || want != "" && ends[0] != want:
			s.violate(id, "the task of %s attempt %d ended as %s, by its journal as %s %v", r.Path, r.Attempt, ends[0], r.Class, d.Error)
		}
	}
}

// checkApprovals checks the part of invariant 16 that journals do not show: who has which role.
func (s *sim) checkApprovals(id uuid.UUID, starter string, records []journal.Record) {
	asked := make(map[string]*saga.ApprovalData)
	for _, r := range records {
		switch r.Kind {
		case journal.Intent:
			var d saga.IntentData
			mustRead(r, &d)
			if d.Awaited != nil && d.Awaited.Approval != nil {
				asked[r.Path] = d.Awaited.Approval
			}
		case journal.Operator:
			var d saga.CommandData
			mustRead(r, &d)
			if d.Kind != "approve" && d.Kind != "reject" || d.Rejected != nil {
				continue
			}
			i := slices.IndexFunc(everyone(), func(p person) bool { return p.name == d.Actor })
			if i < 0 || !everyone()[i].may(asked[r.Path], starter) {
				s.violate(id, "16: %s has decided %s without permission", d.Actor, r.Path)
			}
		}
	}
}

// checkSignals checks that each message is one signal, and that each signal is used once.
func (s *sim) checkSignals(def *saga.Definition, id uuid.UUID, records []journal.Record) {
	kept := make(map[string]int) // by payload
	messages := make(map[string]bool)
	for _, r := range slices.Concat(inherited(records), records) {
		switch r.Kind {
		case journal.Signalled:
			var d saga.SignalData
			mustRead(r, &d)
			if messages[d.Message] {
				s.violate(id, "message %s was recorded as two signals", d.Message)
			}
			messages[d.Message] = true
			kept[string(d.Payload)]++
		case journal.Outcome:
			step := def.Step(r.Path)
			if step == nil || r.Class != journal.Succeeded {
				continue
			}
			if _, ok := step.Body.(saga.Receiver); !ok {
				continue
			}
			var d saga.OutcomeData
			mustRead(r, &d)
			if kept[string(d.Output)]--; kept[string(d.Output)] < 0 {
				s.violate(id, "%s used a signal that was not sent, or was already used: %s", r.Path, d.Output)
			}
		}
	}
}

// childAt returns the row of the saga that a step started, nil if there is none.
func (s *sim) childAt(parent uuid.UUID, path string) *journal.Head {
	for _, h := range s.heads() {
		if h.Parent == parent && s.parentOf(h).Path == path {
			return &h
		}
	}
	return nil
}

// parentOf returns the step that started a saga; the zero value: a client did.
func (s *sim) parentOf(h journal.Head) saga.ParentData {
	var d saga.StartedData
	mustRead(s.records(h.ID)[0], &d)
	if d.Parent == nil {
		return saga.ParentData{}
	}
	return *d.Parent
}

// checkChild compares a saga's end with the end of its parent.
func (s *sim) checkChild(h journal.Head, parent *machine.Machine, records []journal.Record) {
	path := s.parentOf(h).Path
	step := parent.Definition().Step(path)
	stands, byHand, none := false, false, step.NoCompensation // compensation does not cover steps of `finally`
	final := slices.Contains(parent.Definition().Finally, step)
	for _, r := range records {
		switch {
		case r.Path != path:
		case r.Kind == journal.Operator:
			byHand = true
		case r.Kind == journal.Outcome && r.Way != journal.Undo:
			stands = r.Class == journal.Succeeded
		}
	}
	named := func(r compensation.Residue) bool { return r.Path == path }
	left := slices.ContainsFunc(parent.Residual(), named) || none && slices.ContainsFunc(parent.Doubts(), named)
	status := saga.Status(h.Status)
	switch {
	case byHand:
	case parent.Status() == saga.Succeeded && stands && status != saga.Succeeded:
		s.violate(h.ID, "its parent's step and its parent succeeded, but it ended as %s", status)
	case parent.Status() == saga.Compensated && status == saga.Succeeded && !none && !final:
		s.violate(h.ID, "its parent is compensated, but it succeeded")
	case parent.Status() == saga.Failed && status == saga.Succeeded && !none && !left && !final:
		s.violate(h.ID, "it succeeded, but its parent failed without naming it")
	case !stands && status == saga.Succeeded && !left:
		s.violate(h.ID, "it succeeded, but its parent's step did not")
	}
}
