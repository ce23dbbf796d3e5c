package journal

import (
	"testing"
	"time"
)

// Nodes are told of sagas that they may claim, and of work for others; a hint that is missing costs
// an interval between two polls.
func TestHints(t *testing.T) {
	t.Parallel()
	now := time.Unix(1700000000, 0)
	row := func(ended, wake time.Time) *Row { return &Row{UpdatedAt: now, EndedAt: ended, WakeAt: wake} }
	for what, tt := range map[string]struct {
		a    Append
		want bool
	}{
		"not held":                 {Append{Unheld: true}, true},
		"released and due":         {Append{Release: true, Row: row(time.Time{}, now)}, true},
		"released, due later":      {Append{Release: true, Row: row(time.Time{}, now.Add(1))}, false},
		"released, waits for word": {Append{Release: true, Row: row(time.Time{}, time.Time{})}, false},
		"released, has ended":      {Append{Release: true, Row: row(now, now)}, false},
		"released without a row":   {Append{Release: true}, false},
		"kept and due":             {Append{Row: row(time.Time{}, now)}, false},
	} {
		if got := tt.a.ClaimableNow(); got != tt.want {
			t.Errorf("%s: claimable %v", what, got)
		}
	}
	for what, tt := range map[string]struct {
		a    Append
		want bool
	}{
		"nothing":   {Append{}, false},
		"a task":    {Append{Tasks: make([]Task, 1)}, true},
		"a message": {Append{Messages: make([]Message, 1)}, true},
	} {
		if got := tt.a.HasOthersWork(); got != tt.want {
			t.Errorf("%s: work %v", what, got)
		}
	}
}
