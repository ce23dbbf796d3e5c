package invariant

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/expr"
)

// called is a call of a session.
type called struct {
	record journal.Record
	data   *saga.CalledData
}

// lives checks invariant 24: each life follows the one before, and no call belongs to an earlier
// life. A process whose lease was lost gets its own life again.
func (c *sagaCheck) lives(t *sagaState) {
	life, token, live := t.forkOf.lastLife(), "", false
	begun := make(map[string]int) // the life that has begun the last attempt of an own step
	for i, r := range t.Records {
		switch d := t.data[i].(type) {
		case *saga.AttachedData:
			switch {
			case d.Life == life && d.Token == token && !live:
			case d.Life != life+1 || d.Token == token:
				c.say(24, r.Seq, "record %d begins life %d after life %d", r.Seq, d.Life, life)
			}
			life, token, live = d.Life, d.Token, true
		case *saga.WokeData:
			if d.Timer == saga.TimerLease || d.Timer == saga.TimerDetach {
				live = false
			}
		case *saga.OutcomeData:
			if of := begun[r.Path]; of != 0 && r.Way == journal.Do && r.Attempt > 0 && (of != life || !live) && (d.Error == nil || d.Error.Code != saga.Interrupted) {
				c.say(24, r.Seq, "record %d finishes an attempt of life %d, which has ended", r.Seq, of)
			}
		case *saga.CalledData:
			if d.What == saga.OwnStep {
				begun[r.Path] = d.Life
			}
			switch {
			case d.Life != life:
				c.say(24, r.Seq, "record %d is a call of life %d, but life %d is the last one", r.Seq, d.Life, life)
			case !live:
				c.say(24, r.Seq, "record %d is a call of life %d, whose lease has ended", r.Seq, d.Life)
			}
		}
	}
}

// callState is how far a call of a session has come at some record.
type callState struct {
	data *saga.CalledData

	inFlight bool // of an own step: an attempt
	ended    bool // its forward work
	happened bool // it succeeded
	doubt    bool // it may have had an effect that is not settled
	checked  bool // the last status check was conclusive

	undoing, undone bool
	approved        bool
	of              *callState // the earlier call that it may repeat; nil: none
	same, new       bool       // a person has said that it is the same effect, or another one
	shown           string     // the hash of the request that a person was asked to approve
}

// open reports whether the call, or its undo, is in progress.
func (s *callState) open() bool { return !s.ended || s.undoing }

// noEffect reports whether the call has failed and certainly has no effect.
func (s *callState) noEffect() bool { return s.ended && !s.happened && !s.doubt && !s.undone }

// apply applies a record of the call, or of its status check.
func (s *callState) apply(r journal.Record, data any, query bool) {
	d, _ := data.(*saga.OutcomeData)
	switch {
	case query:
		s.checked = d != nil && d.Next == saga.NextConclusive
	case r.Kind == journal.Operator:
		s.command(r, data.(*saga.CommandData))
	case r.Way == journal.Undo:
		s.undo(r, data)
	case r.Kind == journal.Intent:
		s.ended, s.inFlight = false, true
	case r.Kind == journal.Skipped:
		s.ended = true
	case d != nil:
		s.inFlight = false
		s.end(d.Next)
		s.doubt = r.Class == journal.InDoubt || s.doubt && d.Next != saga.NextDone && d.Next != saga.NextFail
	default:
		if d, ok := data.(*saga.DecidedData); ok {
			s.end(d.Next)
			s.doubt = s.doubt && d.Next != saga.NextDone && !(d.By == string(saga.VerifyIt) && s.checked)
		}
	}
}

func (s *callState) end(next saga.Next) {
	s.ended = next == saga.NextDone || next == saga.NextFail || next == saga.NextInDoubt
	s.happened = next == saga.NextDone
}

