package machine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

// The second step of a saga is refused, so the machine decides to undo the first.
func Example() {
	definition, findings := dsl.Parse("trip", []byte(`
saga: trip
steps:
  - id: flight
    http: POST https://flights.example/bookings
    compensate:
      http: DELETE https://flights.example/bookings/${output.id}
  - id: hotel
    http: POST https://hotels.example/bookings
    compensate: none
`), dsl.Options{Kinds: kinds.All()})
	if findings != nil {
		fmt.Println(findings)
		return
	}
	m := machine.New(definition, uuid.Must(uuid.FromString("01998a6e-8000-7000-8000-000000000001")))
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

	// A real caller appends the record to its store, and waits until it is durable.
	commit := func(draft machine.Draft) {
		record, err := m.Append(draft, now, "node-1")
		if err != nil {
			panic(err)
		}
		fmt.Println(strings.TrimSpace(fmt.Sprintf("%d %s %s %s", record.Seq, record.Kind, record.Path, record.Way)))
	}
	send := func(s machine.Send) saga.Answer {
		if s.Path == "hotel" {
			return saga.Answer{Sent: true, Status: 422}
		}
		return saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(`{"id":7}`)}
	}

	start, _, wrong := machine.Begin(definition, machine.StartOptions{Actor: "example"})
	if len(wrong) > 0 {
		fmt.Println(wrong)
		return
	}
	commit(m.Start(start))
	for more := true; more; {
		more = false
		for _, decision := range m.Decide() {
			switch d := decision.(type) {
			case machine.Write:
				commit(d.Record)
				more = true
			case machine.Dispatch:
				commit(d.Intent)
				outcome, err := m.RecordOutcome(d.Send.Path, d.Send.Way, d.Send.Attempt, send(d.Send), now, 0)
				if err != nil {
					panic(err)
				}
				commit(outcome)
				more = true
			}
		}
	}
	fmt.Println(m.Status())
	// Output:
	// 1 started
	// 2 intent flight do
	// 3 outcome flight do
	// 4 intent hotel do
	// 5 outcome hotel do
	// 6 compensating
	// 7 intent flight undo
	// 8 outcome flight undo
	// 9 finished
	// compensated
}
