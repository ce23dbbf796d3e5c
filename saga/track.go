package saga

import (
	"encoding/json"
	"fmt"
	"time"

	"recourse/journal"
	"recourse/retry"
)

// state is the state of one track of a step.
type state string

const (
	ready               state = ""                     // nothing is in flight: it may go on at once
	inFlight            state = "in_flight"            // an attempt is in flight, or was when its process died
	backoff             state = "backoff"              // until retryAt
	sleeping            state = "sleeping"             // a wait, until retryAt
	woken               state = "woken"                // a wait that is over
	entered             state = "entered"              // a block whose steps run
	awaiting            state = "awaiting"             // a message, until retryAt if that is set
	expired             state = "expired"              // no message has come in time
	checking            state = "checking"             // in doubt, and its status check is to settle it
	awaitingResolution  state = "awaiting_resolution"  // the inbox: in doubt
	awaitingCredentials state = "awaiting_credentials" // the inbox: credentials
	blocked             state = "blocked"              // the inbox: it can neither go on nor be given up
	done                state = "done"                 // succeeded; of a compensation: undone
	failed              state = "failed"               // surely no effect
	doubted             state = "doubted"              // ended in doubt
	skipped             state = "skipped"              // `when` was false; of a compensation: also skipped by a person
)

func (s state) ended() bool {
	return s == done || s == failed || s == doubted || s == skipped
}

// awaitsPerson reports whether the state may wait for a person: the inbox's, and an approval's.
func (s state) awaitsPerson() bool { return s.inbox() || s == awaiting }

func (s state) inbox() bool {
	return s == awaitingResolution || s == awaitingCredentials || s == blocked
}

// event is what a record means to the track that it is about.
type event string

const (
	evIntent           event = "intent"
	evSleep            event = "sleep"
	evWoke             event = "woke"
	evEnter            event = "enter"
	evAwait            event = "await"
	evSkip             event = "skip"
	evDone             event = "done"
	evRetry            event = "retry"
	evVerify           event = "verify"
	evAwaitResolution  event = "await_resolution"
	evAwaitCredentials event = "await_credentials"
	evBlock            event = "block"
	evFail             event = "fail"
	evInDoubt          event = "in_doubt"
	evAgain            event = "again"          // a person: retry
	evResolve          event = "resolve"        // a person: it succeeded, or it is undone
	evGiveUp           event = "give_up"        // a person: it failed
	evSkipByPerson     event = "skip_by_person" // a person: skip
)

// transitions is the whole life of one way of a step. What is not in it cannot
// happen, and a record that says so is refused.
var transitions = map[state]map[event]state{
	ready: {
		evIntent: inFlight, evSleep: sleeping, evEnter: entered, evAwait: awaiting, evSkip: skipped,
		evWoke: ready,                                  // the time was noted again, because some has passed
		evDone: done, evFail: failed, evBlock: blocked, // kinds that only compute, and requests that cannot be made
		evAwaitResolution: awaitingResolution, evVerify: checking, evInDoubt: doubted, // the key's window is over; no budget is left
	},
	inFlight: {
		evDone: done, evRetry: backoff, evVerify: checking, evAwaitResolution: awaitingResolution, evAwaitCredentials: awaitingCredentials,
		evBlock: blocked, evFail: failed, evInDoubt: doubted,
	},
	backoff:             {evWoke: ready},
	sleeping:            {evWoke: woken},
	woken:               {evDone: done},
	entered:             {evDone: done, evFail: failed, evBlock: blocked},
	awaiting:            {evDone: done, evFail: failed, evBlock: blocked, evWoke: expired},
	expired:             {evDone: done, evFail: failed, evBlock: blocked},
	checking:            {evDone: done, evRetry: backoff, evAwaitResolution: awaitingResolution, evFail: failed, evInDoubt: doubted, evBlock: blocked},
	awaitingResolution:  {evAgain: ready, evResolve: done, evGiveUp: failed, evSkipByPerson: skipped},
	awaitingCredentials: {evAgain: ready, evResolve: done, evGiveUp: failed, evSkipByPerson: skipped},
	blocked:             {evAgain: ready, evResolve: done, evGiveUp: failed, evSkipByPerson: skipped},
	doubted:             {evAwaitResolution: awaitingResolution, evRetry: backoff, evVerify: checking}, // its undoing turns out to need its output
}

// nextEvent maps what an outcome decided to the event it is.
var nextEvent = map[Next]event{
	NextDone: evDone, NextRetry: evRetry, NextVerify: evVerify, NextAwaitResolution: evAwaitResolution, NextAwaitCredentials: evAwaitCredentials,
	NextBlock: evBlock, NextFail: evFail, NextInDoubt: evInDoubt,
	NextConclusive: evDone, NextInconclusive: evFail, // of a verify query
}

// track is one way of a step: doing it, undoing it, or asking after it.
type track struct {
	state                         state
	attempts                      int // so far, all of them
	base                          int // attempts before the operator's last retry: the policy counts from here
	generation                    int
	key                           string
	request                       *Request        // while it may be sent again
	actionInput                   json.RawMessage // the input of the action that it is
	hash                          string
	reserved                      retry.Money     // of the attempt under way
	unknown                       retry.Money     // of attempts whose cost is not known: still reserved
	reservedTokens, unknownTokens int64           // likewise
	uncertain                     []uncertainUse  // likewise, of those that asked a model
	retryState                    json.RawMessage // what makes the next request another one
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
func (m *Machine) move(s *track, ev event, r journal.Record) error {
	next, ok := transitions[s.state][ev]
	if !ok {
		return fmt.Errorf("%w: %s while %s", ErrImpossible, ev, s.name())
	}
	if s.state.awaitsPerson() || next.awaitsPerson() {
		m.inboxRevision++
	}
	s.state, s.since, s.sinceAt, s.wakeup = next, r.Seq, r.At, nil
	return nil
}

// wake is the wait until retryAt.
func (s *track) wake(path string, way journal.Way, timer string) []Decision {
	if s.wakeup == nil {
		s.wakeup = wake(path, way, timer, s.retryAt)
	}
	return s.wakeup
}

func (s *track) name() string {
	if s.state == ready {
		return "ready"
	}
	return string(s.state)
}

// settleCost books what attempts in doubt have reserved, once it is known whether
// they happened: as spent, or not at all.
func (m *Machine) settleCost(s *track, happened bool) {
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
func (s *track) again(newKey bool) {
	s.base = s.attempts
	s.retryAt, s.retryState = time.Time{}, nil
	if newKey {
		s.generation++
		s.key, s.request, s.hash, s.firstSent, s.doubt = "", nil, "", time.Time{}, false
	}
}

// round is how many attempts count against the policy.
func (s *track) round() int { return s.attempts - s.base }
