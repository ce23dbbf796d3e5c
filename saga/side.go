package saga

import (
	"encoding/json"
	"fmt"
	"time"

	"recourse/journal"
	"recourse/retry"
)

// state is where one way of a step stands.
type state string

const (
	ready    state = ""         // nothing under way: may go on at once
	open     state = "open"     // an attempt is under way, or was when its process died
	backoff  state = "backoff"  // until retryAt
	sleeping state = "sleeping" // a wait, until retryAt
	woken    state = "woken"    // a wait that is over
	chosen   state = "chosen"   // a block whose steps run
	awaiting state = "awaiting" // a message, until retryAt if that is a time
	expired  state = "expired"  // no message has come in time
	checking state = "checking" // in doubt, being settled by its status query
	asking   state = "asking"   // the inbox: in doubt
	holding  state = "holding"  // the inbox: credentials
	sticking state = "sticking" // the inbox: can neither go on nor be given up
	done     state = "done"     // succeeded; of an undo: undone
	failed   state = "failed"   // surely no effect
	doubted  state = "doubted"  // ended in doubt
	skipped  state = "skipped"  // `when` was false; of an undo: also left by an operator
)

func (s state) ended() bool {
	return s == done || s == failed || s == doubted || s == skipped
}

// person reports whether the state may wait for a person: the inbox's, and an approval's.
func (s state) person() bool { return s.inbox() || s == awaiting }

func (s state) inbox() bool { return s == asking || s == holding || s == sticking }

// event is what a record means to the way that it is about.
type event string

const (
	evIntent event = "intent"
	evSleep  event = "sleep"
	evWoke   event = "woke"
	evChoose event = "choose"
	evAwait  event = "await"
	evSkip   event = "skip"
	evDone   event = "done"
	evRetry  event = "retry"
	evVerify event = "verify"
	evAsk    event = "ask"
	evHold   event = "hold"
	evStick  event = "stick"
	evFail   event = "fail"
	evDoubt  event = "doubt"
	evAgain  event = "again"   // an operator's retry
	evSettle event = "settle"  // an operator: it succeeded, or it is undone
	evGiveUp event = "give-up" // an operator: it failed
	evLetLie event = "let-lie" // an operator: skip
)

// transitions is the whole life of one way of a step. What is not in it cannot
// happen, and a record that says so is refused.
var transitions = map[state]map[event]state{
	ready: {
		evIntent: open, evSleep: sleeping, evChoose: chosen, evAwait: awaiting, evSkip: skipped,
		evWoke: ready,                                   // the time was noted again, because some has passed
		evDone: done, evFail: failed, evStick: sticking, // kinds that only compute, and requests that cannot be made
		evAsk: asking, evVerify: checking, evDoubt: doubted, // the key's window is over; no budget is left
	},
	open: {
		evDone: done, evRetry: backoff, evVerify: checking, evAsk: asking, evHold: holding,
		evStick: sticking, evFail: failed, evDoubt: doubted,
	},
	backoff:  {evWoke: ready},
	sleeping: {evWoke: woken},
	woken:    {evDone: done},
	chosen:   {evDone: done, evFail: failed, evStick: sticking},
	awaiting: {evDone: done, evFail: failed, evStick: sticking, evWoke: expired},
	expired:  {evDone: done, evFail: failed, evStick: sticking},
	checking: {evDone: done, evRetry: backoff, evAsk: asking, evFail: failed, evDoubt: doubted, evStick: sticking},
	asking:   {evAgain: ready, evSettle: done, evGiveUp: failed, evLetLie: skipped},
	holding:  {evAgain: ready, evSettle: done, evGiveUp: failed, evLetLie: skipped},
	sticking: {evAgain: ready, evSettle: done, evGiveUp: failed, evLetLie: skipped},
	doubted:  {evAsk: asking, evRetry: backoff, evVerify: checking}, // its undoing turns out to need its output
}

// thenEvent maps what an outcome decided to the event it is.
var thenEvent = map[Then]event{
	ThenDone: evDone, ThenRetry: evRetry, ThenVerify: evVerify, ThenAsk: evAsk, ThenHold: evHold,
	ThenStick: evStick, ThenFail: evFail, ThenDoubt: evDoubt,
	ThenAnswer: evDone, ThenUnsure: evFail, // of a verify query
}

// side is one way of a step: doing it, undoing it, or asking after it.
type side struct {
	state                         state
	attempts                      int // so far, all of them
	base                          int // attempts before the operator's last retry: the policy counts from here
	generation                    int
	key                           string
	request                       *Request        // while it may be sent again
	given                         json.RawMessage // the input of the action that it is
	hash                          string
	reserved                      retry.Money     // of the attempt under way
	unknown                       retry.Money     // of attempts whose cost is not known: still reserved
	reservedTokens, unknownTokens int64           // likewise
	unsure                        []unsure        // likewise, of those that asked a model
	hint                          json.RawMessage // what makes the next request another one
	firstSent                     time.Time       // of this generation
	sentAt                        time.Time       // of the last attempt
	retryAt                       time.Time       // with backoff and sleeping; with checking, when the query may begin
	doubt                         bool            // an attempt is in doubt, and nothing has settled it
	class                         journal.Class
	status                        int
	failure                       *Failure
	allowed                       bool  // a person who knows of the doubt has said to send it again, whatever the key's window
	found                         bool  // of a query that gave an answer
	since                         int64 // the seq of the record that led to the state, and its time
	sinceAt                       time.Time
	wakeup                        []Decision // the wait that the state is, once it was asked for
}

// move takes a side to where an event leads.
func (m *Machine) move(s *side, ev event, r journal.Record) error {
	next, ok := transitions[s.state][ev]
	if !ok {
		return fmt.Errorf("%w: %s while %s", ErrImpossible, ev, s.name())
	}
	if s.state.person() || next.person() {
		m.asks++
	}
	s.state, s.since, s.sinceAt, s.wakeup = next, r.Seq, r.At, nil
	return nil
}

// wake is the wait until retryAt.
func (s *side) wake(path string, way journal.Way, timer string) []Decision {
	if s.wakeup == nil {
		s.wakeup = wake(path, way, timer, s.retryAt)
	}
	return s.wakeup
}

func (s *side) name() string {
	if s.state == ready {
		return "ready"
	}
	return string(s.state)
}

// settleCost books what attempts in doubt have reserved, once it is known whether
// they happened: as spent, or not at all.
func (m *Machine) settleCost(s *side, happened bool) {
	spent := retry.Money{Currency: s.unknown.Currency}
	if happened {
		spent = s.unknown
	}
	m.account.Settle(s.unknown, spent, false)
	s.unknown = retry.Money{}
	m.tokens.reserved -= s.unknownTokens
	if happened {
		m.tokens.output += s.unknownTokens
	}
	s.unknownTokens = 0
	m.settleModels(s, happened)
}

// again makes the side ready for a fresh round of attempts, with a new key if asked.
func (s *side) again(newKey bool) {
	s.base = s.attempts
	s.retryAt, s.hint = time.Time{}, nil
	if newKey {
		s.generation++
		s.key, s.request, s.hash, s.firstSent, s.doubt = "", nil, "", time.Time{}, false
	}
}

// round is how many attempts count against the policy.
func (s *side) round() int { return s.attempts - s.base }
