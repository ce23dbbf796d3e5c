package machine

import (
	"strconv"

	"github.com/gofrs/uuid/v5"

	"recourse/compensation"
	"recourse/journal"
	"recourse/saga"
)

// escalate returns the decision to ask a person.
func (m *Machine) escalate(n *node, s *track, way journal.Way) []Decision {
	e := m.entry(n, s, way)
	switch s.state {
	case awaitingResolution:
		e.Kind = saga.InboxInDoubt
		e.Title = "It is unknown whether step " + n.path + " has happened"
		e.Detail = "Look up its key in the remote service, then resolve the step: succeeded (with its output), failed, or retry to send the same request with the same key again."
		e.Actions = []string{"succeeded", "failed", "retry", "skip", "compensated"}
	case awaitingCredentials:
		e.Kind = saga.InboxHeld
		e.Title = "The remote service rejects the credentials of step " + n.path
		e.Detail = "Fix the credentials, then resolve the step with retry."
		if f := s.failure; f != nil && f.Code == saga.CodeSecretMissing {
			e.Title = "A secret of step " + n.path + " is missing or cannot be used: nothing was sent"
			e.Detail = "Provide the secret on the server, then resolve the step with retry."
		} else if f != nil && f.Code == saga.CodeServerMissing {
			e.Title = "The MCP server of step " + n.path + " is not configured: nothing was sent"
			e.Detail = "Put it back under `mcp` in the file of --config, then resolve the step with retry."
		}
		e.Actions = []string{"retry", "succeeded", "failed", "skip"}
		if s.doubt {
			e.Detail += " An earlier attempt may have had an effect: check in the remote service before you resolve it as anything else."
			e.Actions = append(e.Actions, "compensated")
		}
	case exhausted:
		e.Kind = saga.InboxExhausted
		e.Title = "Step " + n.path + " is on hold: " + m.usedUp(n)
		e.Detail = "Nothing is undone. Resume the saga to try the step again, with the same key; or resolve it: retry, succeeded (with its output), skip, or failed, which fails the step."
		e.Actions = []string{"retry", "succeeded", "failed", "skip"}
		if s.doubt {
			e.Detail += " An earlier attempt may have had an effect: check in the remote service before you resolve it as anything else than retry."
			e.Actions = append(e.Actions, "compensated")
		}
		if !s.retryAt.IsZero() {
			e.Detail += " It tries again by itself at " + s.retryAt.UTC().Format(journal.TimeFormat) + "."
			e.ExpiresAt = &saga.Time{Time: s.retryAt}
		}
	default:
		e.Kind = saga.InboxStuck
		e.Title = "Step " + n.path + " has failed after the pivot, so the saga cannot be undone"
		e.Detail = "Fix the cause and retry; or resolve it as succeeded (with its output), skip it, or fail the saga and leave its effects."
		e.Actions = []string{"retry", "succeeded", "failed", "skip"}
	}
	if n.own != nil && way == journal.Do {
		e.Detail = "Find out whether the agent has done it, then resolve the step: succeeded (with its output), failed, or retry, which lets the agent do it again."
	}
	if n.block != nil { // its steps have run, so it cannot begin again
		e.Actions = []string{"succeeded", "failed", "skip"}
	}
	if way == journal.Undo {
		e.Actions = []string{"retry", "compensated", "skip"}
		if s.state != awaitingCredentials {
			e.Title = "Undoing step " + n.path + " was refused"
			e.Detail = "Fix the cause and retry; or undo it by hand and resolve it as compensated; or skip it, which leaves its effect and ends the saga as failed."
			if s.doubt {
				e.Title = "It is unknown whether undoing step " + n.path + " has happened"
				e.Detail = "Find out in the remote service. If it is undone, or once you have undone it by hand, resolve it as compensated; or retry, which sends the undo again; or skip it, which leaves that unknown and ends the saga as failed."
			}
		}
		if n.byHand() {
			e.Actions = e.Actions[1:] // there is nothing to retry
			e.Title = "Step " + n.path + " has to be undone by hand"
			e.Detail = "The agent did it itself, and has not said how to undo it. Undo it and resolve it as compensated; or skip it, which leaves its effect and ends the session as failed."
		}
	}
	if s.failure != nil {
		e.Detail = "Last: " + s.failure.Error() + ". " + e.Detail
	}
	return []Decision{Escalate{e}}
}

// usedUp says why a step is held.
func (m *Machine) usedUp(n *node) string {
	if f := n.forward.failure; f != nil {
		switch {
		case f.Code == codeBudget:
			return "the budget does not cover it; raise it, then resume"
		case f.Code == codeDeadline:
			return "its deadline has passed"
		case n.forward.class == journal.Refused:
			return "its request was refused"
		}
	}
	return "its attempts are used up"
}

func (m *Machine) escalateBudget(n *node, f *saga.Failure) []Decision {
	e := m.entry(n, &n.forward, journal.Do)
	e.Kind, e.Title, e.Detail = saga.InboxBudget, f.Title, f.Detail+". Raise the budget of the saga (PATCH), or cancel it."
	e.Actions = []string{"raise", "cancel"}
	return []Decision{Escalate{e}}
}

func (m *Machine) entry(n *node, s *track, way journal.Way) saga.Entry {
	since, at := s.since, s.sinceAt
	if since == 0 {
		since, at = m.seq, m.at
	}
	e := saga.Entry{
		ID:   uuid.NewV5(m.id, "inbox:"+n.path+":"+string(way)+":"+strconv.FormatInt(since, 10)),
		Path: n.path, Way: way, Since: at,
		Request: s.request, Key: s.key, ETag: strconv.FormatInt(m.seq, 10),
	}
	if !s.sentAt.IsZero() {
		e.SentAt = &saga.Time{Time: s.sentAt}
	}
	return e
}

// Inbox lists the items that need a person now.
func (m *Machine) Inbox() []saga.Entry {
	var list []saga.Entry
	for _, d := range m.decide() {
		if h, ok := d.(Escalate); ok {
			list = append(list, h.Entry)
		}
	}
	return list
}

// residue says what remains of a step whose undo a person skips.
func residue(n *node, reason string) compensation.Residue {
	why := "its undoing was skipped by an operator: " + reason
	if n.compensation.doubt {
		return compensation.Left([]compensation.Effect{{Path: n.path, Kept: why, UndoInDoubt: true}})[0]
	}
	return compensation.Residue{Path: n.path, Why: why}
}
