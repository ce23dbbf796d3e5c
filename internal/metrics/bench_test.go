package metrics_test

import (
	"testing"
	"time"

	"recourse/engine"
	"recourse/internal/metrics"
	"recourse/internal/story/storytest"
	"recourse/saga"
	"recourse/saga/machine"
)

// BenchmarkSaga measures the counting of a saga of three steps in four commits.
func BenchmarkSaga(b *testing.B) {
	p := storytest.Play(b, "saga: three\nsteps:\n  - {id: a, http: POST http://x/a}\n  - {id: b, http: POST http://x/b}\n  - {id: c, http: POST http://x/c}\n",
		storytest.Script{Answer: func(machine.Send, time.Time) saga.Answer { return status(200) }})
	m := metrics.New(metrics.Config{})
	b.ReportAllocs()
	for b.Loop() {
		for i := 0; i < len(p.Records); i += 2 {
			m.Appended(engine.Growth{Saga: p.ID, Machine: p.Machine, Records: p.Records[i : i+2]})
		}
		m.Released(p.ID)
	}
}
