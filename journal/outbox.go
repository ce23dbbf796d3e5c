package journal

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gofrs/uuid/v5"
)

// Event is a notification for one sink. It is delivered at least once.
type Event struct {
	// ID is the same at each delivery, so that the sink can detect a repetition. Events for several
	// sinks may share it.
	ID   uuid.UUID
	Saga uuid.UUID // Nil: it belongs to no saga
	Sink string
	Data json.RawMessage // the body of the delivery
}

// Delivery is an event that is due.
type Delivery struct {
	Event
	Attempts int       // failed attempts so far
	Since    time.Time // when the event was stored
}

// Outbox stores events until they are delivered. All times are the store's.
type Outbox interface {
	// PutEvents stores events that belong to no append, in one transaction. An event for a sink
	// that exists stays as it is; one that was delivered is stored again. Errors: ErrUnknown.
	PutEvents(ctx context.Context, events []Event) error

	// ClaimEvents returns up to limit events for each of the sinks, which are distinct, in their
	// order. Of one sink's events that are due, the one that has been due for longest comes first.
	// For the duration of the lease no call returns them again; after that they are due again.
	// Errors: ErrUnknown.
	ClaimEvents(ctx context.Context, sinks []string, limit int, lease time.Duration) ([]Delivery, error)

	// EventDelivered deletes an event for a sink. It does nothing if there is no such event.
	// Errors: ErrUnknown.
	EventDelivered(ctx context.Context, event uuid.UUID, sink string) error

	// EventFailed counts a failed attempt and makes the event due again after wait. It does nothing
	// if there is no such event. Errors: ErrUnknown; a repetition may count the attempt twice.
	EventFailed(ctx context.Context, event uuid.UUID, sink string, wait time.Duration, why string) error

	// OutboxStats counts the events that are not delivered yet, by sink, in the order of names. If
	// there are very many, it may return a recent count.
	OutboxStats(ctx context.Context) ([]OutboxStat, error)
}

// OutboxStat describes the events for one sink that are not delivered yet.
type OutboxStat struct {
	Sink   string
	Events int
	Oldest time.Time // when the oldest event was stored
	Last   string    // error of the latest failed attempt; "" if none has failed
}

// Schedules stores when each cron trigger last fired, so that a node knows which times were missed
// while all nodes were down. It is not a lock: the starts of a trigger have idempotency keys.
type Schedules interface {
	// Fired returns when each schedule last fired.
	Fired(ctx context.Context) (map[string]time.Time, error)
	// SetFired stores when a schedule fired. An earlier time than the stored one is ignored.
	SetFired(ctx context.Context, name string, at time.Time) error
}
