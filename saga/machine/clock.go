package machine

import (
	"time"

	"recourse/saga"
)

// A node knows the store's clock only to a span of time. Records have the earliest time of the
// span, so that no timer fires early. A wait counts from the latest time, so that it is never too
// short; the data of the record with which it begins has that time. A machine that nobody tells it
// takes the times of records for exact.

// Clock tells the machine the latest time that the store's clock may show now.
func (m *Machine) Clock(latest time.Time) {
	m.latest = latest.UTC().Add(time.Millisecond - 1).Truncate(time.Millisecond)
}

// from returns when a wait begins that is decided now.
func (m *Machine) from() time.Time {
	if m.latest.After(m.at) {
		return m.latest
	}
	return m.at
}

// recorded returns Clock's time for the data of a record with which a wait begins if waits is true.
// nil: no wait begins, or the machine was not told the time.
func (m *Machine) recorded(waits bool) *saga.Time {
	if !waits || m.latest.IsZero() {
		return nil
	}
	return &saga.Time{Time: m.from()}
}

// counts returns from when the waits of a record count: from the latest time in its data or, if
// that has none, from the record's time.
func counts(latest *saga.Time, at time.Time) time.Time {
	if latest == nil {
		return at
	}
	return latest.Time
}