func (s *callState) undo(r journal.Record, data any) {
	next := saga.Next("")
	switch d := data.(type) {
	case *saga.OutcomeData:
		next = d.Next
	case *saga.DecidedData:
		next = d.Next
	}
	s.undone = next == saga.NextDone
	s.undoing = !s.undone && r.Kind != journal.Skipped
}

func (s *callState) command(r journal.Record, d *saga.CommandData) {
	switch {
	case d.Rejected != nil:
	case d.Kind == "undo":
		s.undoing = true
	case d.Kind == "approve":
		s.approved = true
	case d.Kind == "reject":
		s.ended = true
	case d.Kind != "resolve" && d.Kind != "retry":
	case d.Outcome == saga.SameEffect:
		s.ended, s.same = true, true
	case d.Outcome == saga.NewEffect:
		s.new = true
	case d.Outcome == "compensated":
		s.ended, s.doubt, s.undoing, s.undone = true, false, false, true
	case d.Outcome == "skip" && r.Way == journal.Undo:
		s.undoing = false
	case d.Outcome == "succeeded" || d.Outcome == "failed":
		s.ended, s.happened, s.doubt = true, d.Outcome == "succeeded", false
	case d.Outcome == "skip":
		s.ended = true
	}
}

// callStates are the calls of a session at some record, in the order in which they were made.
type callStates struct {
	list   []*callState
	byPath map[string]*callState // also own steps

	diverged bool // a life has asked a model something else than an earlier one
}

func (l *callStates) apply(r journal.Record, data any) {
	path, query := saga.SplitQuery(r.Path)
	d, isCall := data.(*saga.CalledData)
	switch s := l.byPath[path]; {
	case isCall && s == nil:
		s = &callState{data: d, of: l.byPath[d.Resembles]}
		l.diverged = l.diverged || d.Diverged != nil
		l.byPath[r.Path] = s
		if d.What == saga.ActionCall {
			l.list = append(l.list, s)
		}
	case isCall: // the next attempt of an own step
	case s != nil && data != nil:
		s.apply(r, data, query)
	case s != nil && r.Kind == journal.Skipped:
		s.apply(r, nil, query)
	}
}

// session checks, record by record, what holds of a session's calls at each of them: the parts of
// invariants 14 and 16 about calls, the part of invariant 23 that the journal shows, and invariants
// 25 and 26.
func (c *sagaCheck) session(t *sagaState) {
	if len(t.calls) > 0 {
		c.progress(t)
	}
}

// progress returns how far a session has come at its end, and checks its records on the way.
func (c *sagaCheck) progress(t *sagaState) *progress {
	p := newProgress()
	if t.forkOf != nil {
		past := sagaCheck{Checker: c.Checker} // its own check says what is wrong with it
		p = past.progress(t.forkOf)
		p.startOver()
	}
	all, paid, questions, committed, failing := &p.all, &p.paid, &p.questions, false, false
	added, inFlight := p.added, make(map[string]bool) // forward requests of calls, by path
	for i, r := range t.Records {
		switch d := t.data[i].(type) {
		case *saga.CalledData:
			if all.byPath[r.Path] == nil {
				added[d.What]++
				c.most(t, r, d.What, added[d.What])
			}
			switch d.What {
			case saga.OwnStep:
				c.begins(t, all, r, d)
			case saga.ModelAsk:
				c.mayAsk(t, r, d)
				c.asks(questions, r, d)
			default:
				c.resembles(t, all, r, d)
				c.repeats(t, all, r, d)
				c.limits(t, all, r, d)
				c.needsApproval(t, all, r, d, paid.spent.Add(paid.reserved))
			}
		case *saga.IntentData:
			if _, model := questions.sent[r.Path]; model {
				c.sentOnce(questions, r)
			}
			c.mayBeSent(all, r, d, committed)
			if s := all.byPath[r.Path]; s != nil && s.data.What == saga.ActionCall && d.Request != nil && d.Awaited == nil && r.Way == journal.Do {
				inFlight[r.Path] = true
				if !failing { // otherwise it settles a doubt, so that it can be undone
					c.parallel(t, r, len(inFlight))
				}
			}
		case *saga.OutcomeData:
			if r.Way == journal.Do {
				delete(inFlight, r.Path)
			}
			c.undoable(t, r, d.Compensate)
		case *saga.CommandData:
			failing = failing || d.Rejected == nil && (r.Kind == journal.Cancelled || d.Kind == "compensate")
		case *saga.WokeData:
			failing = failing || r.Path == "" && (d.Timer == "timeout" || d.Timer == saga.TimerLost)
		case *saga.CommittedData:
			committed = true
			c.nothingOpen(all, r)
		}
		paid.take(r, t.data[i])
		all.apply(r, t.data[i])
	}
	return p
}

