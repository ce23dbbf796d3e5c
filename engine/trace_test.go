package engine_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/internal/test/buffer"
	"recourse/journal"
	"recourse/journal/memory"
)

// Log lines about a saga contain its trace id.
func TestLogNamesTheTrace(t *testing.T) {
	def := compile(t, "saga: x\nsteps:\n  - {id: h, http: \"POST http://w/hold\", timeout: 1m}\n")
	d, log := &diary{hold: make(chan struct{})}, &buffer.Buffer{}
	defer close(d.hold)
	n := startNode(t, memory.New(memory.Config{}), definitions{"x": def}, func(c *engine.Config) {
		c.Callers, c.Log, c.Drain = map[string]engine.Caller{"http": d}, slog.New(slog.NewJSONHandler(log, nil)), 1
	})
	id := n.start(def, "null", nil)
	// A message that cannot be read makes the node give the saga up.
	if err := n.Send(t.Context(), journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: id, Kind: "command", Data: json.RawMessage(`"?"`)}); err != nil {
		t.Fatal(err)
	}
	want := `"saga":"` + id.String() + `","trace_id":"` + strings.ReplaceAll(id.String(), "-", "") + `"`
	until(t, "the line is there", func() bool { return strings.Contains(log.String(), want) })
}
