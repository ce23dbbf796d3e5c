package sleep_test

import (
	"encoding/json"
	"testing"
	"time"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
	"recourse/saga/kinds/sleep"
)

// A time before the year 0, which RFC 3339 can only say with an offset, is past as others are: it
// is recorded as a time that is read again.
func TestDueLongAgo(t *testing.T) {
	def, errs := dsl.Parse("t", []byte("saga: x\nsteps:\n  - id: a\n    sleep: ${input}\n"), dsl.Options{Kinds: []dsl.Kind{sleep.Kind()}})
	if errs != nil {
		t.Fatal(errs)
	}
	from := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at, err := def.ByID["a"].Body.(saga.Wait).Due(expr.MapEnv{"input": "0000-01-01T00:00:00+23:59"}, from)
	if err != nil || at.After(from) {
		t.Fatalf("due %v, %v", at, err)
	}
	doc, err := json.Marshal(saga.Time{Time: at})
	if err != nil {
		t.Fatal(err)
	}
	var again saga.Time
	if err := json.Unmarshal(doc, &again); err != nil || !again.Equal(at) {
		t.Errorf("%s is read as %v, %v", doc, again, err)
	}
}
