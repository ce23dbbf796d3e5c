package machine

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/gofrs/uuid/v5"

	"recourse/retry"
	"recourse/saga"
)

// A session may belong to a saga or to another session, its parent, whose budget then holds for
// both. Before the session exists, the parent reserves a part of its budget for it, as for a child
// saga (see endow), under the key with which the session is started. So a start that is repeated
// finds what was reserved for it, and the session's id. When the session ends, it sends the parent
// what it has cost, and the parent books that in place of the part. In all other respects the two
// go their own ways: an end of the parent, or its undo, does not end the session. If the parent has
// ended first, the part stays reserved in its journal, which never changes again.

// guest is a session that belongs to this saga.
type guest struct {
	id      uuid.UUID
	key     string
	part    *saga.BudgetData
	reserve saga.Usage // what is reserved for it
	settled bool       // it has ended
}

// mostGuests bounds the sessions of one saga, because each stays in memory.
const mostGuests = 1000

// Guest returns what is reserved for the session that is started under a key, and the session's id;
// ok is false if nothing was reserved under this key.
func (m *Machine) Guest(key string) (id uuid.UUID, part *saga.BudgetData, ok bool) {
	g := m.guest(key)
	if g == nil {
		return uuid.Nil, nil, false
	}
	return g.id, g.part, true
}

// guest returns the session for which a part is reserved under a key; nil: there is none.
func (m *Machine) guest(key string) *guest {
	i := slices.IndexFunc(m.guests, func(g *guest) bool { return g.key == key })
	if i < 0 {
		return nil
	}
	return m.guests[i]
}

// guestID returns the id of the session that is started under a key: a UUIDv7 (RFC 9562) of the
// journal's time.
func (m *Machine) guestID(key string) uuid.UUID {
	return idAt(m.at, sha256.Sum256(slices.Concat(m.id[:], []byte("session:"+key))))
}

// reserve validates a Reserve, and completes it.
func (m *Machine) reserve(o saga.Reserve) (saga.Reserve, *Refusal) {
	switch {
	case m.guest(o.Key) != nil:
		return o, refusal("reserved", "a part of the budget is reserved for this session already", "")
	case m.reason != nil || m.forward.over():
		return o, refusal(saga.CodeParentEnded, "the parent is ending, or is being undone", "open the session without `parent`, or with another one")
	case m.paused:
		return o, refusal("paused", "the parent is paused", "open the session when a person has resumed its parent")
	case m.forked != nil && m.forked.effects != saga.RealEffects:
		return o, refusal("fork_holds", "the parent is a fork, which holds effects back: no session was opened", "fork with effects real, or open the session without `parent`")
	case len(m.guests) >= mostGuests:
		return o, refusal("limit", fmt.Sprintf("%d sessions belong to the saga, which is the most", mostGuests), "open the session without `parent`, or with another one")
	}
	part := saga.BudgetData{}
	if o.Part != nil {
		part = *o.Part
	}
	if of := m.account.Budget; of != nil {
		switch {
		case part.Currency != "" && part.Currency != of.Currency, o.Most != nil && o.Most.Currency != "" && o.Most.Currency != of.Currency:
			return o, wrongPart(m.budgetCurrency())
		case part.Amount == "":
			left := m.account.Left()
			if left.IsZero() {
				return o, refusal(codeBudget, "nothing is left of the parent's budget: no session was opened", "a person can raise that budget (PATCH)")
			}
			if o.Most != nil {
				most, err := retry.Total(o.Most.Amount, of.Currency)
				if err != nil {
					return o, wrongPart(err.Error())
				}
				if most.Cmp(left) < 0 {
					left = most
				}
			}
			part.Amount = left.Decimal()
		}
		part.Currency = of.Currency
	} else if part.Amount == "" {
		part.Currency = ""
		if o.Most != nil {
			part.Amount, part.Currency = o.Most.Amount, o.Most.Currency
		}
	}
	if t := &m.tokens; t.budget > 0 && part.Tokens == 0 {
		if part.Tokens = t.left(); part.Tokens <= 0 {
			return o, refusal(codeBudget, "no tokens are left of the parent's budget: no session was opened", "a person can raise that budget (PATCH)")
		}
	}
	if part.Amount != "" {
		if _, err := retry.Total(part.Amount, part.Currency); err != nil {
			return o, wrongPart(err.Error())
		}
	}
	if u := m.reserves(&part); !m.fits(u) {
		return o, refusal(codeBudget, "the parent's budget does not cover the session: none was opened", m.why(u)+". Open it with a lower `budget`, or have a person raise the parent's (PATCH)")
	}
	if o.Part, o.Most = nil, nil; part != (saga.BudgetData{}) {
		o.Part = &part
	}
	o.Session = m.guestID(o.Key).String()
	return o, nil
}

