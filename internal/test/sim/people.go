package sim

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/machine"
)

// interfere sends one saga a command.
func (s *sim) interfere(o Command) {
	found, err := s.store.Sagas(ctx, journal.Filter{Limit: 100})
	if err != nil {
		panic(err)
	}
	if len(found.Heads) > 0 {
		s.send(found.Heads[o.Saga%len(found.Heads)].ID, o.Command)
	}
}

// send sends a command to a saga, unless the saga was deleted since the person looked at it.
func (s *sim) send(id uuid.UUID, c saga.Command) {
	data, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	if err := s.store.Send(ctx, journal.Message{ID: s.id(), Saga: id, Kind: saga.CommandMessage, Data: data}); err != nil && !errors.Is(err, journal.ErrNotFound) {
		panic(err)
	}
}

// person is someone with an API key.
type person struct{ name, role string }

// client starts the sagas.
var client = person{"client", "ops"}

// staff may decide most approvals.
var staff = []person{{"ann", "ops"}, {"bob", "ops"}}

// may reports whether a person may decide an approval of a saga.
func (p person) may(a *saga.ApprovalData, starter string) bool {
	return !(a.FourEyes && p.name == starter) && (len(a.Approvers) == 0 || slices.Contains(a.Approvers, p.name) || slices.Contains(a.Approvers, p.role))
}

// everyone returns all persons.
func everyone() []person {
	return append([]person{client, {"eve", "guest"}, {"mallory", "guest"}}, staff...)
}

// gather makes people decide approvals, and compare calls, and others send signals, at random
// times.
func (s *sim) gather() {
	s.after(s.aside.between(400*time.Millisecond, 2*time.Second), func() {
		defer s.gather()
		if !s.healed && s.aside.IntN(3) == 0 {
			s.signalSome()
			return
		}
		var inbox []journal.Entry
		for _, kind := range []string{saga.InboxApproval, saga.InboxRepeat} {
			found, err := s.store.Inbox(ctx, journal.InboxFilter{Kind: kind, Limit: 100})
			if err != nil {
				panic(err)
			}
			inbox = append(inbox, found...)
		}
		if len(inbox) == 0 {
			return
		}
		if in := inbox[s.aside.IntN(len(inbox))]; in.Kind == saga.InboxRepeat {
			s.compare(in)
		} else {
			s.decide(in)
		}
	})
}

// decide makes a person approve or reject, allowed or not.
func (s *sim) decide(in journal.Entry) {
	who, c := staff[s.aside.IntN(len(staff))], decision(in)
	shown, rejects := c.Do.(saga.Approve).Shown, !s.healed && s.aside.IntN(4) == 0
	if s.fault(WrongHash, in.Path) {
		shown = strings.Repeat("0", 64)
	}
	c.Do = decide(shown, rejects)
	if s.fault(NotAllowed, in.Path) {
		who = everyone()[s.aside.IntN(3)]
	}
	c.Actor, c.Role = who.name, who.role
	var delay time.Duration
	if s.fault(DecidedLate, in.Path) {
		delay = s.aside.between(time.Second, 15*time.Second)
	}
	m := s.message(in.Saga, c)
	s.after(delay, func() { s.deliver(m) })
	if s.fault(Relabelled, in.Path) {
		s.n++
		labels := s.message(in.Saga, saga.Command{Do: saga.Patch{Labels: map[string]string{"team": strconv.Itoa(s.n)}}})
		s.after(s.aside.between(0, 4*time.Second), func() { s.deliver(labels) })
	}
	if s.fault(DecidedTwice, in.Path) {
		s.after(delay+s.aside.between(0, 2*time.Second), func() { s.deliver(m) })
	}
	if s.fault(DecidedBoth, in.Path) {
		c.Do, c.Actor, c.Role = decide(shown, !rejects), "bob", "ops"
		both := s.message(in.Saga, c)
		s.after(delay, func() { s.deliver(both) })
	}
}

func decide(shown string, rejects bool) saga.Operation {
	if rejects {
		return saga.Reject{Shown: shown}
	}
	return saga.Approve{Shown: shown}
}

// decision returns the command that approves the request that an entry shows.
func decision(in journal.Entry) saga.Command {
	var e saga.Entry
	if err := json.Unmarshal(in.Data, &e); err != nil {
		panic(err)
	}
	return saga.Command{Do: saga.Approve{Shown: e.ShownHash}, Path: in.Path, Actor: "ann", Role: "ops", Reason: "looked"}
}

// signalSome sends a saga a signal that one of its steps waits for, has waited for, or will wait
// for.
func (s *sim) signalSome() {
	var some []journal.Head
	for _, h := range s.heads() {
		if h.EndedAt.IsZero() && len(s.defs[h.Definition].Signals()) > 0 {
			some = append(some, h)
		}
	}
	if len(some) == 0 {
		return
	}
	h := some[s.aside.IntN(len(some))]
	s.signal(h)
}

func (s *sim) signal(h journal.Head) {
	var delay time.Duration
	if s.fault(SignalLate, h.Definition) {
		delay = s.aside.between(time.Second, 15*time.Second)
	}
	s.n++
	m := s.message(h.ID, saga.Command{Do: saga.Signal{Name: s.defs[h.Definition].Signals()[0], Data: json.RawMessage(`{"n":` + strconv.Itoa(s.n) + `}`)}, Actor: "partner"})
	s.after(delay, func() { s.deliver(m) })
	if s.fault(SignalTwice, h.Definition) {
		s.after(delay+s.aside.between(0, 5*time.Second), func() { s.deliver(m) })
	}
}