// progress is how far a session has come at some record.
type progress struct {
	all       callStates
	paid      account
	added     map[saga.CallKind]int // steps of the session
	questions questions
}

func newProgress() *progress {
	return &progress{all: callStates{byPath: make(map[string]*callState)}, paid: newAccount(), added: make(map[saga.CallKind]int),
		questions: questions{sent: make(map[string]bool), asked: make(map[string]int)}}
}

// startOver turns the progress of a session into that with which a fork of it begins: what had not
// ended is as if it had not been asked for, and what was spent is the original's.
func (p *progress) startOver() {
	for path, s := range p.all.byPath { // any order
		s.undoing, s.doubt = false, false
		if s.ended {
			continue
		}
		switch s.ended = true; s.data.What {
		case saga.OwnStep:
			delete(p.all.byPath, path)
			p.added[saga.OwnStep]--
		case saga.ModelAsk:
			p.questions.asked[s.data.Identity]--
		}
	}
	p.paid = newAccount()
}

// questions are a session's requests to models at some record.
type questions struct {
	sent  map[string]bool // whether it was sent, by path
	asked map[string]int  // how many have an identity
}

// asks checks the part of invariant 27 about the record that adds a request to a model.
func (c *sagaCheck) asks(q *questions, r journal.Record, d *saga.CalledData) {
	if _, twice := q.sent[r.Path]; twice || r.Path != "llm["+strconv.Itoa(len(q.sent))+"]" || d.N != q.asked[d.Identity] {
		c.say(27, r.Seq, "record %d is not the next request to a model: %s, the %dth with its identity", r.Seq, r.Path, d.N)
	}
	q.sent[r.Path] = false
	q.asked[d.Identity]++
}

// sentOnce checks the part of invariant 27 about the intent of a request to a model.
func (c *sagaCheck) sentOnce(q *questions, r journal.Record) {
	if q.sent[r.Path] {
		c.say(27, r.Seq, "record %d sends the request to a model %s once more", r.Seq, r.Path)
	}
	q.sent[r.Path] = true
}

// action returns the policy of an action; nil if it is unknown, or the session does not have it.
func (t *sagaState) action(name string) *saga.SessionAction {
	if t.Definition == nil || t.Definition.Session == nil {
		return nil
	}
	return t.Definition.Session.Actions[name]
}

// repeats checks the part of invariant 23 that the journal shows: a call is made once more only
// after the one before certainly had no effect, or was undone. It derives the identity of calls
// without an id from the action and the input, and does not ask the records for it.
func (c *sagaCheck) repeats(t *sagaState, all *callStates, r journal.Record, d *saga.CalledData) {
	a := t.action(d.Action)
	if a == nil || reads(a.Step) {
		return
	}
	id := identity(d)
	for _, s := range all.list {
		of := s
		for of.same && of.of != nil {
			of = of.of
		}
		if identity(s.data) == id && !of.noEffect() && !of.undone {
			c.say(23, r.Seq, "record %d repeats a call that may have had its effect", r.Seq)
		}
	}
}