// budgetCurrency says which currency the saga's budget has.
func (m *Machine) budgetCurrency() string {
	if currency := m.account.Budget.Currency; currency != "" {
		return "the parent's budget is in " + currency
	}
	return "the parent's budget has no currency: leave the currency out"
}

// uncounted returns what is reserved for a session and did not count yet, because the saga had no
// budget: a budget like b counts it. A part in another currency never counts; amounts without a
// currency are in that of the budget.
func (m *Machine) uncounted(g *guest, b *saga.BudgetData) (u saga.Usage) {
	if g.settled || g.part == nil {
		return u
	}
	sameCurrency := g.part.Currency == b.Currency || g.part.Currency == "" || b.Currency == ""
	if m.account.Budget == nil && b.Amount != "" && g.part.Amount != "" && sameCurrency {
		u.Cost, _ = retry.Total(g.part.Amount, b.Currency) // reserve has written it
	}
	if m.tokens.budget == 0 && b.Tokens > 0 {
		u.Output = g.part.Tokens
	}
	return u
}

// allUncounted returns what is uncounted of all sessions.
func (m *Machine) allUncounted(b *saga.BudgetData) (u saga.Usage) {
	for _, g := range m.guests {
		u = u.Add(m.uncounted(g, b))
	}
	return u
}

// countGuests reserves what a budget that the saga gets now counts of its sessions.
func (m *Machine) countGuests(b *saga.BudgetData) {
	for _, g := range m.guests {
		u := m.uncounted(g, b)
		g.reserve = g.reserve.Add(u)
		m.account.Reserve(u.Cost)
		m.tokens.reserved += u.Output
	}
}

func wrongPart(why string) *Refusal {
	r := refusal("bad_budget", "the session's budget cannot be reserved", why)
	r.Invalid, r.Findings = true, []saga.Finding{{Pointer: "/budget", Code: "bad_budget", Detail: why}}
	return r
}

// applyReserve applies a Reserve.
func (m *Machine) applyReserve(s *saga.SessionPart) error {
	if s == nil {
		return fmt.Errorf("%w: a reservation for no session", saga.ErrUnreadable)
	}
	id, err := uuid.FromString(s.ID)
	if err != nil {
		return fmt.Errorf("%w: session %q", saga.ErrUnreadable, s.ID)
	}
	g := &guest{id: id, key: s.Key, part: s.Part}
	if g.part != nil {
		g.reserve = m.reserves(g.part)
	}
	m.account.Reserve(g.reserve.Cost)
	m.tokens.reserved += g.reserve.Output
	m.guests = append(m.guests, g)
	return nil
}

// validateSettle accepts the report of a session, once. It may come while the saga is being undone.
func (m *Machine) validateSettle(o saga.Settle) *Refusal {
	if g := m.guest(o.Key); g == nil || g.settled {
		return refusal("settled", "nothing is reserved for session "+o.Session+", or it has reported before", "")
	}
	if _, _, err := moneyOf(o.Cost); err != nil {
		return refusal("bad_cost", "the cost of session "+o.Session+" cannot be read", err.Error())
	}
	return nil
}

// moneyOf returns the amounts of a cost.
func moneyOf(c saga.ChildCost) (spent, kept retry.Money, err error) {
	if spent, err = retry.Total(c.Spent, c.Currency); err == nil && c.Reserved != "" {
		kept, err = retry.Total(c.Reserved, c.Currency)
	}
	return spent, kept, err
}

// applySettle books what a session has cost, and keeps reserved what it may have cost in addition.
func (m *Machine) applySettle(s *saga.SessionPart) error {
	if s == nil || s.Cost == nil || m.guest(s.Key) == nil {
		return fmt.Errorf("%w: a report of no session", saga.ErrUnreadable)
	}
	g := m.guest(s.Key)
	g.settled = true
	tokens := s.Cost.Tokens
	m.tokens.reserved += tokens.Reserved - g.reserve.Output
	m.tokens.input += tokens.Input
	m.tokens.output += tokens.Output
	m.childTokens.Input += tokens.Input
	m.childTokens.Output += tokens.Output
	cost := *s.Cost
	if cost.Currency == "" || !g.reserve.Cost.IsZero() { // amounts without a currency are in this saga's
		cost.Currency = m.currency()
	}
	spent, kept, err := moneyOf(cost)
	if err != nil {
		return fmt.Errorf("%w: the cost of session %s: %w", saga.ErrUnreadable, s.ID, err)
	}
	if cost.Currency == m.currency() { // a saga without amounts in this currency has reserved nothing
		m.account.Settle(g.reserve.Cost, spent, false)
		m.account.Reserve(kept)
		m.children = m.children.Add(spent)
	}
	return nil
}
