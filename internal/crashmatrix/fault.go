package crashmatrix

import (
	"time"

	"recourse/journal"
)

// Kind is a kind of fault.
type Kind string

// The faults. A remote service that has no effect when it answers 4xx, as HTTP says, is assumed:
// "with effect" means there that the first request took effect and its answer was lost, and that
// the repeated requests are answered so.
const (
	None        Kind = "none"
	CrashBefore Kind = "crash before send" // the process dies between the intent and the request
	CrashAfter  Kind = "crash after send"  // the request takes effect, the process dies before the answer
	AnswerLost  Kind = "answer lost"       // the request takes effect, the connection breaks
	Bad         Kind = "400"
	BadEffect   Kind = "400 with effect"
	Busy        Kind = "409"
	BusyEffect  Kind = "409 with effect"
	Broken      Kind = "500"
	BrokenDone  Kind = "500 with effect"
	Silent      Kind = "timeout"
	SilentDone  Kind = "timeout with effect" // the request arrives after the timeout
	Rejected    Kind = "rejected"            // a person rejects the approval
)

// Kinds lists the faults of requests, in the order of the rows.
var Kinds = []Kind{CrashBefore, CrashAfter, AnswerLost, Bad, BadEffect, Busy, BusyEffect, Broken, BrokenDone, Silent, SilentDone}

// Fault is a fault of a step or of its compensation.
type Fault struct {
	Step string // the path of the step
	Way  journal.Way
	Kind Kind
}

const (
	// outage is how long the faults last that strike every request: all but a 400, which stays.
	outage = time.Hour
	// lateness is how long after its timeout a request of the fault SilentDone arrives.
	lateness = 3 * time.Second
	// latency is how long a request takes that no fault strikes.
	latency = 20 * time.Millisecond
)

// effect reports whether the request takes effect although its answer is an error.
func (k Kind) effect() bool {
	return k == BadEffect || k == BusyEffect || k == BrokenDone || k == SilentDone
}

// status returns the HTTP status of the answers, 0 for none.
func (k Kind) status() int {
	switch k {
	case Bad, BadEffect:
		return 400
	case Busy, BusyEffect:
		return 409
	case Broken, BrokenDone:
		return 500
	}
	return 0
}

// strike is a fault in a run.
type strike struct {
	Fault
	first time.Time // when it struck for the first time; zero: never
	count int       // of the requests that it struck
}

// over reports whether the fault no longer strikes.
func (s *strike) over(now time.Time) bool {
	switch {
	case s.count == 0 || s.Kind == Bad:
		return false
	case s.Kind == CrashBefore || s.Kind == CrashAfter || s.Kind == AnswerLost || s.Kind == Rejected:
		return true
	}
	return now.Sub(s.first) > outage
}
