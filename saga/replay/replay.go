/*
Package replay tries a definition on sagas that have already ended. [Against] runs the definition
from the start that a journal records, and gives each request the answer that the journal has for
it. The result says whether the definition would have sent the same requests and have come to the
same end, or where it first differs. Nothing is sent, and nothing is stored.

	r, err := replay.Against(changed, id, records, replay.Options{})
	if err == nil && r.Verdict == replay.OtherRequest {
		fmt.Println(id, r.Path, r.Pointer)
	}

What people, other services and the clock did is taken from the journal as well: commands, signals,
and the times of answers. A timer that the journal does not have, such as one of a new sleep, fires
before the first event that is recorded for a later time.

A replay ends at the first difference, because no journal says how a remote service would have
answered another request. So a difference in a request hides all later ones.

# Limits

  - A journal keeps an answer's headers only where the step's `output` could read them. A new
    `expect` or `output` that reads other headers finds none.
  - A journal keeps at most 16 KiB of the body of an answer that is not the step's output. Where it
    has left out a body, and for status checks, the recorded outcome is taken as it is.
  - An answer after which the saga did not try again is taken to have come two seconds later than
    recorded. A deadline or the key's window may have forbidden the retry only by the jitter of its
    delay, or by what the node did not know of the store's clock, and the journal has neither.
  - Random numbers and times in set steps are those of the saga, but a step that is new, or has
    another path, gets others.
*/
package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/compensation"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/machine"
)

// Verdict is the result of a replay in one word.
type Verdict string

// The verdicts. They are part of the public contract.
const (
	Same          Verdict = "same"
	OtherRequest  Verdict = "other-request"  // a request or a wait differs, is missing, or is recorded and not made
	NeverAnswered Verdict = "never-answered" // the definition needs an answer that the journal does not have
	OtherEnd      Verdict = "other-end"      // the saga ends otherwise, or could not have been started
	OtherCost     Verdict = "other-cost"     // all is the same, except what it costs
)

// Verdicts lists all verdicts, the best first.
var Verdicts = []Verdict{Same, OtherCost, OtherRequest, NeverAnswered, OtherEnd}

// Errors of Against.
var (
	// ErrNotEnded says that the saga is still running.
	ErrNotEnded = errors.New("the saga has not ended")
	// ErrSession says that the saga is a session of an agent. Its steps do not come from a
	// definition.
	ErrSession = errors.New("the saga is a session of an agent, whose steps come from no definition: run its agent against the journal with recourse agent replay")
	// ErrContinues says that the saga undoes another one, is a retry of it from a step, or its
	// fork. It begins with what that saga has done under its own definition.
	ErrContinues = errors.New("the saga begins with what another one has done, which it undoes, retries from a step, or is a fork of: replay that one, which undo_of, retry_of or forked_from names")
)

// Result says where a definition first differs from a recorded saga. Fields that do not apply are
// empty.
type Result struct {
	Verdict Verdict     `json:"verdict"`
	Path    string      `json:"path,omitempty"` // the step
	Way     journal.Way `json:"way,omitempty"`
	// Pointer is a JSON pointer (RFC 6901) to the first difference: into the request as its intent
	// records it, or into the end.
	Pointer string          `json:"pointer,omitempty"`
	Was     json.RawMessage `json:"was,omitempty"` // the recorded value there; absent: none
	Now     json.RawMessage `json:"now,omitempty"` // the new one
	Detail  string          `json:"detail,omitempty"`
	Before  End             `json:"before"`
	After   *End            `json:"after,omitempty"` // nil: the replay stopped before the end
}

// Difference describes the result in one line, for people; "" if nothing differs.
func (r Result) Difference() string {
	text := r.Detail
	switch {
	case r.Was != nil && r.Now != nil:
		text += fmt.Sprintf(": %s is %s instead of %s", r.Pointer, clip(r.Now), clip(r.Was))
	case r.Now != nil && r.Pointer != "":
		text += fmt.Sprintf(": %s is %s and was absent", r.Pointer, clip(r.Now))
	case r.Was != nil && r.Pointer != "":
		text += fmt.Sprintf(": %s is absent and was %s", r.Pointer, clip(r.Was))
	}
	return text
}

