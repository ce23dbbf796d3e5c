package examples

import (
	"net/http"

	"recourse/api/client"
	"recourse/examples/llmstub"
)

var coldTea = map[string]any{"topic": "tea"}

// cooldown plays the provider that turns away the third request for a while.
var cooldown = []play{
	{name: "plain", example: "cooldown", input: coldTea, status: "succeeded", check: paidOnce},
	{name: "it tries again by itself", example: "cooldown", input: coldTea, edit: []string{"hold_for: 15m", "hold_for: 1s", "initial: 1s", "initial: 10ms"},
		model: cooling(9), status: "succeeded", check: paidOnce},
	{name: "a person resumes it", example: "cooldown", input: coldTea, edit: []string{"initial: 1s", "initial: 10ms"}, model: cooling(4), status: "succeeded", check: paidOnce,
		people: func(s *scene, id string) {
			s.asked("exhausted")
			if status, _, b := s.call("POST", "/v1/sagas/"+id+"/resume", `{"reason": "the cooldown is over"}`); status != http.StatusAccepted {
				s.t.Errorf("resume: %d %s", status, b)
			}
		}},
}

// cooling turns away so many requests, after two that are answered.
func cooling(times int) func() func(llmstub.Call) llmstub.Fault {
	return func() func(llmstub.Call) llmstub.Fault {
		return func(c llmstub.Call) llmstub.Fault {
			if c.Number > 2 && c.Number <= 2+times {
				return llmstub.Fault{Status: http.StatusTooManyRequests, Code: "rate_limit_exceeded"}
			}
			return llmstub.Fault{}
		}
	}
}

// paidOnce checks that each of the three answers was billed once.
func paidOnce(s *scene, v *client.Saga, _ *fetcher) {
	billed := 0
	for _, b := range s.model.Bills() {
		if b.Billed {
			billed++
		}
	}
	if billed != 3 {
		s.t.Errorf("%d answers were billed, want 3", billed)
	}
	s.billed(v, "0", true)
}
