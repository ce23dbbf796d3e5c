package mcp

import (
	"fmt"
	"testing"
)

// BenchmarkServer makes the server of a call in a session with ten actions.
func BenchmarkServer(b *testing.B) {
	h := New(Config{})
	who := Caller{Token: "rst_x"}
	for n := range 10 {
		who.Actions = append(who.Actions, Action{Name: fmt.Sprint("action-", n), Effect: Undoable, Input: map[string]any{"type": "object", "properties": map[string]any{"order": map[string]any{"type": "string"}, "amount": map[string]any{"type": "integer"}}}})
	}
	b.ReportAllocs()
	for b.Loop() {
		h.server(b.Context(), nil, who, needs([]byte(`{"method": "tools/call", "params": {"name": "action-3"}}`)))
	}
}
