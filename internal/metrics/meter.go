package metrics

import "time"

// Committed implements engine.Meter.
func (m *Metrics) Committed(appends int, took time.Duration) {
	m.commitSeconds.Observe(took.Seconds())
	m.commitAppends.Observe(float64(appends))
}

// Renewed implements engine.Meter.
func (m *Metrics) Renewed(left time.Duration) { m.leaseLeft.Observe(left.Seconds()) }

// Claimed implements engine.Meter.
func (m *Metrics) Claimed(late time.Duration) { m.claimedLate.Observe(late.Seconds()) }

// Delivered counts an event that a sink has accepted at that age.
func (m *Metrics) Delivered(sink string, age time.Duration) {
	m.outboxAge.WithLabelValues(sink).Observe(age.Seconds())
}
