package machine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

// BenchmarkForeach has so many items go through a loop, so many of them at once. Cost per item
// should hardly depend on either.
func BenchmarkForeach(b *testing.B) {
	for _, size := range []struct{ items, parallel int }{{100, 1}, {1000, 1}, {10_000, 1}, {1000, 50}, {10_000, 50}, {1000, 1000}} {
		b.Run(fmt.Sprintf("items=%d/parallel=%d", size.items, size.parallel), func(b *testing.B) {
			src := fmt.Sprintf(`
saga: wide
input: {list: [integer]}
steps:
  - id: all
    foreach: ${input.list}
    max_items: 10000
    max_parallel: %d
    steps:
      - {id: one, http: "POST http://w/one", body: {n: "${item}"}, compensate: {http: "DELETE http://w/one/${output.id}"}}
      - {id: two, http: "GET http://w/two/${steps.one.output.id}"}
`, size.parallel)
			def, errs := dsl.Parse("wide", []byte(src), dsl.Options{Kinds: kinds.All()})
			if errs != nil {
				b.Fatal(errs)
			}
			list := strings.TrimSuffix(strings.Repeat("7,", size.items), ",")
			data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1, Input: json.RawMessage(`{"list":[` + list + `]}`)})
			if wrong != nil {
				b.Fatal(wrong)
			}
			for b.Loop() {
				through(b, def, data)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(size.items), "ns/item")
		})
	}
}

// through drives a saga to its end, oldest request first; each succeeds.
func through(b *testing.B, def *saga.Definition, data saga.StartedData) {
	m := machine.New(def, uuid.Must(uuid.FromString("01920000-0000-7000-8000-000000000001")))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	write := func(d machine.Draft) {
		if _, err := m.Append(d, now, "n"); err != nil {
			b.Fatal(err)
		}
	}
	write(m.Start(data))
	var open []machine.Send
	for !m.Status().Terminal() {
		did := false
		for _, d := range m.Decide() {
			switch d := d.(type) {
			case machine.Write:
				write(d.Record)
				did = true
			case machine.Dispatch:
				write(d.Intent)
				open = append(open, d.Send)
				did = true
			}
		}
		if did {
			continue
		}
		s := open[0]
		open = open[1:]
		r, err := m.RecordOutcome(s.Path, s.Way, s.Attempt, saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(`{"id":"x"}`)}, now, 7)
		if err != nil {
			b.Fatal(err)
		}
		write(r)
	}
}
