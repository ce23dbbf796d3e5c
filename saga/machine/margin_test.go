package machine_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

// The status check waits for the attempt's own timeout and `after`, counted from
// when the request left, however long after its intent that was.
func TestVerifyMargin(t *testing.T) {
	src := `
saga: order
steps:
  - id: pay
    http: POST https://pay.example/refunds
    body: {amount: 1}
    timeout: 10s
    in_doubt:
      verify: {http: "GET https://pay.example/refunds?key=${key}", found: result.body.count > 0, after: 5s}
`
	for name, c := range map[string]struct {
		delay  time.Duration // between the intent's At and the send: slow commit, or no call token
		answer saga.Answer
		took   time.Duration // from the send to the answer
	}{
		"timed out, sent 20s after the intent": {20 * time.Second, saga.Answer{Sent: true, Code: "timeout"}, 10 * time.Second},
		"lost: crash 1s after the send":        {300 * time.Second, saga.InterruptedAnswer(), 16 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			def, errs := dsl.Parse("x", []byte(src), dsl.Options{Kinds: kinds.All()})
			if errs != nil {
				t.Fatal(errs)
			}
			m := machine.New(def, uuid.Must(uuid.NewV7()))
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			w := func(d machine.Draft) {
				if _, err := m.Append(d, now, "n"); err != nil {
					t.Fatal(err)
				}
			}
			w(m.Start(saga.StartedData{Definition: "order", Version: 1, Input: json.RawMessage("null")}))
			w(m.Decide()[0].(machine.Dispatch).Intent)
			sent := now.Add(c.delay)
			at := sent.Add(c.took)
			r, err := m.RecordOutcome("pay", journal.Do, 1, c.answer, at, 0)
			if err != nil {
				t.Fatal(err)
			}
			var d saga.OutcomeData
			if err := json.Unmarshal(saga.Encode(r.Data), &d); err != nil {
				t.Fatal(err)
			}
			safe := sent.Add(15 * time.Second)
			q := d.RetryAt.Time
			if q.Before(at) {
				q = at
			}
			if q.Before(safe) {
				t.Errorf("asks %v too early", safe.Sub(q))
			}
		})
	}
}
