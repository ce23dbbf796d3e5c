package linearizability

import (
	"fmt"
	"math"

	"github.com/anishathalye/porcupine"
)

// event is what one request implies for one saga, as porcupine sees it.
// The state is the least length that the saga's journal may have: 0 is no saga.
type event struct {
	begins    bool   // the saga does not exist before, and does after
	mayBegin  bool   // if it does not exist, it does after
	writes    bool   // before, the length is less than what it is after; otherwise it may be that
	at        []span // the lengths that it may have, in order
	described string
}

// span is the lengths from lo to hi.
type span struct{ lo, hi int64 }

func exactly(at ...int64) (spans []span) {
	for _, n := range at {
		spans = append(spans, span{n, n})
	}
	return spans
}

// existing is any length of a saga that exists.
var existing = []span{{1, math.MaxInt64}}

// step applies an event. The journal may grow at any time, so of all possible lengths, the
// smallest one allows everything that the others allow.
func step(n int64, e event) (int64, bool) {
	switch {
	case e.begins:
		return 1, n == 0
	case e.mayBegin:
		return max(n, 1), true
	case n == 0:
		return 0, false
	}
	for _, s := range e.at {
		least := max(n, s.lo)
		if e.writes {
			least = max(n+1, s.lo)
		}
		if least <= s.hi {
			return least, true
		}
	}
	return n, false
}

// lengths is the porcupine model of one saga.
var lengths = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, _ any) (bool, any) {
		n, ok := step(state.(int64), input.(event))
		return ok, n
	},
	Equal:             func(a, b any) bool { return a == b },
	DescribeOperation: func(input, _ any) string { return input.(event).described },
	DescribeState: func(state any) string {
		if state.(int64) == 0 {
			return "no saga"
		}
		return fmt.Sprintf("%d records or more", state)
	},
}

// kept is the stored response of a key, and what a request with that key implies for it.
type kept struct {
	answer    string // "" for a refusal, which is not kept
	replayed  bool   // it is the stored response; otherwise it is new, and is stored from then on
	unknown   bool   // it may have been made
	described string
}

// replies is the porcupine model of one Idempotency-Key: there is one response.
var replies = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		have, k := state.(string), input.(kept)
		switch {
		case k.unknown && have == "":
			return true, k.answer
		case k.unknown:
			return true, have
		case k.replayed:
			return have == k.answer, have
		}
		return have == "", k.answer
	},
	Equal:             func(a, b any) bool { return a == b },
	DescribeOperation: func(input, _ any) string { return input.(kept).described },
	DescribeState: func(state any) string {
		if state == "" {
			return "free"
		}
		return fmt.Sprintf("%.60s", state)
	},
}
