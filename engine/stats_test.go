package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"recourse/engine"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
)

// silence answers when its request is given up.
type silence struct{}

func (silence) Call(ctx context.Context, _ saga.Request) saga.Answer {
	<-ctx.Done()
	return saga.Answer{Sent: true, Code: "timeout"}
}

// Starts beyond what the node takes are refused, and counted.
func TestStartsRefused(t *testing.T) {
	def := compile(t, "saga: slow\nsteps:\n  - {id: a, http: \"POST http://w/a\"}\n")
	n := startNode(t, memory.New(memory.Config{}), definitions{"slow": def}, func(c *engine.Config) {
		c.Callers, c.MaxRunning, c.Drain = map[string]engine.Caller{"http": silence{}}, 1, 1
	})
	n.start(def, "null", nil)
	data, _, wrong := saga.Begin(def, saga.StartOptions{Version: 1, Input: json.RawMessage("null")})
	if wrong != nil {
		t.Fatal(wrong)
	}
	if _, err := n.Start(t.Context(), def, journal.Start{Definition: def.Name, Version: 1, SHA256: def.SHA256}, data, false); !errors.Is(err, saga.ErrBusy) {
		t.Errorf("a second saga where one fits: %v", err)
	}
	if st := n.Stats(); st.StartsRefused != 1 || st.MaxRunning != 1 || st.Running != 1 || st.Starting != 0 || st.MaxCalls == 0 || st.MaxStarts == 0 {
		t.Errorf("%+v", st)
	}
}
