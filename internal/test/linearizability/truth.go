package linearizability

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// Truth is the final content of a store.
type Truth struct {
	Sagas []*Saga // oldest first
}

// Saga is one saga's final journal, and the state after each record.
type Saga struct {
	Head     journal.Head
	Started  saga.StartedData
	Records  []journal.Record
	machines []*machine.Machine // at k: after k records; nil at 0
	views    [][]byte
	commands []command
}

// command is a command that a record has applied.
type command struct {
	seq int64
	saga.CommandData
}

// Read reads all sagas of a store that nobody writes to any longer. Errors: the
// store's, and whatever makes a journal no journal: a gap, a hash that does not
// match, a record that cannot follow.
func Read(ctx context.Context, store journal.Store, def func(name string, version int) (*saga.Definition, error)) (*Truth, error) {
	found, err := store.Sagas(ctx, journal.Filter{Limit: 100_000})
	if err != nil {
		return nil, err
	}
	slices.Reverse(found.Heads)
	t := &Truth{}
	for _, h := range found.Heads {
		d, err := def(h.Definition, h.Version)
		if err != nil {
			return nil, err
		}
		records, err := store.Records(ctx, h.ID, 0, 100_000)
		if err != nil {
			return nil, err
		}
		s, err := NewSaga(d, h, records)
		if err != nil {
			return nil, fmt.Errorf("saga %s: %w", h.ID, err)
		}
		t.Sagas = append(t.Sagas, s)
	}
	return t, nil
}

// NewSaga computes the state after each prefix of a journal.
func NewSaga(def *saga.Definition, head journal.Head, records []journal.Record) (*Saga, error) {
	s := &Saga{Head: head, Records: records, machines: []*machine.Machine{nil}, views: [][]byte{nil}}
	if err := journal.Verify(head.ID, nil, 1, records); err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, errors.New("no records")
	}
	if err := json.Unmarshal(records[0].Data, &s.Started); err != nil {
		return nil, err
	}
	for k := 1; k <= len(records); k++ {
		m, err := machine.Replay(def, head.ID, records[:k])
		if err != nil {
			return nil, err
		}
		view, err := journal.Encode(m.View())
		if err != nil {
			return nil, err
		}
		s.machines, s.views = append(s.machines, m), append(s.views, view)
		switch r := records[k-1]; r.Kind {
		case journal.Operator, journal.Paused, journal.Resumed, journal.Cancelled:
			o := command{seq: r.Seq}
			if err := json.Unmarshal(r.Data, &o.CommandData); err != nil {
				return nil, err
			}
			s.commands = append(s.commands, o)
		}
	}
	return s, nil
}

// ID returns the saga's id.
func (s *Saga) ID() string { return s.Head.ID.String() }

// length returns the length of the final journal.
func (s *Saga) length() int64 { return int64(len(s.Records)) }

// End returns the saga's final status.
func (s *Saga) End() saga.Status { return s.machines[s.length()].Status() }

// body identifies the body of the saga's start, as Op.Body does.
func (s *Saga) body() string {
	var in struct{ N json.Number }
	_ = json.Unmarshal(s.Started.Input, &in)
	return fmt.Sprintf("%s-%s", s.Started.Definition, in.N)
}

// Shown returns the saga as the API shows it while its journal has that length.
func (s *Saga) Shown(seq int64) string { return string(s.views[seq]) }

// shows says how a response differs from the saga at that seq, "" if it does not.
func (s *Saga) shows(seq int64, body string) string {
	switch {
	case seq < 1 || seq > s.length():
		return fmt.Sprintf("shows seq %d of a journal of %d", seq, s.length())
	case body != s.Shown(seq):
		return fmt.Sprintf("at seq %d the journal means\n\t%s\nnot\n\t%s", seq, s.views[seq], body)
	}
	return ""
}

// differs says how records differ from the journal's after that seq, "" if they do not.
func (s *Saga) differs(after int64, records []journal.Record) string {
	for i, r := range records {
		seq := after + int64(i) + 1
		if r.Seq != seq || seq > s.length() || !bytes.Equal(r.Hash, s.Records[seq-1].Hash) {
			return fmt.Sprintf("gives a record %d after seq %d that is not the journal's", r.Seq, seq-1)
		}
	}
	return ""
}

// carriedOut returns the seqs of the records that carry out the command with this mark.
func (s *Saga) carriedOut(mark string) (at []int64) {
	for _, o := range s.commands {
		if o.Reason == mark && o.Rejected == nil {
			at = append(at, o.seq)
		}
	}
	return at
}

// turnedDown returns the seqs of the records that reject the command with this mark
// for that reason; "" is any.
func (s *Saga) turnedDown(mark, code string) (at []int64) {
	for _, o := range s.commands {
		if o.Reason == mark && o.Rejected != nil && (code == "" || problemOf(o.Rejected.Code) == code) {
			at = append(at, o.seq)
		}
	}
	return at
}

// refuses returns the lengths at which the saga would refuse a command for that reason.
func (s *Saga) refuses(o saga.Command, code string) (at []int64) {
	for k := int64(1); k <= s.length(); k++ {
		_, err := s.machines[k].Validate(uuid.Nil, o)
		var no *machine.Refusal
		if errors.As(err, &no) && problemOf(no.Code) == code {
			at = append(at, k)
		}
	}
	return at
}

// undoRefused reports whether the saga has succeeded and cannot be undone later for that reason.
func (s *Saga) undoRefused(code string) bool {
	m := s.machines[s.length()]
	refused := m.PlanUndo(m.At()).Refused
	return m.Status() == saga.Succeeded && len(refused) > 0 && refused[0].Code == code
}

// problemOf returns a refusal's code in the API.
func problemOf(code string) string {
	switch code {
	case "bad_mode", "unknown_command":
		return "command_refused"
	}
	return code
}
