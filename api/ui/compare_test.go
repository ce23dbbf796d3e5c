package ui

import (
	"testing"
	"time"

	"recourse/saga"
	"recourse/saga/compare"
)

// The bars of sagas that last for months stay within the axis.
func TestBarOfMonths(t *testing.T) {
	start := saga.Time{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	after := func(days int) *saga.Time { return &saga.Time{Time: start.AddDate(0, 0, days)} }
	got := barOf(&compare.Side{StartedAt: after(150), EndedAt: after(300)}, start, 300*24*time.Hour)
	if *got != (bar{From: 500, Width: 500}) {
		t.Errorf("%+v", got)
	}
}
