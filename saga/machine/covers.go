package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/expr"
)

// An approval may cover steps that come after it in its list. When it is asked, their requests are
// rendered and recorded, and the hash that people approve includes them. When a covered request is
// about to leave for the first time under its key, and differs from the recorded one, the approval
// is stale. The machine then writes another intent of the approval, which shows the requests as
// they are now, and the list goes back to the approval. If it is approved, the list goes on from
// the step whose request has waited; the steps between them do not run again. If it is rejected,
// the approval fails as it would have the first time.
//
// A covered request reads nothing that becomes known after the approval (see the check in
// saga/dsl). It can differ because it reads saga.labels, spent, reserved or status, which may
// change at any time, or because a person has given it a new idempotency key. A request that was
// sent under its key is never held back, because another attempt is the same request.
//
// Compensations are shown with placeholders for what only the step's end gives. They are not
// compared: an undo waits for nobody.

// maxCovers is the most bytes of JSON of the requests that one approval shows.
const maxCovers = 64 << 10

// ask returns the data of the record by which an approval, or another wait, is asked.
func (m *Machine) ask(n *node, body saga.Await, env *env, stale *saga.Stale) (saga.IntentData, error) {
	a, err := body.Await(env)
	if err != nil {
		return saga.IntentData{}, err
	}
	if a.Approval != nil {
		if err := m.show(n, a.Approval); err != nil {
			return saga.IntentData{}, err
		}
		a.Approval.Stale = stale
		a.Approval.ShownHash = a.Approval.Hash(m.started.SHA256)
	}
	d := saga.IntentData{Awaited: &a}
	if n.step.Timeout > 0 {
		d.WakeAt, d.Latest = &saga.Time{Time: m.from().Add(n.step.Timeout)}, m.recorded(true)
	}
	return d, nil
}

// show adds the requests of the steps that an approval covers, except for steps that have ended.
func (m *Machine) show(n *node, a *saga.ApprovalData) error {
	for _, id := range n.step.Covers {
		if c := m.ahead(n, id); !c.passed {
			a.Covers = append(a.Covers, m.cover(n, c))
		}
	}
	if size := len(saga.Encode(a.Covers)); size > maxCovers {
		return &saga.Failure{Code: "too_much_to_show", Title: "the approval cannot be asked for",
			Detail: fmt.Sprintf("the requests of the steps that it covers are %d bytes of JSON, more than the %d that one person can be asked about: cover fewer steps, or send less", size, maxCovers)}
	}
	return nil
}

// ahead returns a step that comes after n in its list.
func (m *Machine) ahead(n *node, id string) *node {
	path := n.in.prefix + id
	if c := m.steps[path]; c != nil {
		return c
	}
	return m.next(n.in, m.def.ByID[id])
}

// cover renders a step that the approval n covers, as it would run now.
func (m *Machine) cover(n, c *node) saga.Covered {
	s := saga.Covered{Path: c.path, Kind: c.step.Kind, Use: c.step.Use.String()}
	if (c.first == 0 || c.redo) && c.step.When != nil {
		env := m.env(c)
		env.before = n
		yes, err := c.step.When.Bool(env)
		switch {
		case errors.Is(err, expr.ErrUnknown):
			s.If = strings.TrimSpace(c.step.When.Source())
		case err != nil:
			s.Note = failing(expressionFailure("when", err))
			return s
		case !yes:
			s.Skipped = true
			return s
		}
	}
	request, key, _, err := m.render(c, c.forward.generation, journal.Do)
	if err != nil {
		s.Note = failing(asFailure("request", err))
		return s
	}
	s.Request, s.Key, s.Hash = request.Childless(), key, request.SendHash(key)
	s.Undo = m.coverUndo(n, c, key)
	return s
}

// coverUndo renders the compensation of a step that the approval n covers and that has this key.
func (m *Machine) coverUndo(n, c *node, forward string) *saga.CoveredUndo {
	undo := c.step.Compensate
	if undo == nil {
		return nil
	}
	env := m.env(c)
	env.before, env.key, env.output, env.hasOutput = n, forward, placeholder(c.path), true
	u := saga.CoveredUndo{Kind: undo.Kind}
	if undo.When != nil {
		u.If = strings.TrimSpace(undo.When.Source())
	}
	request, key, _, err := m.renderIn(env, c, c.compensation.generation, journal.Undo)
	if err != nil {
		u.Note = failing(asFailure("compensate", err))
	} else {
		u.Request, u.Key = request.Childless(), key
	}
	var shown saga.CoveredUndo
	if err := json.Unmarshal(expr.ShowPlaceholders(saga.Encode(u)), &shown); err != nil {
		return &saga.CoveredUndo{Kind: undo.Kind, Note: "it cannot be shown"}
	}
	return &shown
}

