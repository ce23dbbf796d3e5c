package journal

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDelays(t *testing.T) {
	for name, tt := range map[string]struct {
		delay func(int) (time.Duration, bool)
		want  []string
	}{
		"released": {RetryDelay, []string{"1m0s", "1m0s", "2m0s", "4m0s", "8m0s", "16m0s", "32m0s", "1h0m0s", "quarantine", "quarantine"}},
		"died":     {TakeoverDelay, []string{"0s", "0s", "0s", "0s", "1s", "4s", "16s", "1m4s", "quarantine", "quarantine"}},
	} {
		var got []string
		for claims := range tt.want {
			d, ok := tt.delay(claims)
			text := d.String()
			if !ok {
				text = "quarantine"
			}
			got = append(got, text)
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// The indexes of the schema contain these numbers, so a change needs a migration.
func TestNumbersOfTheSchema(t *testing.T) {
	if SuspectAfter != 2 || QuarantineAfter != 8 {
		t.Errorf("SuspectAfter = %d, QuarantineAfter = %d: the schema's indexes have 2 and 8", SuspectAfter, QuarantineAfter)
	}
}

// The id of the entry is the same until the saga makes progress.
func TestHaltedEntry(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h := Halted{Saga: sagaID, Definition: "d", Claims: 8, Seq: 7, Last: at, Now: at.Add(time.Hour)}
	e := h.Entry()
	var shown struct{ Title, Detail, ETag string }
	if err := json.Unmarshal(e.Data, &shown); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"8 times", "2026-01-02T03:04:05.000Z", sagaID.String() + "/resume"} {
		if !strings.Contains(shown.Detail, want) {
			t.Errorf("detail %q does not say %q", shown.Detail, want)
		}
	}
	if e.Kind != KindStuck || e.Path != "" || !e.Since.Equal(h.Now) || e.Saga != sagaID || e.Definition != "d" || shown.Title == "" || shown.ETag != "7" {
		t.Errorf("entry %+v", e)
	}
	again, later := h, h
	again.Claims, again.Now = 9, at.Add(2*time.Hour)
	later.Seq = 8
	if again.Entry().ID != e.ID || later.Entry().ID == e.ID {
		t.Error("an entry's id must depend on the saga and its last record, and on nothing else")
	}
}

// A saga that waits for a person is stuck, too, but not in quarantine.
func TestQuarantined(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		claims int
		status string
		ended  time.Time
		want   bool
	}{
		"in quarantine":        {QuarantineAfter, StatusStuck, time.Time{}, true},
		"one claim less":       {QuarantineAfter - 1, StatusStuck, time.Time{}, false},
		"waits for a person":   {0, StatusStuck, time.Time{}, false},
		"claimed, not stuck":   {QuarantineAfter, "running", time.Time{}, false},
		"has ended since then": {QuarantineAfter, StatusStuck, time.Unix(1, 0), false},
	} {
		h := Head{Claims: tt.claims, Row: Row{Status: tt.status, EndedAt: tt.ended}}
		if got := h.Quarantined(); got != tt.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}