func reads(s *saga.Step) bool {
	call, ok := s.Body.(saga.Call)
	return ok && call.ReadOnly()
}

// most checks the part of invariant 26 about how many steps of one kind a session adds.
func (c *sagaCheck) most(t *sagaState, r journal.Record, kind saga.CallKind, n int) {
	if t.Definition == nil || t.Definition.Session == nil {
		return
	}
	s := t.Definition.Session
	if most := map[saga.CallKind]int{saga.ActionCall: s.MaxCalls, saga.ModelAsk: s.MaxAsks, saga.OwnStep: s.MaxSteps}[kind]; n > most {
		c.say(26, r.Seq, "record %d adds number %d of kind %s to the session, which may have %d", r.Seq, n, kind, most)
	}
}

// limits checks invariant 26: a session calls only its actions, and within its limits.
func (c *sagaCheck) limits(t *sagaState, all *callStates, r journal.Record, d *saga.CalledData) {
	if t.Definition == nil || t.Definition.Session == nil {
		return
	}
	a := t.action(d.Action)
	if a == nil || a.Agents == nil {
		c.say(26, r.Seq, "record %d calls action %s, which is not an action for the session", r.Seq, d.Action)
		return
	}
	counted := []*saga.CalledData{d}
	for _, s := range all.list {
		if s.data.Action == d.Action && !s.noEffect() {
			counted = append(counted, s.data)
		}
	}
	for i := range a.Agents.Limits {
		l := &a.Agents.Limits[i]
		if l.Sum == nil && len(counted) > l.Calls {
			c.say(26, r.Seq, "record %d is call %d of action %s that may have an effect, and its limit is %d", r.Seq, len(counted), d.Action, l.Calls)
		}
		if l.Sum == nil {
			continue
		}
		sum := retry.Money{}
		for _, d := range counted {
			adds, err := l.Adds(policyEnv{input: d.Input})
			if err != nil {
				c.say(26, r.Seq, "record %d calls action %s with an input that its limit cannot add: %v", r.Seq, d.Action, err)
			}
			sum = sum.Add(adds)
		}
		if sum.Cmp(l.Max) > 0 {
			c.say(26, r.Seq, "with record %d, the calls of action %s reach %s, and its limit is %s", r.Seq, d.Action, sum.Decimal(), l.Max.Decimal())
		}
	}
}

// policyEnv has the values that the policy of an action reads.
type policyEnv struct {
	input   json.RawMessage
	session map[string]any
}

// Root implements expr.Env.
func (e policyEnv) Root(name string) (any, bool) {
	if name != saga.ActionInput {
		return e.session, name == "session" && e.session != nil
	}
	v, err := expr.Decode(e.input)
	return v, err == nil
}

// needsApproval checks a part of invariant 16: a call that the policy of its action wants approved
// says so.
func (c *sagaCheck) needsApproval(t *sagaState, all *callStates, r journal.Record, d *saga.CalledData, spent retry.Money) {
	a := t.action(d.Action)
	if a == nil || a.Agents == nil || d.Approve {
		return
	}
	wants := a.Agents.Approve
	if when := a.Agents.ApproveWhen; when != nil && !wants {
		yes, err := when.Bool(policyEnv{input: d.Input, session: saga.SessionRoot(len(all.list), spent)})
		wants = yes || err != nil
	}
	if wants {
		c.say(16, r.Seq, "record %d calls action %s without the approval that its policy wants", r.Seq, d.Action)
	}
}

