package sim

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/notify"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// notices sends all notifications to one sink.
func notices() *notify.Notices {
	n := &notify.Notices{To: make(map[string][]string), URL: "https://page"}
	for _, kind := range notify.Kinds {
		n.To[kind] = []string{"notices"}
	}
	return n
}

func isNotice(e journal.Event) bool { return bytes.Contains(e.Data, []byte(`"type":"`+saga.OwnEvents)) }

// noticeID is the id of a notification of this kind about an item of a saga.
func noticeID(id uuid.UUID, kind, about string) uuid.UUID {
	return uuid.NewV5(id, "notice:"+kind+":"+about)
}

// asking is an inbox entry that was committed.
type asking struct {
	saga       uuid.UUID
	kind, path string
}

// noticed remembers the inbox entries and notifications of a batch that were committed. If a
// notification is committed twice, then either with the same records, or about an entry that left
// the inbox in between, because another node cannot know of the first one.
func (s *sim) noticed(batch []journal.Append, results []journal.Result) {
	for i, a := range batch {
		if i >= len(results) || results[i].Err != nil {
			continue
		}
		if a.Row != nil && (len(a.Records) == 0 || a.Row.Seq == a.Records[len(a.Records)-1].Seq) {
			for _, e := range a.Row.Inbox {
				s.shown[noticeID(a.Saga, "inbox."+e.Kind, e.ID.String())] = asking{a.Saga, e.Kind, e.Path}
			}
		}
		if losesProcess(a.Records) && !slices.ContainsFunc(a.Events, isLoss) && s.goesOn(a.Saga, a.Records[len(a.Records)-1].Seq) {
			s.violate(a.Saga, "a session has lost its process, and there is no notification")
		}
		for _, e := range a.Events {
			if !isNotice(e) {
				continue
			}
			if len(a.Records) == 0 {
				s.violate(a.Saga, "a notification was committed without a record: %s", e.Data)
				continue
			}
			if first, again := s.notified[e.ID]; again && first != a.Records[0].Seq && s.stood(a.Saga, a.Records[0].Seq-1, e.ID) {
				s.violate(a.Saga, "notification with record %d, and again with record %d: %s", first, a.Records[0].Seq, e.Data)
			}
			s.notified[e.ID] = a.Records[0].Seq
		}
	}
}

// losesProcess reports whether a session has no process after these records, and had one before.
func losesProcess(records []journal.Record) (gone bool) {
	for _, r := range records {
		switch r.Kind {
		case journal.Woke:
			var d saga.WokeData
			if mustRead(r, &d); r.Path == "" {
				gone = d.Timer == saga.TimerLease || d.Timer == saga.TimerDetach
			}
		case journal.Attached, journal.Committed, journal.Cancelled, journal.Compensating, journal.Finished:
			gone = false
		}
	}
	return gone
}

// goesOn reports whether a session had not ended for its agent after so many records. One that is
// being aborted may have a process that still finishes a step of its own, and waits for no other.
func (s *sim) goesOn(id uuid.UUID, records int64) bool {
	list, err := s.store.Records(ctx, id, 0, int(records))
	if err != nil {
		panic(err)
	}
	var d saga.StartedData
	mustRead(list[0], &d)
	m, err := machine.Replay(s.defs[d.Definition], id, list)
	return err == nil && !m.Closed()
}

func isLoss(e journal.Event) bool {
	return bytes.Contains(e.Data, []byte(`"type":"`+saga.OwnEvents+"session."+notify.Lost+`"`))
}

// stood reports whether the subject of a notification existed after so many records.
func (s *sim) stood(id uuid.UUID, records int64, notice uuid.UUID) bool {
	if records == 0 {
		return false // a start that was committed late, and again
	}
	list, err := s.store.Records(ctx, id, 0, int(records))
	if err != nil {
		panic(err)
	}
	must, _ := s.expectedNotices(id, list)
	var d saga.StartedData
	mustRead(list[0], &d)
	m, err := machine.Replay(s.defs[d.Definition], id, list)
	return err != nil || slices.Contains(must, notice) ||
		slices.ContainsFunc(m.Inbox(), func(e saga.Entry) bool { return noticeID(id, "inbox."+e.Kind, e.ID.String()) == notice })
}

// checkNotices checks that each committed subject of a notification has exactly one in the outbox,
// and that there are no others. It removes the known ones from waiting.
func (s *sim) checkNotices(waiting map[uuid.UUID][]journal.Delivery, journals map[uuid.UUID][]journal.Record) {
	budgets := make(map[asking]bool) // whose entries change their ids with each record
	for _, list := range waiting {   // any order
		for _, e := range list {
			var n struct {
				Data struct{ Kind, Path string }
			}
			if json.Unmarshal(e.Data, &n) == nil && n.Data.Kind == saga.InboxBudget {
				budgets[asking{e.Saga, n.Data.Kind, n.Data.Path}] = true
			}
		}
	}
	for id, a := range s.shown { // any order
		if len(waiting[id]) != 1 && !budgets[a] {
			s.violate(a.saga, "there is no notification that %s waits for a person: %s", a.path, a.kind)
		}
	}
	for id, records := range journals { // any order
		must, may := s.expectedNotices(id, records)
		for _, notice := range must {
			if len(waiting[notice]) != 1 {
				s.violate(id, "the notification of its end, or of a worker that stopped sending heartbeats, is not in the outbox")
			}
			delete(waiting, notice)
		}
		for _, notice := range may {
			delete(waiting, notice)
		}
	}
}

// expectedNotices lists the notifications that a journal must have, and those that it may have:
// about entries that were in the inbox between two records, and about processes that were gone.
func (s *sim) expectedNotices(id uuid.UUID, records []journal.Record) (must, may []uuid.UUID) {
	if len(records) == 0 {
		return nil, nil
	}
	var d saga.StartedData
	mustRead(records[0], &d)
	m := machine.New(s.defs[d.Definition], id)
	for _, r := range records {
		if m.Apply(r) != nil {
			return must, may // which is a violation of its own
		}
		if m.InboxRevision() != (machine.Revision{}) {
			for _, e := range m.Inbox() {
				may = append(may, noticeID(id, "inbox."+e.Kind, e.ID.String()))
			}
		}
		// The process may have come back in the same append.
		if lease, _, gone := m.Gone(); gone {
			may = append(may, noticeID(id, "session."+notify.Lost, strconv.Itoa(lease)))
		}
		if r.Kind == journal.Outcome {
			var o saga.OutcomeData
			mustRead(r, &o)
			// Without an attempt, it is a block that fails with the same code.
			if r.Attempt > 0 && o.Error != nil && o.Error.Code == saga.CodeHeartbeatLost {
				must = append(must, noticeID(id, "step.stalled", journal.StallID(id, journal.StallWorkerSilent, r.Path, r.At).String()))
			}
		}
	}
	switch status := m.Status(); status {
	case saga.Failed, saga.Compensated:
		must = append(must, noticeID(id, "saga."+string(status), string(status)))
	}
	if len(m.Doubts()) > 0 {
		must = append(must, noticeID(id, "saga."+saga.InboxInDoubt, saga.InboxInDoubt))
	}
	return must, may
}
