package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"recourse/engine"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/journal/sqlite"
	"recourse/migrations"
	"recourse/saga"
	"recourse/saga/machine"
)

// manySteps makes a definition of n POSTs, each reading the output of the one before it. It is
// longer than a document may be, so it is made of the parts of a short one.
func manySteps(b *testing.B, n int) *saga.Definition {
	b.Helper()
	def := compile(b, `
saga: long
steps:
  - {id: first, http: "POST http://127.0.0.1/x", body: {n: 1}, compensate: {http: "DELETE http://127.0.0.1/x/${output.id}"}}
  - {id: next, http: "POST http://127.0.0.1/x", body: {after: "${steps.first.output.id}"}, compensate: {http: "DELETE http://127.0.0.1/x/${output.id}"}}
`)
	next := def.Steps[1]
	def.Steps = def.Steps[:1]
	for i := 1; i < n; i++ {
		s := *next
		s.ID = fmt.Sprintf("s%d", i)
		def.Steps = append(def.Steps, &s)
		def.ByID[s.ID] = &s
	}
	return def
}

// BenchmarkPerStep measures the cost of a step, which must not depend on the number of steps:
// compare the ns/step of 100 and 10000 in one run.
func BenchmarkPerStep(b *testing.B) {
	open := map[string]func(b *testing.B) journal.Store{
		"memory": func(*testing.B) journal.Store { return memory.New(memory.Config{}) },
		"sqlite": func(b *testing.B) journal.Store {
			path := filepath.Join(b.TempDir(), "recourse.db")
			if err := migrations.Up(b.Context(), migrations.SQLite(path)); err != nil {
				b.Fatal(err)
			}
			s, err := sqlite.Open(b.Context(), path, sqlite.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = s.Close() })
			return s
		},
	}
	for _, store := range []string{"memory", "sqlite"} {
		for _, steps := range []int{100, 10_000} {
			b.Run(fmt.Sprintf("%s/steps=%d", store, steps), func(b *testing.B) {
				def := manySteps(b, steps)
				answer := callerFunc(func(context.Context, saga.Request) saga.Answer {
					return saga.Answer{Sent: true, Status: 201, Body: json.RawMessage(`{"id":"x1"}`)}
				})
				n := startNode(b, open[store](b), definitions{"long": def}, func(c *engine.Config) {
					c.Callers = map[string]engine.Caller{"http": answer}
				})
				data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1})
				if wrong != nil {
					b.Fatal(wrong)
				}
				for !n.Ready() {
					<-time.After(time.Millisecond)
				}
				total := time.Duration(0)
				for b.Loop() {
					began := time.Now()
					begun, err := n.Start(b.Context(), def, journal.Start{Definition: def.Name, Version: 1, SHA256: def.SHA256}, data, false)
					id := begun.ID
					if err != nil {
						b.Fatal(err)
					}
					grown, stop := n.Watch(id)
					for {
						h, err := n.store.Saga(b.Context(), id)
						if err != nil {
							b.Fatal(err)
						}
						if !h.EndedAt.IsZero() {
							break
						}
						select {
						case <-grown:
						case <-time.After(100 * time.Millisecond):
						}
					}
					stop()
					total += time.Since(began)
				}
				b.ReportMetric(float64(total.Nanoseconds())/float64(b.N)/float64(steps), "ns/step")
			})
		}
	}
}
