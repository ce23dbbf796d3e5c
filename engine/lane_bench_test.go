package engine_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// BenchmarkLane measures the lane's work for a saga of three requests with a timeout, from start to
// end. Commits and responses take no time.
func BenchmarkLane(b *testing.B) {
	for name, third := range map[string]saga.Answer{
		"succeeds": {Sent: true, Status: 201, Body: json.RawMessage(`{"id":"x3"}`)},
		"undone":   {Sent: true, Status: 422, Body: json.RawMessage(`{"code":"full"}`)},
	} {
		b.Run(name, func(b *testing.B) {
			def := compile(b, `
saga: booking
timeout: 1d
input: {trip: string}
steps:
  - {id: flight, http: "POST http://127.0.0.1:8001/do/flight", body: {trip: "${input.trip}", item: seat}, in_doubt: retry, compensate: {http: "DELETE http://127.0.0.1:8001/do/flight/${output.id}"}}
  - {id: hotel, http: "POST http://127.0.0.1:8001/do/hotel", body: {trip: "${input.trip}", item: room}, in_doubt: retry, compensate: {http: "DELETE http://127.0.0.1:8001/do/hotel/${output.id}"}}
  - {id: car, http: "POST http://127.0.0.1:8001/do/car", body: {trip: "${input.trip}", item: car}, in_doubt: retry, compensate: {http: "DELETE http://127.0.0.1:8001/do/car/${output.id}"}}
`)
			data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1, Input: json.RawMessage(`{"trip":"t-1"}`)})
			if wrong != nil {
				b.Fatal(wrong)
			}
			lane := engine.NewLane(engine.LaneConfig{ParkAfter: time.Minute, MaxBatch: 256, MaxRecords: 256, Random: func() uint64 { return 0 }})
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			lane.Handle(now, now, engine.Leased{Node: "node-1"})
			headers := map[string]string{"content-type": "application/json", "date": "Thu, 01 Jan 2026 00:00:00 GMT", "content-length": "12"}
			other := saga.Answer{Sent: true, Status: 201, Body: json.RawMessage(`{"id":"x1"}`), Headers: headers}
			third.Headers = headers
			var id uuid.UUID
			gen := uuid.NewGen()
			b.ReportAllocs()
			for b.Loop() {
				id, _ = gen.NewV7()
				events := []engine.Event{engine.StartSaga{ID: id, Def: def, Start: journal.Start{Definition: def.Name, Version: 1, SHA256: def.SHA256}, Data: data, Reply: 1}}
				for len(events) > 0 {
					ev := events[0]
					events = events[1:]
					for _, eff := range lane.Handle(now, now, ev) {
						switch eff := eff.(type) {
						case engine.Commit:
							events = append(events, engine.Committed{Number: eff.Number, Results: make([]journal.Result, len(eff.Batch))})
						case engine.Perform:
							a := other
							if eff.Send.Path == "car" {
								a = third
							}
							events = append(events, engine.Answered{ID: id, Path: eff.Send.Path, Way: eff.Send.Way, Attempt: eff.Send.Attempt, Answer: a})
						}
					}
				}
				if lane.Len() != 0 {
					b.Fatal("the saga has not ended")
				}
			}
		})
	}
}