// known reports whether templates that are evaluated before the approval n is decided can read the
// result of a step that they may name.
func (n *node) known(m *Machine, id string) bool {
	at := slices.Index(n.in.steps, n.step)
	for _, s := range n.in.steps[at:] {
		if !holds(s, id) {
			continue
		}
		other := m.steps[n.in.prefix+s.ID]
		return other != nil && other != n && other.passed
	}
	return true
}

// holds reports whether a step, or a step inside it, has an id.
func holds(s *saga.Step, id string) bool {
	if s.ID == id {
		return true
	}
	if b, ok := s.Body.(saga.Block); ok {
		for _, list := range b.Lists() {
			if slices.ContainsFunc(list, func(in *saga.Step) bool { return holds(in, id) }) {
				return true
			}
		}
	}
	return false
}

// askAgain asks an approval again that covers the request of n which is about to leave, if the
// request differs from what was shown. nil means that it may leave.
func (m *Machine) askAgain(n *node, request *saga.Request, key string) []Decision {
	if m.outline != nil {
		return nil // values differ because they are placeholders
	}
	for _, id := range n.step.CoveredBy {
		a := m.steps[n.in.prefix+id]
		if a == nil || a.forward.state != done {
			continue // nobody was asked, or a person has skipped it
		}
		detail := a.changed(n, request, key)
		if detail == "" {
			continue
		}
		d, err := m.ask(a, a.step.Body.(saga.Await), m.env(a), &saga.Stale{Step: n.path, Detail: detail})
		if err != nil {
			return m.refuse(n, asFailure(a.step.Kind, err))
		}
		return []Decision{Write{Record: Draft{Kind: journal.Intent, Path: a.path, Way: journal.Do, Data: d}}}
	}
	return nil
}

// changed returns how the request of a step differs from the one that the approval has shown, ""
// if it does not.
func (n *node) changed(c *node, request *saga.Request, key string) string {
	var shown *saga.Covered
	if n.awaited != nil && n.awaited.Approval != nil {
		for i := range n.awaited.Approval.Covers {
			if s := &n.awaited.Approval.Covers[i]; s.Path == c.path {
				shown = s
			}
		}
	}
	switch {
	case shown == nil || shown.Request == nil:
		return "no request of it was shown"
	case shown.Hash == request.SendHash(key):
		return ""
	case shown.Key != key:
		return "it has another idempotency key"
	}
	at, _ := saga.Difference(decodedRequest(shown.Request), decodedRequest(request.Childless()))
	return "it differs at " + at
}

func decodedRequest(r *saga.Request) any {
	v, _ := expr.Decode(saga.Encode(r)) // Encode writes valid JSON
	return v
}

// reopen applies the record by which an approval is asked again: its list goes back to it.
func (m *Machine) reopen(n *node) error {
	g := n.in
	if len(n.step.Covers) == 0 || g.cur == nil || g.cur == n || g.waiting != nil {
		return fmt.Errorf("%w: step %q is not asked again", ErrImpossible, n.path)
	}
	g.waiting, g.cur, g.next = g.cur, n, slices.Index(g.steps, n.step)
	n.passed, n.output, n.forward.failure, n.forward.class = false, nil, nil, ""
	n.taken = nil // if another saga's outcome was taken over, the next one is this saga's
	delete(m.taken, n.path)
	return nil
}

// resumeWaiting continues with the step that has waited until an approval was decided again. It
// returns false if there is none.
func (g *group) resumeWaiting() bool {
	if g.waiting == nil {
		return false
	}
	g.cur, g.next, g.waiting = g.waiting, slices.Index(g.steps, g.waiting.step), nil
	return true
}

// leaveWaiting gives up the step that has waited until an approval was decided again.
func (m *Machine) leaveWaiting(g *group) {
	n := g.waiting
	if n == nil {
		return
	}
	g.waiting = nil
	delete(m.due, n.path)
	n.passed, n.abandoned = true, true
	if n.first != 0 {
		m.giveUp(n)
	}
}