// clip shortens a value for a line.
func clip(doc json.RawMessage) string {
	const most = 60
	if len(doc) <= most {
		return string(doc)
	}
	return strings.ToValidUTF8(string(doc[:most]), "") + "…"
}

// End is how a saga has ended.
type End struct {
	Status   saga.Status            `json:"status"`
	Reason   *saga.Reason           `json:"reason,omitempty"`
	Output   json.RawMessage        `json:"output,omitempty"`
	Cost     string                 `json:"cost"` // of all attempts whose cost is known
	Residual []compensation.Residue `json:"residual,omitempty"`
}

// Options are what a replay needs in addition to the definition.
type Options struct {
	// Vars are the server's values for those that the definition reads and the journal does not
	// have.
	Vars map[string]json.RawMessage
}

// Against replays the journal of an ended saga against a definition. The records are all of the
// saga's, from the first on. Errors are ErrNotEnded, ErrSession and ErrContinues, and others if
// the journal cannot be read.
func Against(def *saga.Definition, id uuid.UUID, records []journal.Record, o Options) (Result, error) {
	rec, err := read(records)
	if err != nil {
		return Result{}, err
	}
	run := &run{def: def, id: id, rec: rec, vars: o.Vars}
	res, err := run.result()
	res.Before = rec.end
	return res, err
}

// recording is a journal, prepared for being replayed.
type recording struct {
	started   saga.StartedData
	end       End
	first     *journal.Record
	intents   map[attempt]*journal.Record
	outcomes  map[attempt]*journal.Record
	awaited   map[string][]*saga.Awaited   // what steps waited for, by path, in order
	events    map[string]json.RawMessage   // the events of emit steps, by path
	order     []attempt                    // the attempts with a request, in the journal's order
	inputs    []*input                     // in the journal's order
	times     map[moment][]*journal.Record // the records that are not used up, by what they say
	asked     []string                     // the paths of waits, in the journal's order
	emitted   []string                     // the paths of emit steps, in the journal's order
	costs     []string                     // of the outcomes
	timers    map[timer][]*journal.Record  // that fired and are not used up
	planned   map[plannedTimer]bool        // the timers that the saga has set, whether they fired or not
	heldUntil map[string]bool              // the paths of steps that are held until a time that no record has
	latest    map[int64]*saga.Time         // from when the waits of records count, by seq
	records   int                          // how many there are
	bytes     int                          // of their data
}

// attempt identifies an attempt of a track.
type attempt struct {
	path   string
	way    journal.Way
	number int
}

// moment identifies records that say the same, so that a new record gets the time of the recorded
// one.
type moment struct {
	kind journal.Kind
	attempt
}

// timer identifies a timer.
type timer struct {
	path string
	way  journal.Way
	name string
}

// plannedTimer is a time until which a step was to wait.
type plannedTimer struct {
	step string
	at   int64 // in milliseconds
}

// plan notes that a step was to wait until a time.
func (r *recording) plan(path string, at *saga.Time) {
	if at != nil {
		step, _ := saga.SplitQuery(path)
		r.planned[plannedTimer{step, at.UnixMilli()}] = true
	}
}

// input is a command or a signal.
type input struct {
	*journal.Record
	command saga.Command
	message uuid.UUID
	refused *machine.Draft // its record, if it was refused; it changes only the time
	done    bool
}

func read(records []journal.Record) (*recording, error) {
	r := &recording{
		intents: make(map[attempt]*journal.Record), outcomes: make(map[attempt]*journal.Record), awaited: make(map[string][]*saga.Awaited),
		events: make(map[string]json.RawMessage), times: make(map[moment][]*journal.Record), timers: make(map[timer][]*journal.Record), planned: make(map[plannedTimer]bool), heldUntil: make(map[string]bool),
		latest: make(map[int64]*saga.Time),
	}
	var err error
	if r.started, err = history.Started(records); err != nil {
		return nil, err
	}
	if r.started.Session != nil {
		return nil, ErrSession
	}
	if r.started.UndoOf != "" || r.started.RetryFrom != "" || r.started.Fork != nil {
		return nil, ErrContinues
	}
	r.first = &records[0]
	if records[len(records)-1].Kind != journal.Finished {
		return nil, ErrNotEnded
	}
	r.records = len(records)
	for i := range records {
		r.bytes += len(records[i].Data)
		if err := r.add(&records[i]); err != nil {
			return nil, fmt.Errorf("record %d: %w", records[i].Seq, err)
		}
	}
	r.end.Cost, err = sum(r.costs)
	return r, err
}

