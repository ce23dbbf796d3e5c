package sleep_test

import (
	"errors"
	"testing"
	"time"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
	"recourse/saga/kinds/sleep"
)

func TestDue(t *testing.T) {
	from := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		sleep, input string
		want         time.Time // zero: a failure bad_duration
	}{
		{"1h30m", "", from.Add(90 * time.Minute)},
		{"0s", "", from},
		{"2026-02-01T00:00:00+01:00", "", time.Date(2026, 1, 31, 23, 0, 0, 0, time.UTC)},
		{"2020-01-01T00:00:00Z", "", time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)},
		{"${input}", "30s", from.Add(30 * time.Second)},
		{"${input}m", "3", from.Add(3 * time.Minute)},
		{"${input}", "2027-01-01T00:00:00Z", time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)},
		{"${input}", "tomorrow", time.Time{}},
		{"${input}", "9999-01-01T00:00:00Z", time.Time{}},
		{"${input}", "99999d", time.Time{}},
	} {
		def, errs := dsl.Parse("t", []byte("saga: x\nsteps:\n  - id: a\n    sleep: "+tt.sleep+"\n"), dsl.Options{Kinds: []dsl.Kind{sleep.Kind()}})
		if errs != nil {
			t.Fatal(errs)
		}
		got, err := def.ByID["a"].Body.(saga.Wait).Due(expr.MapEnv{"input": tt.input}, from)
		var f *saga.Failure
		if tt.want.IsZero() {
			if !errors.As(err, &f) || f.Code != "bad_duration" {
				t.Errorf("sleep: %s with %q gives %v, %v; want bad_duration", tt.sleep, tt.input, got, err)
			}
		} else if err != nil || !got.Equal(tt.want) {
			t.Errorf("sleep: %s with %q gives %v, %v; want %v", tt.sleep, tt.input, got, err, tt.want)
		}
	}
}
