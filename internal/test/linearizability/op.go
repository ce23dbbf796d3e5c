package linearizability

import (
	"fmt"
	"sync"
	"time"

	"recourse/journal"
	"recourse/saga"
)

// Do is the kind of a request.
type Do string

// The kinds of requests. Commands have the names of saga.Command.
const (
	Start   Do = "start"   // POST /v1/sagas
	Get     Do = "get"     // GET /v1/sagas/{id}
	Journal Do = "journal" // GET /v1/sagas/{id}/journal
	Command Do = "command" // POST /v1/sagas/{id}/…, PATCH /v1/sagas/{id}
)

// Op is one request and its result.
type Op struct {
	Client  int
	Node    string // the node that got the request
	Do      Do
	Saga    string       // "" for starts
	Key     string       // Idempotency-Key, "" for none
	Body    string       // of a start: distinguishes its body from others
	Command saga.Command // of a command. Its Reason is its mark, which only repetitions with the same key share
	After   int64        // of a journal: the seq that it was read from
	Known   int64        // of a get: the seq in If-None-Match, 0 for none

	Call, Return time.Duration // since the history began
	Answer       Answer
}

// Answer is the response that the client got.
type Answer struct {
	Status   int    // 0: there was no response, or only a part of one
	Code     string // of a problem
	Replayed bool   // Idempotency-Replayed
	Saga     string // the id in the response
	Seq      int64  // of the ETag
	Body     string // the raw body, of a saga and of responses that may be replayed
	Records  []journal.Record
	More     bool // of a journal: there is another page
	Failed   string
}

// unknown reports whether it is unknown if the request was carried out.
func (a Answer) unknown() bool { return a.Status == 0 || a.Status >= 500 }

// ok reports whether the request was carried out, or will be.
func (a Answer) ok() bool { return a.Status >= 200 && a.Status < 400 }

// String returns the request in one line.
func (o Op) String() string {
	what := string(o.Do)
	if o.Do == Command {
		what = o.Verb()
		if o.Command.Path != "" {
			what += " " + o.Command.Path
			if to, ok := o.Command.Do.(saga.Resolve); ok {
				what += " as " + to.Outcome
			}
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

// String returns a summary of the response.
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

// Now returns the time since the history began.
func (r *Recorder) Now() time.Duration { return time.Since(r.began) }

// Add adds a completed request.
func (r *Recorder) Add(o Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, o)
}

// Ops returns the requests that were added so far.
func (r *Recorder) Ops() []Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Op(nil), r.ops...)
}

// Verb returns the verb of the request's command, "" if it is not a command.
func (o *Op) Verb() string {
	if o.Command.Do == nil {
		return ""
	}
	return o.Command.Do.Verb()
}