func (s *sim) message(id uuid.UUID, c saga.Command) journal.Message {
	data, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return journal.Message{ID: s.aside.id(s.now), Saga: id, Kind: saga.CommandMessage, Data: data}
}

func (s *sim) deliver(m journal.Message) {
	// The saga may have been deleted in the meantime.
	if err := s.store.Send(ctx, m); err != nil && !errors.Is(err, journal.ErrNotFound) {
		panic(err)
	}
}

// people empty the inbox, every minute, after a check at the remote service. By then, no older
// request is still on its way there.
func (s *sim) people() {
	s.after(time.Minute, func() {
		found, err := s.store.Sagas(ctx, journal.Filter{Limit: 1000})
		if err != nil {
			panic(err)
		}
		for _, h := range found.Heads {
			if h.EndedAt.IsZero() {
				s.help(h)
			}
		}
		s.people()
	})
}

func (s *sim) help(h journal.Head) {
	if len(s.defs[h.Definition].Signals()) > 0 {
		s.signal(h)
	}
	if h.Status == string(saga.PausedStatus) {
		s.send(h.ID, saga.Command{Do: saga.Resume{}})
		return
	}
	inbox, err := s.store.Inbox(ctx, journal.InboxFilter{Saga: h.ID, Limit: 10})
	if err != nil {
		panic(err)
	}
	for _, in := range inbox {
		var e saga.Entry
		if err := json.Unmarshal(in.Data, &e); err != nil {
			panic(err)
		}
		resolve := func(outcome string, output json.RawMessage) saga.Command {
			return saga.Command{Do: saga.Resolve{Outcome: outcome, Output: output}, Path: in.Path, Reason: "looked"}
		}
		c := resolve("retry", nil)
		switch in.Kind {
		case saga.InboxInDoubt:
			id, live := s.world.did(e.Key)
			switch {
			case live:
				c = resolve("succeeded", json.RawMessage(`{"id":"`+id+`"}`))
			case s.childAt(h.ID, in.Path) != nil: // the child exists, and reports its result when it is asked again
				if s.aside.IntN(3) == 0 {
					c = resolve("succeeded", json.RawMessage(`{"id":"e0"}`))
				}
			default:
				c = resolve("failed", nil)
			}
		case saga.InboxStuck:
			if in.Path == "" { // a saga in quarantine
				c = saga.Command{Do: saga.Resume{}}
			} else if e.Way == journal.Do {
				// The budget may be the cause.
				s.send(h.ID, s.raise(h.ID, "1.00"))
				c = saga.Command{Do: saga.Retry{NewKey: true}, Reason: "fixed"}
			} else {
				c = resolve("compensated", nil)
				if !slices.Contains(e.Actions, "retry") { // an own step that only a person undoes
					s.world.undoByHand(idempotency.Key(s.takenFrom(h.ID, in.Path), in.Path, journal.Do, 0))
				} else if s.liveForward(h.ID, in.Path) {
					c = resolve("retry", nil)
				}
			}
		case saga.InboxExhausted:
			c = s.unhold(e, in)
		case saga.InboxApproval:
			c = decision(in)
		case saga.InboxRepeat:
			s.judge(in, s.verdict(), 0)
			continue
		case saga.InboxSession:
			c = saga.Command{Do: saga.Cancel{}, Reason: "its agent is gone"}
		case saga.InboxBudget:
			c = s.raise(h.ID, "1.00")
		}
		s.send(h.ID, c)
	}
}

// raise returns the command that raises a saga's budget to so many USD more than it has used. If
// its parent has reserved less for it, people try that only sometimes.
func (s *sim) raise(id uuid.UUID, by string) saga.Command {
	records := s.records(id)
	var d saga.StartedData
	mustRead(records[0], &d)
	more, err := retry.Amount(by, "USD")
	if err != nil {
		panic(err)
	}
	if m, err := machine.Replay(s.defs[d.Definition], id, records); err == nil {
		cost := m.Cost()
		for _, used := range []string{cost.Spent, cost.Reserved} {
			amount, err := retry.Total(used, "USD")
			if err != nil {
				panic(err)
			}
			more = more.Add(amount)
		}
	}
	b := &saga.BudgetData{Amount: more.Decimal(), Currency: "USD"}
	if _, part := d.Payer(); s.aside.IntN(4) > 0 && part != nil {
		b = part
	}
	return saga.Command{Do: saga.Patch{Budget: b}}
}

// unhold returns what a person does about a step that is held.
func (s *sim) unhold(e saga.Entry, in journal.Entry) saga.Command {
	s.send(in.Saga, s.raise(in.Saga, "1.00"))
	doubt := slices.Contains(e.Actions, "compensated")
	id, live := s.world.did(e.Key)
	switch n := s.aside.IntN(6); {
	case n == 0 && live:
		return saga.Command{Do: saga.Resolve{Outcome: "succeeded", Output: json.RawMessage(`{"id":"` + id + `"}`)}, Path: in.Path, Reason: "looked"}
	case n == 0:
		return saga.Command{Do: saga.Resolve{Outcome: "failed"}, Path: in.Path, Reason: "looked"}
	case n <= 2:
		return saga.Command{Do: saga.Retry{NewKey: !doubt}, Path: in.Path, Reason: "fixed"}
	}
	return saga.Command{Do: saga.Resume{}, Reason: "the cooldown is over"}
}
