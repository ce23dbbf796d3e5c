package machine

import (
	"cmp"
	"errors"
	"strings"
	"testing"

	"recourse/journal"
)

var allStates = []state{ready, inFlight, backoff, sleeping, woken, entered, awaiting, expired, checking, awaitingResolution, awaitingCredentials, blocked, exhausted, done, failed, doubted, skipped}
var allEvents = []event{evIntent, evSleep, evWoke, evEnter, evAwait, evAskAgain, evReadAgain, evSkip, evDone, evRetry, evVerify, evAwaitResolution, evAwaitCredentials, evBlock, evFail, evInDoubt, evHold, evAgain, evResolve, evGiveUp, evSkipByPerson}

// Every pair of state and event either moves as the table says, or is refused and changes nothing.
func TestTransitions(t *testing.T) {
	possible := 0
	for _, from := range allStates {
		for _, ev := range allEvents {
			s := track{state: from}
			err := new(Machine).move(&s, ev, journal.Record{Seq: 7})
			want, ok := transitions[from][ev]
			switch {
			case ok && (err != nil || s.state != want || s.since != 7):
				t.Errorf("%s on %q: %v, now %q, want %q", ev, from, err, s.state, want)
			case !ok && (!errors.Is(err, ErrImpossible) || s.state != from || !strings.HasSuffix(err.Error(), " while "+cmp.Or(string(from), "ready"))):
				t.Errorf("%s on %q: %v, now %q, want ErrImpossible", ev, from, err, s.state)
			}
			if ok {
				possible++
			}
		}
	}
	if possible != 67 {
		t.Errorf("the table has %d transitions; it is reviewed whole when it changes: say the new number here", possible)
	}
}

// A track that has ended stays ended, with three exceptions: a doubt may have to be settled before
// it is undone, an approval may be asked again, and a read may be read again.
func TestEndedStaysEnded(t *testing.T) {
	for _, from := range allStates {
		if !from.ended() {
			continue
		}
		for ev, to := range transitions[from] {
			if from == done && (ev == evAskAgain && to == awaiting || ev == evReadAgain && to == ready) {
				continue
			}
			if from != doubted || (to != awaitingResolution && to != backoff && to != checking) {
				t.Errorf("%s on %s leads to %s", ev, from, to)
			}
		}
	}
}
