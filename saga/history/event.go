package history

import (
	"encoding/json"
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
	return e.Kind == journal.Decided && strings.HasSuffix(e.Path, "]")
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
// is false for other records, and for data that cannot be read.
func DataOf[T any](r *journal.Record) (d T, ok bool) {
	data, err := Decode(r)
	if err != nil {
		return d, false
	}
	p, ok := data.(*T)
	if !ok {
		return d, false
	}
	return *p, true
}

// Decode returns the data of a record, as Event.Data does.
func Decode(r *journal.Record) (any, error) {
	switch r.Kind {
	case journal.Started:
		return decode[saga.StartedData](r)
	case journal.Intent:
		return decode[saga.IntentData](r)
	case journal.Outcome:
		return decode[saga.OutcomeData](r)
	case journal.Decided:
		return decode[saga.DecidedData](r)
	case journal.Woke:
		return decode[saga.WokeData](r)
	case journal.Signalled:
		return decode[saga.SignalData](r)
	case journal.Compensating:
		return decode[saga.CompensatingData](r)
	case journal.Operator, journal.Paused, journal.Resumed, journal.Cancelled:
		return decode[saga.CommandData](r)
	case journal.Finished:
		return decode[saga.FinishedData](r)
	}
	return nil, nil
}

// errNoStart says that the first record is not the start of a saga, or has no data.
var errNoStart = errors.New("the journal does not begin with its start")

// Started returns the data of a journal's first record.
func Started(records []journal.Record) (saga.StartedData, error) {
	if len(records) == 0 || records[0].Kind != journal.Started || len(records[0].Data) == 0 {
		return saga.StartedData{}, errNoStart
	}
	d, err := decode[saga.StartedData](&records[0])
	if err != nil {
		return saga.StartedData{}, err
	}
	return *d.(*saga.StartedData), nil
}

func decode[T any](r *journal.Record) (any, error) {
	d := new(T)
	if err := read(r, d); err != nil {
		return nil, err
	}
	return d, nil
}

// read decodes a record's data. A record without data leaves into as it is.
func read(r *journal.Record, into any) error {
	if len(r.Data) == 0 {
		return nil
	}
	return json.Unmarshal(r.Data, into)
}
