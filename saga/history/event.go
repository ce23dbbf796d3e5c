package history

import (
	"errors"
	"strings"
	"time"

	"recourse/journal"
	"recourse/saga"
)

// Event is a record of a journal, and what earlier records say about it. It is not safe for
// concurrent use.
type Event struct {
	*journal.Record
	Track    Track
	Since    time.Duration // after the start of the saga
	TakeOver bool          // another process has written the record before
	Begun    Begun         // for the outcome of an attempt: its intent

	data any
	err  error
}

// Track identifies a track of a step: its forward work, its compensation, or its status checks. It
// is comparable. The records of the saga itself have the zero track.
type Track struct {
	Step  string // the step's path
	Way   journal.Way
	Check bool // the status checks of the forward work
}

// TrackOf returns the track of a record.
func TrackOf(r *journal.Record) Track {
	step, check := saga.SplitQuery(r.Path)
	return Track{Step: step, Way: r.Way, Check: check}
}

// Begun is the intent of an attempt in flight. The zero value is unknown.
type Begun struct {
	At     time.Time
	Record *journal.Record // nil after Reader.Drop

	attempt int
}

// Known reports whether the reader has read the intent.
func (b Begun) Known() bool { return !b.At.IsZero() }

// Iteration reports whether the record ends an iteration of a loop. Its track is that of no step.
func (e *Event) Iteration() bool {
	if e.Kind != journal.Decided || !strings.HasSuffix(e.Path, "]") {
		return false
	}
	d, _ := DataOf[saga.DecidedData](e.Record)
	return d.By == "" // otherwise it settles a call of a session, whose path has the same form
}

// Data returns the record's data: a pointer to the type of its kind, such as *[saga.IntentData];
// nil for a kind without data. An error says why the data cannot be read; then the result is nil.
// The data must not be changed.
func (e *Event) Data() (any, error) {
	if e.data == nil && e.err == nil {
		e.data, e.err = Decode(e.Record)
	}
	return e.data, e.err
}

// Outcome is the data of an outcome without its documents, which may be large.
type Outcome struct {
	StatusCode int              `json:"status_code"`
	Error      *saga.Failure    `json:"error"`
	Cost       string           `json:"cost"`
	RetryAt    *saga.Time       `json:"retry_at"`
	Next       saga.Next        `json:"next"`
	Found      *bool            `json:"found"`
	Tokens     *saga.TokensView `json:"tokens"`
}

// OutcomeOf returns the data of an outcome without its documents. An error says what could not be
// read; then the other fields may still be set.
func OutcomeOf(r *journal.Record) (d Outcome, err error) {
	err = read(r, &d)
	return d, err
}

// ModelUse returns the language model that an attempt has asked, and the tokens that its outcome
// reports. The tokens are zero if they are unknown; the model is "" if the tokens are zero, or if
// the intent is unknown.
func (e *Event) ModelUse() (model string, used saga.TokensView) {
	var d struct {
		Tokens saga.TokensView `json:"tokens"`
	}
	if read(e.Record, &d) != nil || d.Tokens.Input <= 0 && d.Tokens.Output <= 0 {
		return "", saga.TokensView{}
	}
	if e.Begun.Record == nil {
		return "", d.Tokens
	}
	var asked struct {
		Request struct {
			Body struct {
				Model string `json:"model"`
			} `json:"body"`
		} `json:"request"`
	}
	if read(e.Begun.Record, &asked) != nil {
		return "", d.Tokens
	}
	return asked.Request.Body.Model, d.Tokens
}

// DataOf returns the data of a record whose kind has data of type T, such as [saga.CommandData]. ok
// is false for other records, which are not decoded, and for data that cannot be read.
func DataOf[T any](r *journal.Record) (d T, ok bool) {
	into, ok := newData(r.Kind).(*T)
	if !ok || read(r, into) != nil {
		return d, false
	}
	return *into, true
}

// Decode returns the data of a record, as Event.Data does.
func Decode(r *journal.Record) (any, error) {
	into := newData(r.Kind)
	if into == nil {
		return nil, nil
	}
	if err := read(r, into); err != nil {
		return nil, err
	}
	return into, nil
}

// newData returns a pointer to empty data of a kind; nil for a kind without data.
func newData(kind journal.Kind) any {
	switch kind {
	case journal.Started:
		return new(saga.StartedData)
	case journal.Intent:
		return new(saga.IntentData)
	case journal.Outcome:
		return new(saga.OutcomeData)
	case journal.Decided:
		return new(saga.DecidedData)
	case journal.Woke:
		return new(saga.WokeData)
	case journal.Signalled:
		return new(saga.SignalData)
	case journal.Compensating:
		return new(saga.CompensatingData)
	case journal.Operator, journal.Paused, journal.Resumed, journal.Cancelled:
		return new(saga.CommandData)
	case journal.Finished:
		return new(saga.FinishedData)
	case journal.Attached:
		return new(saga.AttachedData)
	case journal.Called:
		return new(saga.CalledData)
	case journal.Committed:
		return new(saga.CommittedData)
	}
	return nil
}

// errNoStart says that the first record is not the start of a saga, or has no data.
var errNoStart = errors.New("the journal does not begin with its start")

// Started returns the data of a journal's first record.
func Started(records []journal.Record) (d saga.StartedData, err error) {
	if len(records) == 0 || records[0].Kind != journal.Started || len(records[0].Data) == 0 {
		return d, errNoStart
	}
	if err := read(&records[0], &d); err != nil {
		return saga.StartedData{}, err
	}
	return d, nil
}

// read decodes a record's data. A record without data leaves into as it is.
func read(r *journal.Record, into any) error {
	return r.Decode(into)
}
