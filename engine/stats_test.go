package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"recourse/engine"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/machine"
)

// silence responds when its request is cancelled.
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
	data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1, Input: json.RawMessage("null")})
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

// Starts whose input would fill the memory are refused until those before them are committed.
func TestStartsRefusedByBytes(t *testing.T) {
	def := compile(t, "saga: quick\nsteps:\n  - {id: a, set: 1}\n")
	n := startNode(t, memory.New(memory.Config{}), definitions{"quick": def}, func(c *engine.Config) { c.StartBytes = 100 })
	n.start(def, "null", nil) // it is ready
	for _, tt := range []struct {
		bytes int
		busy  bool
	}{{50, false}, {99, true}, {98, false}, {50, false}} {
		input, err := json.Marshal(strings.Repeat("x", tt.bytes))
		if err != nil {
			t.Fatal(err)
		}
		data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1, Input: input})
		if wrong != nil {
			t.Fatal(wrong)
		}
		_, err = n.Start(t.Context(), def, journal.Start{Definition: def.Name, Version: 1, SHA256: def.SHA256}, data, false)
		if busy := errors.Is(err, saga.ErrBusy); busy != tt.busy || !busy && err != nil {
			t.Errorf("%d bytes: %v", len(input), err)
		}
	}
}
