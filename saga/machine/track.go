package machine

import (
	"encoding/json"
	"fmt"
	"time"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// state is the state of one track of a step.
type state string

const (
	ready               state = ""                     // nothing is in flight; the next attempt may start at once
	inFlight            state = "in_flight"            // an attempt is in flight, or was when its process died
	backoff             state = "backoff"              // until retryAt
	sleeping            state = "sleeping"             // waiting until retryAt
	woken               state = "woken"                // the wait is over
	entered             state = "entered"              // a block whose steps run
	awaiting            state = "awaiting"             // waiting for a message, until retryAt if that is set
	expired             state = "expired"              // no message came in time
	checking            state = "checking"             // in doubt; its status check runs
	awaitingResolution  state = "awaiting_resolution"  // in the inbox: in doubt
	awaitingCredentials state = "awaiting_credentials" // in the inbox: the credentials were rejected
	resembling          state = "resembling"           // in the inbox: it may repeat an earlier call
	blocked             state = "blocked"              // in the inbox: it can neither continue nor be given up
	exhausted           state = "exhausted"            // in the inbox, on_error: hold; until retryAt if that is set
	done                state = "done"                 // succeeded; of a compensation: undone
	failed              state = "failed"               // certainly without effect
	doubted             state = "doubted"              // ended in doubt
	skipped             state = "skipped"              // `when` was false; of a compensation: also skipped by a person
)

func (s state) ended() bool {
	return s == done || s == failed || s == doubted || s == skipped
}

// awaitsPerson reports whether a person may have to act in this state: the states of the inbox, and
// a step that awaits a message, such as an approval, or a comparison with an earlier call.
func (s state) awaitsPerson() bool { return s.inbox() || s == awaiting || s == resembling }

func (s state) inbox() bool {
	return s == awaitingResolution || s == awaitingCredentials || s == blocked || s == exhausted
}

// event is what a record means to the track that it is about.
type event string

const (
	evIntent           event = "intent"
	evSleep            event = "sleep"
	evWoke             event = "woke"
	evEnter            event = "enter"
	evAwait            event = "await"
	evAskAgain         event = "ask_again"  // an approval whose covered request differs
	evReadAgain        event = "read_again" // a read whose answer is too old (fresh_for)
	evApprove          event = "approve"    // a person: a session's call may be sent
	evResemble         event = "resemble"
	evSkip             event = "skip"
	evDone             event = "done"
	evRetry            event = "retry"
	evVerify           event = "verify"
	evAwaitResolution  event = "await_resolution"
	evAwaitCredentials event = "await_credentials"
	evBlock            event = "block"
	evFail             event = "fail"
	evInDoubt          event = "in_doubt"
	evHold             event = "hold"
	evAgain            event = "again"          // a person: retry; or an own step may be begun again
	evResolve          event = "resolve"        // a person: it succeeded, or it is undone
	evGiveUp           event = "give_up"        // a person: it failed
	evSkipByPerson     event = "skip_by_person" // a person: skip
)

// transitions is the complete life of a track. Apply refuses a record whose event has no entry for
// the current state.
var transitions = map[state]map[event]state{
	ready: {
		evIntent: inFlight, evSleep: sleeping, evEnter: entered, evAwait: awaiting, evSkip: skipped, evResemble: resembling,
		evWoke: ready,                                  // the wait was measured again, because part of it has passed
		evDone: done, evFail: failed, evBlock: blocked, // kinds that only compute, and requests that cannot be rendered
		// In these the key has expired, or the budget is exhausted.
		evAwaitResolution: awaitingResolution, evVerify: checking, evInDoubt: doubted, evHold: exhausted,
	},
	inFlight: {
		evDone: done, evRetry: backoff, evVerify: checking, evAwaitResolution: awaitingResolution, evAwaitCredentials: awaitingCredentials,
		evBlock: blocked, evFail: failed, evInDoubt: doubted, evHold: exhausted,
		evAgain: ready, // an own step, which its agent may begin again
	},
	backoff:             {evWoke: ready},
	sleeping:            {evWoke: woken},
	woken:               {evDone: done},
	entered:             {evDone: done, evFail: failed, evBlock: blocked},
	awaiting:            {evApprove: ready, evDone: done, evFail: failed, evBlock: blocked, evWoke: expired},
	resembling:          {evApprove: ready, evSkipByPerson: skipped},
	expired:             {evDone: done, evFail: failed, evBlock: blocked},
	checking:            {evDone: done, evRetry: backoff, evAwaitResolution: awaitingResolution, evFail: failed, evInDoubt: doubted, evBlock: blocked, evHold: exhausted},
	awaitingResolution:  {evAgain: ready, evResolve: done, evGiveUp: failed, evSkipByPerson: skipped},
	awaitingCredentials: {evAgain: ready, evResolve: done, evGiveUp: failed, evSkipByPerson: skipped},
	blocked:             {evAgain: ready, evResolve: done, evGiveUp: failed, evSkipByPerson: skipped},
	exhausted: {
		evWoke: ready, evAgain: ready, evResolve: done, evGiveUp: failed, evSkipByPerson: skipped,
		evInDoubt: doubted, evAwaitResolution: awaitingResolution, // in doubt, and no longer needed
	},
	// The compensation of such a step needs its output.
	doubted: {evAwaitResolution: awaitingResolution, evRetry: backoff, evVerify: checking},
	done:    {evAskAgain: awaiting, evReadAgain: ready}, // an approval, a read
}

// nextEvent maps the Next of an outcome to the event it is.
var nextEvent = map[saga.Next]event{
	saga.NextDone: evDone, saga.NextRetry: evRetry, saga.NextVerify: evVerify, saga.NextAwaitResolution: evAwaitResolution, saga.NextAwaitCredentials: evAwaitCredentials,
	saga.NextBlock: evBlock, saga.NextFail: evFail, saga.NextInDoubt: evInDoubt, saga.NextHold: evHold,
	saga.NextBegin:      evAgain,
	saga.NextConclusive: evDone, saga.NextInconclusive: evFail, // of a status check
}

// track is the state of one of a step's three calls: forward, compensation or status check.
type track struct {
	state                         state
	attempts                      int // all attempts so far
	base                          int // attempts before the operator's last retry; the retry policy counts from here
	generation                    int
	key                           string
	request                       *saga.Request   // kept as long as it may be sent again
	actionInput                   json.RawMessage // the input of the action that the step uses
	hash                          string
	reserved                      retry.Money     // for the attempt in flight
	unknown                       retry.Money     // for attempts whose cost is unknown: still reserved
	reservedTokens, unknownTokens int64           // tokens, as reserved and unknown
	uncertain                     []uncertainUse  // as unknown, for attempts that called a model
	retryState                    json.RawMessage // makes the next request differ from the last one
	firstSent                     time.Time       // of this generation
	roundSent                     time.Time       // of the first attempt since base
	sentAt                        time.Time       // of the last attempt
	// The end of backoff and sleeping is retryAt; in checking, it is the time of the first status
	// check.
	retryAt time.Time
	doubt   bool // an attempt is in doubt and not settled
	reads   bool // it had no effect, as its request says
	class   journal.Class
	status  int
	failure *saga.Failure
	// A person who knows of the doubt has allowed a resend, even after the key has expired.
	allowed bool
	found   bool  // the status check's conclusion
	since   int64 // the seq of the record that led to the state; sinceAt is its time
	sinceAt time.Time
	wakeup  []Decision // the state's WakeAt decision, once it was asked for
}

// move applies an event to a track.
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

// wake returns the decision to wait until retryAt.
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

// settleCost settles the cost of attempts in doubt once it is known whether they happened: it is
// spent, or the reservation is released.
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

// settleByPerson settles the cost of attempts in doubt of which a person has said whether they
// happened. What a child may cost stays reserved: only the child's report says what it has cost.
func (m *Machine) settleByPerson(n *node, s *track, happened bool) {
	if n.child.IsNil() || s != &n.forward {
		m.settleCost(s, happened)
	}
}

// again prepares the track for a new round of attempts, with a new key if newKey is set.
func (s *track) again(newKey bool) {
	s.base = s.attempts
	s.retryAt, s.roundSent, s.retryState = time.Time{}, time.Time{}, nil
	if newKey {
		s.generation++
		s.key, s.request, s.hash, s.firstSent, s.doubt = "", nil, "", time.Time{}, false
	}
}

// round returns how many attempts count for the retry policy.
func (s *track) round() int { return s.attempts - s.base }
