package histories

import (
	"fmt"
	"sync"
	"time"

	"recourse/journal"
	"recourse/saga"
)

// Do is what a client asked for.
type Do string

// The requests. The orders are named as in saga.Command.
const (
	Start   Do = "start"   // POST /v1/sagas
	Get     Do = "get"     // GET /v1/sagas/{id}
	Journal Do = "journal" // GET /v1/sagas/{id}/journal
	Command Do = "order"   // POST /v1/sagas/{id}/…, PATCH /v1/sagas/{id}
)

// Op is one request and what came of it.
type Op struct {
	Client  int
	Node    string // which node was asked
	Do      Do
	Saga    string       // "" for starts
	Key     string       // Idempotency-Key, "" for none
	Body    string       // of a start: what makes this body another than that one
	Command saga.Command // of an order. Reason is its mark: no two orders have the same, but repetitions under one key
	After   int64        // of a journal: the seq that it was read from
	Known   int64        // of a get: the seq in If-None-Match, 0 for none

	Call, Return time.Duration // since the history began
	Answer       Answer
}

// Answer is what the client was told.
type Answer struct {
	Status   int    // 0: there was no answer, or only a part of one
	Code     string // of a problem
	Replayed bool   // Idempotency-Replayed
	Saga     string // the id that the answer gives
	Seq      int64  // of the ETag
	Body     string // as it came, of a saga and of whatever may be replayed
	Records  []journal.Record
	More     bool // of a journal: there is another page
	Failed   string
}

// unknown reports whether the request may or may not have been carried out.
func (a Answer) unknown() bool { return a.Status == 0 || a.Status >= 500 }

// ok reports whether the request was carried out, or is going to be.
func (a Answer) ok() bool { return a.Status >= 200 && a.Status < 400 }

// String is one line for a person.
func (o Op) String() string {
	what := string(o.Do)
	if o.Do == Command {
		what = o.Command.Kind
		if o.Command.Path != "" {
			what += " " + o.Command.Path + " as " + o.Command.Outcome
		}
		if o.Command.IfSeq != 0 {
			what += fmt.Sprintf(" if %d", o.Command.IfSeq)
		}
		what += " (" + o.Command.Reason + ")"
	}
	if o.Do == Start {
		what += " " + o.Body
	}
	if o.Key != "" {
		what += " key " + o.Key
	}
	return fmt.Sprintf("%9.3fms…%9.3fms  c%d@%s  %-40s → %s", millis(o.Call), millis(o.Return), o.Client, o.Node, what, o.Answer)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// String is what came, in short.
func (a Answer) String() string {
	s := fmt.Sprint(a.Status)
	if a.Status == 0 {
		s = "no answer (" + a.Failed + ")"
	}
	if a.Code != "" {
		s += " " + a.Code
	}
	if a.Replayed {
		s += " replayed"
	}
	if a.Saga != "" {
		s += " saga " + a.Saga
	}
	if a.Seq != 0 {
		s += fmt.Sprintf(" at %d", a.Seq)
	}
	if n := len(a.Records); n > 0 {
		s += fmt.Sprintf(" records %d…%d", a.Records[0].Seq, a.Records[n-1].Seq)
	}
	return s
}

// Recorder collects a history from several goroutines. The zero value is not
// ready: use NewRecorder.
type Recorder struct {
	began time.Time
	mu    sync.Mutex
	ops   []Op
}

// NewRecorder begins a history.
func NewRecorder() *Recorder { return &Recorder{began: time.Now()} }

// Now is the time since the history began.
func (r *Recorder) Now() time.Duration { return time.Since(r.began) }

// Add adds a request that is over.
func (r *Recorder) Add(o Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, o)
}

// Ops returns what was added so far.
func (r *Recorder) Ops() []Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Op(nil), r.ops...)
}
