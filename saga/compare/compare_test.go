package compare_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/compare"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

// ended runs a saga of a definition, each of whose requests succeeds.
func ended(t *testing.T, def *saga.Definition, id, input string) (*machine.Machine, []journal.Record) {
	t.Helper()
	data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1, Input: json.RawMessage(input)})
	if wrong != nil {
		t.Fatal(wrong)
	}
	m, now := machine.New(def, uuid.FromStringOrNil(id)), time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC)
	var records []journal.Record
	add := func(d machine.Draft, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		r, err := m.Append(d, now, "n1")
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	add(m.Start(data), nil)
	for !m.Ended() {
		switch d := m.Decide()[0].(type) {
		case machine.Dispatch:
			add(d.Intent, nil)
			add(m.RecordOutcome(d.Send.Path, d.Send.Way, d.Send.Attempt, saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(`{}`)}, now, 0))
		case machine.Write:
			add(d.Record, nil)
		default:
			t.Fatalf("%T", d)
		}
	}
	return m, records
}

// Keys are left out of the comparison, whatever their text is: it may occur in a number or in
// another text, and may contain the saga's id.
func TestSagasWithKeys(t *testing.T) {
	def, errs := dsl.Parse("x.yaml", []byte(`saga: x
input: {order: integer, note: string}
steps:
  - id: number
    http: POST https://pay.example/charges
    idempotency: {header: Key, key: "${input.order}"}
    body: {order: 7, cents: 1900, note: "${input.note}"}
    in_doubt: retry
  - id: short
    http: POST https://pay.example/v9/charges
    idempotency: {query: key, key: "${input.order}"}
    body: {key: "${key}", note: "10 of 9"}
    in_doubt: retry
  - id: prefixed
    http: POST https://pay.example/charges
    idempotency: {header: Key, key: "${saga.id}-charge"}
    body: {of: "${saga.id}"}
    in_doubt: retry
`), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	for range 20 { // once, it depended on the order of a map
		here, a := ended(t, def, "01920000-0000-7000-8000-000000000001", `{"order":9,"note":"x"}`)
		there, b := ended(t, def, "01920000-0000-7000-8000-000000000002", `{"order":10,"note":"x"}`)
		res, err := compare.Sagas(here, there, a, b)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range res.Steps {
			if s.Verdict != compare.Same {
				t.Errorf("%s: %s, %+v", s.Path, s.Verdict, s.Difference)
			}
		}
	}
}
