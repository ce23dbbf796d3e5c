package journal

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gofrs/uuid/v5"
)

// Event is something to be told to one sink outside, at least once.
type Event struct {
	ID   uuid.UUID // the same at each delivery, so that the sink can tell a repetition; each sink may get one of its own under it
	Saga uuid.UUID
	Sink string
	Data json.RawMessage // as it is sent
}

// Delivery is an event that is to be delivered now.
type Delivery struct {
	Event
	Attempts int       // so far, failed ones
	Since    time.Time // when it was made
}

// Outbox keeps events until they are delivered. All times are the store's.
type Outbox interface {
	// ClaimEvents returns up to limit events that are due, the longest due first. Nobody
	// gets them for so long, the caller included; after that they are due again.
	ClaimEvents(ctx context.Context, limit int, lease time.Duration) ([]Delivery, error)

	// EventDelivered forgets an event for a sink. One that is gone is no error.
	EventDelivered(ctx context.Context, event uuid.UUID, sink string) error

	// EventFailed counts an attempt, and makes the event due again after a wait. One that is gone
	// is no error. After ErrUnknown the same attempt may be counted twice.
	EventFailed(ctx context.Context, event uuid.UUID, sink string, wait time.Duration, why string) error

	// OutboxStats counts the events that wait, by sink, in the order of their names, for metrics
	// and for people.
	OutboxStats(ctx context.Context) ([]OutboxStat, error)
}

// OutboxStat is what waits for one sink.
type OutboxStat struct {
	Sink   string
	Events int
	Oldest time.Time // when the oldest was made
	Last   string    // why the last attempt failed, of those that wait; "" if none has
}

// Schedules remembers when cron triggers have fired last, so that a node that was
// down knows what it has missed. It is no lock: starts are deduplicated by their keys.
type Schedules interface {
	// Fired returns when each schedule has fired last.
	Fired(ctx context.Context) (map[string]time.Time, error)
	// SetFired notes a firing. It never goes back in time.
	SetFired(ctx context.Context, name string, at time.Time) error
}
