package examples

import (
	"encoding/json"
	"strings"

	"recourse/api/client"
	"recourse/examples/llmstub"
	"recourse/examples/world"
)

var trip = map[string]any{
	"traveller": map[string]any{"id": "t-1", "email": "ada@example.com"},
	"trip":      map[string]any{"from": "CPH", "to": "LIS", "depart": "2027-05-01", "nights": 3},
	"card":      "tok_visa",
}

var booked = map[string]int{"air book": 1, "hotels reserve": 1, "pay charge": 1, "mail send": 1}

var travel = []play{
	{name: "plain", example: "travel", guarded: true, input: trip, status: "succeeded", effect: booked,
		check: func(s *scene, v *client.Saga, f *fetcher) {
			if got := s.output(v, "charge", "amount"); got != "398.40" { // 129.90 + 3 × 89.50, exactly
				s.t.Errorf("%s was charged", got)
			}
			mailed("A stub's answer to: Write a friendly")(s, v, f)
		}},
	{name: "the charge is refused", example: "travel", guarded: true, input: trip, faults: []world.Rule{onPath("/pay/charges", 0, status(402))},
		status: "compensated", reason: "step_failed charge http_402",
		check: func(s *scene, _ *client.Saga, _ *fetcher) {
			s.ops("air book, hotels reserve, hotels cancel, air cancel")
			if n := len(s.world.Ledger().Op("pay", "charge").Requests()); n != 1 {
				s.t.Errorf("the charge was requested %d times, but 402 must not be retried", n)
			}
		}},
	{name: "the flight's answer is lost", example: "travel", guarded: true, input: trip, faults: []world.Rule{onPath("/air/bookings", 1, world.Do{After: world.FaultDrop})},
		status: "succeeded", effect: booked, check: once("air", "book")},
	{name: "the flight's request is lost", example: "travel", guarded: true, input: trip, faults: []world.Rule{onPath("/air/bookings", 1, world.Do{Before: world.FaultDrop})},
		status: "succeeded", effect: booked},
	{name: "no model answers", example: "travel", guarded: true, input: trip, status: "succeeded", effect: booked,
		model: func() func(llmstub.Call) llmstub.Fault {
			return func(llmstub.Call) llmstub.Fault { return llmstub.Fault{Status: 503} }
		},
		check: mailed("Your booking is confirmed.")},
	{name: "everybody is busy", example: "travel", guarded: true, input: trip, status: "succeeded", effect: booked,
		faults: []world.Rule{
			onPath("/hotels", 1, world.Do{After: world.FaultStatus, Status: 503}),
			onPath("/pay/charges", 1, world.Do{Before: world.FaultStatus, Status: 429, RetryAfter: "1"}),
			onPath("/pay/charges", 2, world.Do{After: world.FaultTruncate}),
			onPath("/mail", 1, status(503)),
		},
		model: func() func(llmstub.Call) llmstub.Fault {
			return func(c llmstub.Call) llmstub.Fault {
				if c.Model == "gpt-5-mini" {
					return llmstub.Fault{Cut: 1}
				}
				return llmstub.Fault{}
			}
		},
		check: mailed("A stub's answer to: Write a friendly")},
	{name: "undoing is slow to take", example: "travel", guarded: true, input: trip, status: "compensated", reason: "step_failed hotel http_404",
		faults: []world.Rule{
			onPath("/hotels/reservations", 0, status(404)),
			{Match: world.Match{Method: "DELETE", PathPrefix: "/air"}, Times: 1, Do: world.Do{Before: world.FaultStatus, Status: 429, RetryAfter: "1"}},
			{Match: world.Match{Method: "DELETE", PathPrefix: "/air"}, Times: 2, Do: world.Do{After: world.FaultDrop}},
		}},
}

// output returns a field of a step's output.
func (s *scene) output(v *client.Saga, step, name string) string {
	s.t.Helper()
	var view struct{ Output json.RawMessage }
	s.get("/v1/sagas/"+v.ID+"/steps/"+step, &view)
	return field(s.t, view.Output, name)
}

// mailed fails unless the text of the mail has this prefix.
func mailed(text string) func(*scene, *client.Saga, *fetcher) {
	return func(s *scene, v *client.Saga, _ *fetcher) {
		s.t.Helper()
		if got := s.output(v, "email", "text"); !strings.HasPrefix(got, text) {
			s.t.Errorf("mailed %q, want %q", got, text)
		}
	}
}

// ops fails unless the effects and their compensations are these, in this order.
func (s *scene) ops(want string) {
	s.t.Helper()
	var got []string
	for _, e := range s.world.Ledger() {
		if e.Kind != world.Request {
			got = append(got, e.Service+" "+e.Op)
		}
	}
	if list := strings.Join(got, ", "); list != want {
		s.t.Errorf("the operations are %s, want %s", list, want)
	}
}

// once fails unless an operation was requested once.
func once(service, op string) func(*scene, *client.Saga, *fetcher) {
	return func(s *scene, _ *client.Saga, _ *fetcher) {
		s.t.Helper()
		if n := len(s.world.Ledger().Op(service, op).Requests()); n != 1 {
			s.t.Errorf("%s %s was requested %d times", service, op, n)
		}
	}
}
