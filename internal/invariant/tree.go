package invariant

import (
	"fmt"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// member is what a saga contributes to the money of the tree of sagas that it belongs to.
type member struct {
	id, parent uuid.UUID
	limited    bool
	limit      retry.Money // the highest budget that it had, if it is limited
	loose      bool        // it had no budget when it started a child
	own        retry.Money // what its steps spent before it was undone, without its children
	spent      retry.Money // what its forward steps spent, with its children
	total      retry.Money // what all its steps and undos spent, with its children
	most       retry.Money // the most that was spent and reserved at a prefix before it was undone, with its children
	tokens     int64       // that its forward steps used, with its children
	ended      bool
	held       map[uuid.UUID]*endowment
	guests     map[string]bool // the keys of sessions that belong to it
}

// endowment is what a parent has reserved for a child, and what it has booked in place of that.
type endowment struct {
	limit  retry.Money
	cost   retry.Money // that the child has reported
	booked retry.Money // the cost, and what is kept for it
	tokens int64       // booked
	used   int64       // the part of tokens that the child has reported as used
	known  bool        // the child has reported
	guest  bool        // the child is a session that belongs to the parent
}

// tree checks the part of invariant 35 about one saga: a saga with a budget starts a child only
// with a part of it, which it reserves, and a child's budget never exceeds that part.
func (c *sagaCheck) tree(t *sagaState) {
	m := &member{id: t.ID, held: make(map[uuid.UUID]*endowment), guests: make(map[string]bool)}
	m.limit, m.limited = t.limit()
	m.ended = t.finished != nil
	c.v.member = m
	started := t.started()
	payer, part := started.Payer()
	m.parent = uuid.FromStringOrNil(payer)
	c.bounded(t.Records[0], part, started.Budget)
	if part != nil && started.Budget == nil {
		c.say(35, 1, "it has no budget, but its parent has reserved a part of its own for it")
	}
	var exempt retry.Money
	a, all, children := newAccount(), newAccount(), make(map[way]uuid.UUID)
	absent := make(map[way]bool) // the attempt has surely not started its child, and reserves nothing now
	for i, r := range t.Records {
		at := way{r.Path, r.Way}
		undoing := t.planAt >= 0 && i >= t.planAt
		switch d := t.data[i].(type) {
		case *saga.CommandData:
			if d.Session != nil && d.Rejected == nil {
				c.guest(m, r, d.Session)
			}
			if r.Kind != journal.Operator || d.Rejected != nil || d.Budget == nil {
				break
			}
			c.bounded(r, part, d.Budget)
			if b := amount(d.Budget.Amount); d.Budget.Amount != "" && (!m.limited || b.Cmp(m.limit) > 0) {
				m.limit, m.limited = b, true
			}
		case *saga.IntentData:
			if d.Request == nil || d.Request.Child == nil || r.Attempt == 0 {
				break
			}
			again := children[at]
			if absent[at] {
				again = uuid.Nil
			}
			children[at], absent[at] = uuid.FromStringOrNil(d.Request.Child.Saga), false
			if r.Way == journal.Do {
				c.endow(m, r, d, again)
			}
		case *saga.OutcomeData:
			cost := amount(d.Cost)
			absent[at] = r.Class == journal.Transient && d.Cost != "" && cost.IsZero()
			if r.Way == journal.Do {
				m.spent = m.spent.Add(cost)
				if d.Tokens != nil {
					m.tokens += d.Tokens.Input + d.Tokens.Output
				}
			}
			if e := m.held[children[at]]; e != nil {
				c.report(e, r, d)
			} else if !undoing && children[at].IsNil() && !isOwn(r.Path) {
				m.own = m.own.Add(cost)
			}
		}
		all.take(r, t.data[i])
		if undoing {
			continue
		}
		exempt = exempt.Add(a.beyond(r, t.data[i])) // as that of a child which undid what it had done
		a.take(r, t.data[i])
		if used := a.spent.Add(a.reserved).Sub(exempt); used.Cmp(m.most) > 0 {
			m.most = used
		}
	}
	m.total = all.spent
}

// guest checks and notes what a saga reserves for a session that belongs to it, or books for it.
func (c *sagaCheck) guest(m *member, r journal.Record, s *saga.SessionPart) {
	id := uuid.FromStringOrNil(s.ID)
	e := m.held[id]
	if s.Cost == nil {
		if m.guests[s.Key] {
			c.say(35, r.Seq, "it reserves twice for the session with the key %q", s.Key)
		}
		m.guests[s.Key] = true
	}
	switch {
	case s.Cost != nil && e != nil:
		if e.known {
			c.say(35, r.Seq, "session %s has reported its cost twice", id)
		}
		e.cost, e.known = amount(s.Cost.Spent), true
		e.booked = e.cost.Add(amount(s.Cost.Reserved))
		used := s.Cost.Tokens.Input + s.Cost.Tokens.Output
		e.tokens = used + s.Cost.Tokens.Reserved
		m.spent, m.tokens = m.spent.Add(e.cost), m.tokens+used
	case s.Cost != nil:
	case !m.limited:
		m.loose = true
	case s.Part == nil || s.Part.Amount == "":
		c.say(35, r.Seq, "it reserves no part of its budget for session %s", id)
	default:
		m.held[id] = &endowment{limit: amount(s.Part.Amount), guest: true}
	}
}

// report notes what an outcome says of a child's cost. What the parent has booked before stays if
// the outcome says nothing.
func (c *sagaCheck) report(e *endowment, r journal.Record, d *saga.OutcomeData) {
	if d.Cost == "" {
		if r.Class == journal.Succeeded && !d.Stubbed {
			c.say(35, r.Seq, "it does not say what its child has cost")
		}
		return
	}
	e.cost = e.cost.Add(amount(d.Cost))
	e.booked = e.cost.Add(amount(d.Kept))
	if d.Tokens != nil {
		e.used += d.Tokens.Input + d.Tokens.Output
		e.tokens = e.used + d.Tokens.Reserved
	}
	e.known = e.known || r.Class != journal.Transient
}

// bounded checks that a budget which a child gets is within the part that its parent has reserved.
func (c *sagaCheck) bounded(r journal.Record, part, b *saga.BudgetData) {
	if part == nil || b == nil {
		return
	}
	if part.Amount != "" && amount(b.Amount).Cmp(amount(part.Amount)) > 0 {
		c.say(35, r.Seq, "its budget is %s, but its parent has reserved %s for it", b.Amount, part.Amount)
	}
	if part.Tokens > 0 && b.Tokens > part.Tokens {
		c.say(35, r.Seq, "its budget is %d tokens, but its parent has reserved %d for it", b.Tokens, part.Tokens)
	}
}

// endow checks and notes the intent to start a child. again is the child of the step's last intent,
// unless that intent surely has not started it.
func (c *sagaCheck) endow(m *member, r journal.Record, d *saga.IntentData, again uuid.UUID) {
	child, b := uuid.FromStringOrNil(d.Request.Child.Saga), d.Request.Child.Budget
	switch {
	case !m.limited, again == child && m.held[child] == nil: // it got no budget when it was first asked for
		m.loose = true
		return
	case again == child: // what is reserved for it stays
		return
	case b == nil || b.Amount == "":
		c.say(35, r.Seq, "it starts saga %s without a part of its budget", child)
		return
	}
	e := &endowment{limit: amount(b.Amount)}
	if got := amount(d.Reserve); got.Cmp(e.limit) != 0 {
		c.say(35, r.Seq, "it reserves %s for saga %s, whose budget is %s", got.Decimal(), child, b.Amount)
	}
	m.held[child] = e
}

// eachTree checks the part of invariant 35 about all sagas together: no child uses more than its
// parent has reserved for it, or has booked for it after its report, and the steps of a tree spend
// no more than the budget of its root.
func (c *Checker) eachTree() {
	root := func(m *member) *member {
		for c.members[m.parent] != nil {
			m = c.members[m.parent]
		}
		return m
	}
	spent, loose := make(map[uuid.UUID]retry.Money), make(map[uuid.UUID]bool)
	for _, m := range c.members {
		top := root(m).id
		spent[top] = spent[top].Add(m.own)
		loose[top] = loose[top] || m.loose
		p := c.members[m.parent]
		if p == nil || p.held[m.id] == nil {
			continue
		}
		e := p.held[m.id]
		if m.most.Cmp(e.limit) > 0 {
			c.found = append(c.found, Violation{N: 35, Saga: m.id, Text: "it has spent and reserved " + m.most.Decimal() + ", but its parent has reserved " + e.limit.Decimal() + " for it"})
		}
		if e.cost.Cmp(m.total) > 0 && !c.cfg.Clock.IsZero() {
			c.found = append(c.found, Violation{N: 35, Saga: m.id, Text: "it has spent " + m.total.Decimal() + " in all, but its parent has booked " + e.cost.Decimal() + " as its cost"})
		}
		if e.guest && m.ended && !p.ended && !e.known && !c.cfg.Clock.IsZero() {
			c.found = append(c.found, Violation{N: 35, Saga: m.id, Text: "it has ended, but its parent, saga " + p.id.String() + ", has not booked its cost"})
		}
		if e.known && m.tokens > e.tokens && !c.cfg.Clock.IsZero() {
			c.found = append(c.found, Violation{N: 35, Saga: m.id, Text: fmt.Sprintf("it has used %d tokens, but its parent has booked %d for it", m.tokens, e.tokens)})
		}
		if e.known && m.spent.Cmp(e.booked) > 0 && !c.cfg.Clock.IsZero() {
			c.found = append(c.found, Violation{N: 35, Saga: m.id, Text: "it has spent " + m.spent.Decimal() + ", but its parent has booked " + e.booked.Decimal() + " for it"})
		}
	}
	for id, sum := range spent {
		if m := c.members[id]; m.limited && !loose[id] && sum.Cmp(m.limit) > 0 {
			c.found = append(c.found, Violation{N: 35, Saga: id, Text: "it and its children have spent " + sum.Decimal() + " of " + m.limit.Decimal()})
		}
	}
}