// resembles checks a part of invariant 28: a call is compared with one that it may repeat.
func (c *sagaCheck) resembles(t *sagaState, all *callStates, r journal.Record, d *saga.CalledData) {
	if d.Resembles == "" {
		return
	}
	of := all.byPath[d.Resembles]
	if of == nil || of.data.Action != d.Action || of.data.Life >= d.Life || of.noEffect() || of.undone {
		c.say(28, r.Seq, "record %d compares %s with %s, which it cannot repeat", r.Seq, r.Path, d.Resembles)
	}
	if t.Definition == nil || t.Definition.Session == nil {
		return
	}
	a := t.action(d.Action)
	if policy := t.Definition.Session.Data.OnDivergence; !all.diverged || policy != "" && policy != saga.DivergenceGuard || a == nil || reads(a.Step) {
		c.say(28, r.Seq, "record %d lets %s wait for a person, and there is no reason", r.Seq, r.Path)
	}
}

// mayBeSent checks that a request of a call is sent only after its approval (invariant 16), only if
// it does not repeat an earlier one (invariant 28), and never after the session was committed
// (invariant 25).
func (c *sagaCheck) mayBeSent(all *callStates, r journal.Record, d *saga.IntentData, committed bool) {
	path, _ := saga.SplitQuery(r.Path)
	s := all.byPath[path]
	if s != nil && r.Way == journal.Do && s.data.Resembles != "" && !s.new {
		c.say(28, r.Seq, "record %d sends %s, and no person has said that it is not the same as %s", r.Seq, r.Path, s.data.Resembles)
	}
	switch {
	case committed && r.Way == journal.Undo:
		c.say(25, r.Seq, "record %d undoes %s after the session was committed", r.Seq, r.Path)
	case committed:
		c.say(25, r.Seq, "record %d sends %s after the session was committed", r.Seq, r.Path)
	case s == nil || !s.data.Approve || d.Request == nil || r.Way != journal.Do || path != r.Path:
	case d.Awaited != nil:
		s.shown = d.RequestHash
	case !s.approved:
		c.say(16, r.Seq, "record %d sends %s, which nobody has approved", r.Seq, r.Path)
	case d.RequestHash != s.shown:
		c.say(16, r.Seq, "record %d sends another request of %s than a person has approved", r.Seq, r.Path)
	}
}

// parallel checks the part of invariant 14 about sessions: the number of calls in flight.
func (c *sagaCheck) parallel(t *sagaState, r journal.Record, n int) {
	if t.Definition == nil || t.Definition.Session == nil {
		return
	}
	if most := t.Definition.Session.MaxParallel; n > most {
		c.say(14, r.Seq, "with record %d, %d calls are in flight, and the session may have %d", r.Seq, n, most)
	}
}

// nothingOpen checks invariant 25 at the record that commits a session.
func (c *sagaCheck) nothingOpen(all *callStates, r journal.Record) {
	for path, s := range all.byPath { // any order: each is a violation
		if s.open() {
			c.say(25, r.Seq, "the session was committed while %s was open", path)
		}
	}
}

// identities checks the rest of invariant 23 in the ledger.
func (c *sagaCheck) identities(t *sagaState) {
	if len(t.calls) == 0 {
		return
	}
	stands := make(map[string]string) // the path of a call with an effect, by identity
	for _, call := range t.calls {
		n := t.steps[call.record.Path]
		if n == nil || !c.comparable(n) || c.remaining(n) <= 0 {
			continue
		}
		id := identity(call.data)
		if other, twice := stands[id]; twice {
			c.say(23, call.record.Seq, "the effects of %s and %s stand, and both are the same call", other, n.path)
		}
		stands[id] = n.path
	}
}

// identity returns a text that two calls share if they mean the same effect.
func identity(d *saga.CalledData) string {
	kind, _, _ := strings.Cut(d.Identity, ":")
	if kind == "id" || kind == "once" || kind == "again" {
		return d.Identity
	}
	var input any
	numbers := json.NewDecoder(bytes.NewReader(d.Input))
	numbers.UseNumber() // 1.0 is not 1
	if err := numbers.Decode(&input); err != nil {
		return d.Identity
	}
	canonical, err := json.Marshal(input) // sorts the members of objects
	if err != nil {
		return d.Identity
	}
	return d.Action + " " + string(canonical)
}
