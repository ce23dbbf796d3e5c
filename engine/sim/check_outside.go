package sim

import (
	"bytes"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/compensation"
	"recourse/journal"
	"recourse/saga"
)

// announced checks that events go with the outcome that they tell of, in one append.
func (s *sim) announced(batch []journal.Append) {
	for _, a := range batch {
		for _, e := range a.Events {
			if isNotice(e) {
				continue
			}
			if !slices.ContainsFunc(a.Records, func(r journal.Record) bool { return eventID(a.Saga, r) == e.ID && bytes.Equal(eventOf(r), e.Data) }) {
				s.violate(a.Saga, "an event for %s goes out without the outcome that it tells of", e.Sink)
			}
		}
	}
}

// eventOf is the event that a record says was sent out; nil: none.
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
	out, err := s.store.ClaimEvents(ctx, 1<<20, time.Hour)
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
				s.violate(id, "the event of %s is another in the outbox", r.Path)
			}
		}
	}
	s.checkNotices(waiting, journals)
	for _, list := range waiting { // any order
		s.violate(list[0].Saga, "an event is in the outbox that no journal tells of")
	}
}

// checkTasks: no task outlives its saga, each attempt ends as its worker said or as the store
// found, and by nobody else's word.
func (s *sim) checkTasks(def *saga.Definition, id uuid.UUID, records []journal.Record) {
	for _, r := range records {
		if _, query := saga.SplitQuery(r.Path); query || r.Kind != journal.Outcome || r.Attempt == 0 {
			continue
		}
		step := def.Step(r.Path)
		if r.Way == journal.Undo {
			step = &step.Compensate.Step
		}
		if _, ok := step.Body.(saga.Queued); !ok {
			continue
		}
		var d saga.OutcomeData
		mustRead(r, &d)
		fates := s.shop.fates[saga.TaskID(id, r.Path, r.Way, r.Attempt)]
		want := "completed"
		if d.Error != nil {
			want = map[string]string{"heartbeat_lost": "expired", "withdrawn": "withdrawn"}[d.Error.Code]
		}
		switch {
		case len(fates) != 1:
			s.violate(id, "the task of %s attempt %d ended %d times: %v", r.Path, r.Attempt, len(fates), fates)
		case want == "" && fates[0] != "failed" || want != "" && fates[0] != want:
			s.violate(id, "the task of %s attempt %d ended as %s, by its journal as %s %v", r.Path, r.Attempt, fates[0], r.Class, d.Error)
		}
	}
}

// checkApprovals is the part of invariant 16 that journals do not show: who has which role.
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
			i := slices.IndexFunc(everyone(), func(p someone) bool { return p.name == d.Actor })
			if i < 0 || !everyone()[i].may(asked[r.Path], starter) {
				s.violate(id, "16: %s has decided %s, and may not", d.Actor, r.Path)
			}
		}
	}
}

// checkSignals: each message is one signal, and each signal is used up once.
func (s *sim) checkSignals(def *saga.Definition, id uuid.UUID, records []journal.Record) {
	kept := make(map[string]int) // by payload
	mail := make(map[string]bool)
	for _, r := range records {
		switch r.Kind {
		case journal.Signalled:
			var d saga.SignalData
			mustRead(r, &d)
			if mail[d.Message] {
				s.violate(id, "message %s is two signals", d.Message)
			}
			mail[d.Message] = true
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
				s.violate(id, "%s took a signal that was not sent, or was used up: %s", r.Path, d.Output)
			}
		}
	}
}

// childAt returns the head of a saga that a step runs, nil if there is none.
func (s *sim) childAt(parent uuid.UUID, path string) *journal.Head {
	for _, h := range s.heads() {
		if h.Parent == parent && s.parentOf(h).Path == path {
			return &h
		}
	}
	return nil
}

// parentOf tells which step has started a saga; the zero value: a client has.
func (s *sim) parentOf(h journal.Head) saga.ParentData {
	var d saga.StartedData
	mustRead(s.records(h.ID)[0], &d)
	if d.Parent == nil {
		return saga.ParentData{}
	}
	return *d.Parent
}

// checkChild holds a saga's end against that of the one that has started it.
func (s *sim) checkChild(h journal.Head, parent *saga.Machine, records []journal.Record) {
	path := s.parentOf(h).Path
	step := parent.Definition().Step(path)
	stands, byHand, none := false, false, step.NoCompensation // of a step of `finally`, undoing knows nothing
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
		s.violate(h.ID, "its parent succeeded with it, and it ended as %s", status)
	case parent.Status() == saga.Compensated && status == saga.Succeeded && !none && !final:
		s.violate(h.ID, "its parent is compensated, and it succeeded")
	case parent.Status() == saga.Failed && status == saga.Succeeded && !none && !left && !final:
		s.violate(h.ID, "its parent failed without naming it, and it succeeded")
	case !stands && status == saga.Succeeded && !left:
		s.violate(h.ID, "it succeeded, and its parent's step did not")
	}
}