// add adds a record.
func (r *recording) add(rec *journal.Record) error {
	data, err := history.Decode(rec)
	if err != nil {
		return err
	}
	switch d := data.(type) {
	case *saga.SignalData:
		message, _ := uuid.FromString(d.Message)
		r.inputs = append(r.inputs, &input{Record: rec, message: message, command: saga.Command{Do: saga.Signal{Name: d.Name, Data: d.Payload}, Actor: d.Actor, At: rec.At}})
		return nil
	case *saga.CommandData:
		message, _ := uuid.FromString(d.Message)
		in := &input{Record: rec, message: message, command: commandOf(rec, d)}
		if d.Rejected != nil {
			in.refused = &machine.Draft{Kind: rec.Kind, Path: rec.Path, Way: rec.Way, Data: *d}
		}
		r.inputs = append(r.inputs, in)
		return nil
	}
	at := attempt{rec.Path, rec.Way, rec.Attempt}
	when := moment{rec.Kind, at}
	r.times[when] = append(r.times[when], rec)
	switch d := data.(type) {
	case *saga.IntentData:
		r.latest[rec.Seq] = d.Latest
		r.plan(rec.Path, d.WakeAt)
		switch {
		case d.Awaited != nil:
			r.asked = append(r.asked, rec.Path)
			r.awaited[rec.Path] = append(r.awaited[rec.Path], d.Awaited)
		case rec.Attempt > 0:
			r.intents[at] = rec
			r.order = append(r.order, at)
		}
	case *saga.OutcomeData:
		r.latest[rec.Seq] = d.Latest
		r.outcomes[at] = rec
		r.costs = append(r.costs, d.Cost)
		r.plan(rec.Path, d.RetryAt)
		if d.Event != nil {
			r.events[rec.Path] = d.Event
			r.emitted = append(r.emitted, rec.Path)
		}
	case *saga.DecidedData: // a status check may follow at once
		r.latest[rec.Seq] = d.Latest
		r.plan(rec.Path, &saga.Time{Time: rec.At})
		if d.Next == saga.NextHold {
			r.heldUntil[rec.Path] = true
		}
	case *saga.WokeData:
		key := timer{rec.Path, rec.Way, d.Timer}
		r.timers[key] = append(r.timers[key], rec)
	case *saga.FinishedData:
		r.end = End{Status: d.Status, Reason: d.Reason, Output: d.Output, Residual: d.Residual}
	}
	return nil
}

// commandOf returns the command of a record. Its Do is nil for a command that a replay does not
// know.
func commandOf(rec *journal.Record, d *saga.CommandData) saga.Command {
	c := saga.Command{Path: rec.Path, Reason: d.Reason, Actor: d.Actor, Role: d.Role, Trusted: d.Role == "", At: rec.At}
	for _, o := range []saga.Operation{
		saga.Cancel{Mode: d.Mode}, saga.Pause{}, saga.Resume{}, saga.Compensate{}, saga.Retry{NewKey: d.NewKey},
		saga.Resolve{Outcome: d.Outcome, Output: d.Output, NewKey: d.NewKey}, saga.Patch{Budget: d.Budget, Labels: d.Labels},
		saga.Approve{Data: d.Output}, saga.Reject{Data: d.Output}, saga.Release{}, saga.Revert{},
	} {
		if o.Verb() == d.Kind {
			c.Do = o
		}
	}
	if s := d.Session; s != nil && s.Cost != nil {
		c.Do = saga.Settle{Key: s.Key, Session: s.ID, Cost: *s.Cost}
	} else if s != nil {
		c.Do = saga.Reserve{Key: s.Key, Part: s.Part}
	}
	return c
}
