package machine

import (
	"encoding/json"
	"strings"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
)

// OwnView is an own step as its agent sees it.
type OwnView struct {
	ID       string          `json:"id"`
	Path     string          `json:"path"`
	Status   CallStatus      `json:"status"`
	Attempt  int             `json:"attempt"` // the last one
	Key      string          `json:"key"`     // the same for all attempts
	Effect   saga.OwnEffect  `json:"effect"`
	Input    json.RawMessage `json:"input"`
	Output   json.RawMessage `json:"output,omitempty"`
	Error    *saga.Failure   `json:"error,omitempty"`
	Cost     string          `json:"cost"`
	WaitsFor string          `json:"waits_for,omitempty"` // doubt
	Inbox    string          `json:"inbox,omitempty"`     // the id of the entry that a person decides
	Undo     CallUndo        `json:"undo"`
	Unread   bool            `json:"unread,omitempty"` // as of a call
}

// OwnSteps returns the own steps of a session, in the order in which they were begun. log has the
// records that were applied to the machine.
func OwnSteps(m *Machine, log *history.Steps) []OwnView {
	if m.session == nil {
		return nil
	}
	entries := m.Inbox()
	list := make([]OwnView, 0, len(m.session.owns))
	for _, n := range m.session.owns {
		list = append(list, m.ownView(n, log, entries))
	}
	return list
}

// OwnOf returns one own step as OwnSteps does; ok is false if there is no such step.
func OwnOf(m *Machine, log *history.Steps, id string) (_ OwnView, ok bool) {
	n := m.own(id)
	if n == nil {
		return OwnView{}, false
	}
	return m.ownView(n, log, m.Inbox()), true
}

func (m *Machine) ownView(n *node, log *history.Steps, entries []saga.Entry) OwnView {
	v := OwnView{ID: n.own.id, Path: n.path, Status: m.callStatus(n), Attempt: n.forward.attempts, Key: idempotency.Key(m.effectsOf(n), n.path, journal.Do, 0),
		Effect: n.own.data.Effect, Input: n.forward.actionInput, Cost: "0", Undo: m.callUndo(n)}
	if said := log.Step(n.path); said != nil {
		v.Cost = said.Cost()
	}
	v.WaitsFor, v.Inbox = n.person(entries)
	switch v.Status {
	case CallSucceeded, CallUndone:
		v.Output = n.output
	default:
		v.Error = n.forward.failure
	}
	return v
}

// OwnStatus returns the status of the own step with this path; "" if there is none.
func (m *Machine) OwnStatus(path string) CallStatus {
	if n := m.own(strings.TrimPrefix(path, saga.OwnPrefix)); n != nil {
		return m.callStatus(n)
	}
	return ""
}

// OwnBegun reports whether the journal says how the own step continues that was begun last: its
// intent is recorded, or its end.
func (m *Machine) OwnBegun(id string) bool {
	n := m.own(id)
	return n == nil || !n.own.begun || n.forward.state != ready
}
