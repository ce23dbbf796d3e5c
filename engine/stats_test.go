package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"

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
	if err := n.StartAs(t.Context(), uuid.Must(uuid.NewV7()), def, journal.Start{Definition: def.Name, Version: 1, SHA256: def.SHA256}, data); !errors.Is(err, saga.ErrBusy) {
		t.Errorf("with an id of its own: %v", err)
	}
	if err := n.StartChild(t.Context(), uuid.Must(uuid.NewV7()), def, journal.Start{Definition: def.Name, Version: 1, SHA256: def.SHA256}, data); err != nil {
		t.Errorf("as a child: %v", err)
	}
	if st := n.Stats(); st.StartsRefused != 2 || st.MaxRunning != 1 || st.Running != 2 || st.Starting != 0 || st.MaxCalls == 0 || st.MaxStarts == 0 {
		t.Errorf("%+v", st)
	}
}

// A submitted start counts until it is waited for, even if the wait is given up.
func TestSubmittedStartsCount(t *testing.T) {
	def := compile(t, "saga: quick\nsteps:\n  - {id: a, set: 1}\n")
	n := startNode(t, memory.New(memory.Config{}), definitions{"quick": def}, func(c *engine.Config) { c.MaxStarts = 2 })
	n.start(def, "null", nil) // it is ready
	data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1, Input: json.RawMessage("null")})
	if wrong != nil {
		t.Fatal(wrong)
	}
	start := journal.Start{Definition: def.Name, Version: 1, SHA256: def.SHA256}
	var waits []func(context.Context) (uuid.UUID, error)
	for range 2 {
		wait, err := n.Submit(t.Context(), def, start, data)
		if err != nil {
			t.Fatal(err)
		}
		waits = append(waits, wait)
	}
	if _, err := n.Submit(t.Context(), def, start, data); !errors.Is(err, saga.ErrBusy) {
		t.Errorf("a third start where two may be pending: %v", err)
	}
	id, err := waits[0](t.Context())
	if _, missing := n.store.Saga(t.Context(), id); err != nil || missing != nil {
		t.Errorf("saga %s: %v, %v", id, err, missing)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := waits[1](late); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if st := n.Stats(); st.Starting != 0 || st.StartsRefused != 1 {
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
