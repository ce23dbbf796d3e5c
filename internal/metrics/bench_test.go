package metrics_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"recourse/engine"
	"recourse/internal/metrics"
	"recourse/internal/story/storytest"
	"recourse/saga"
	"recourse/saga/machine"
)

// BenchmarkSaga measures the counting of sagas, in commits of two records.
func BenchmarkSaga(b *testing.B) {
	ok := func(machine.Send, time.Time) saga.Answer { return status(200) }
	for _, bb := range []struct {
		name, src string
		answer    func(machine.Send, time.Time) saga.Answer
	}{
		{"three steps", "saga: three\nsteps:\n  - {id: a, http: POST http://x/a}\n  - {id: b, http: POST http://x/b}\n  - {id: c, http: POST http://x/c}\n", ok},
		{"language model", "saga: chat\nsteps:\n  - {id: a, llm: {model: small, prompt: 'Say ${\"so\"}'}}\n",
			func(machine.Send, time.Time) saga.Answer {
				return saga.Answer{Sent: true, Status: 200,
					Body: json.RawMessage(`{"model":"small-2026","choices":[{"message":{"content":"so"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30}}`)}
			}},
		{"doubt and refusals", "saga: asks\nsteps:\n  - {id: a, http: POST http://x/a, timeout: 1s, compensate: {http: POST http://x/unbook, retry: none}, in_doubt: {verify: {http: GET http://x/look, found: result.body.n == 1, after: 0s}}}\n" +
			"  - {id: b, http: POST http://x/refuse, retry: none}\n",
			func(s machine.Send, _ time.Time) saga.Answer {
				switch url := s.Request.URL; {
				case strings.HasSuffix(url, "/a"):
					return lost()
				case strings.HasSuffix(url, "/look"):
					return status(200)
				}
				return status(409)
			}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			p := storytest.Play(b, bb.src, storytest.Script{Answer: bb.answer})
			m := metrics.New(metrics.Config{})
			b.ReportAllocs()
			for b.Loop() {
				for i := 0; i < len(p.Records); i += 2 {
					m.Appended(engine.Growth{Saga: p.ID, Machine: p.Machine, Records: p.Records[i:min(i+2, len(p.Records))]})
				}
				m.Released(p.ID)
			}
		})
	}
}
