package saga

import (
	"encoding/json"
	"strings"
	"time"

	"recourse/saga/expr"
)

// Trigger starts sagas of its definition, on an event or at a time.
type Trigger struct {
	Event string // a pattern, see MatchEvent; "" for a Cron
	Cron  *Cron
	If    *expr.Program  // over event; nil: true
	Input *expr.Template // over event; nil: the event's data
}

// Cron says when a trigger fires by the clock.
type Cron struct {
	Spec    string // as the definition writes it
	Zone    *time.Location
	CatchUp CatchUp
	next    Schedule
}

// Schedule is a sequence of times.
type Schedule interface {
	// Next returns the first time after t, zero if there is none.
	Next(t time.Time) time.Time
}

// NewCron returns a Cron for a schedule whose times are in zone.
func NewCron(spec string, zone *time.Location, catchUp CatchUp, next Schedule) *Cron {
	return &Cron{Spec: spec, Zone: zone, CatchUp: catchUp, next: next}
}

// Next returns the first time after t, in UTC; zero if there is none.
func (c *Cron) Next(t time.Time) time.Time {
	next := c.next.Next(t.In(c.Zone))
	if next.IsZero() {
		return next
	}
	return next.UTC()
}

// CatchUp says what happens with times that passed while no server ran.
type CatchUp string

// The values of CatchUp.
const (
	CatchLast CatchUp = "last" // the last of them fires
	CatchAll  CatchUp = "all"
	CatchNone CatchUp = "none"
)

// Event is the part of a CloudEvent that triggers and signals see.
type Event struct {
	ID      string
	Source  string
	Type    string
	Subject string          // "": no subject
	Time    string          // RFC 3339; "": no time
	Data    json.RawMessage // nil: no data
	// Traceparent is the event's parent span (the Distributed Tracing extension); "": unknown.
	Traceparent string
}

// EventFields are the fields of `event` in a trigger. A cron trigger has only the last one.
var EventFields = []string{"id", "source", "type", "subject", "data", "time"}

// Root implements expr.Env.
func (e *Event) Root(name string) (any, bool) {
	if name != "event" {
		return nil, false
	}
	v := map[string]any{"id": e.ID, "source": e.Source, "type": e.Type, "subject": text(e.Subject), "time": text(e.Time), "data": nil}
	if e.Data != nil {
		v["data"] = expr.Raw(e.Data)
	}
	return v, true
}

// text returns null for an empty text.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// Wants reports whether the trigger's `if` holds for an event.
func (t *Trigger) Wants(e *Event) (bool, error) {
	if t.If == nil {
		return true, nil
	}
	return t.If.Bool(e)
}

// Begin returns the input of the saga that an event starts.
func (t *Trigger) Begin(e *Event) (json.RawMessage, error) {
	if t.Input == nil {
		return e.Data, nil
	}
	return t.Input.JSON(e)
}

// MatchEvent reports whether a pattern matches an event's type: it is the type itself, or it ends
// in ".*" and the type begins with the rest.
func MatchEvent(pattern, kind string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasSuffix(prefix, ".") {
		return len(kind) > len(prefix) && strings.HasPrefix(kind, prefix)
	}
	return pattern == kind
}

// OwnEvents is the prefix of the types of events that the server itself creates.
const OwnEvents = "recourse."
