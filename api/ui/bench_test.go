package ui

import (
	"encoding/json"
	"testing"

	"recourse/saga"
)

// BenchmarkSagaPage draws the page of a saga of many steps.
func BenchmarkSagaPage(b *testing.B) {
	x := newSite(b)
	x.publish("saga: many\ninput: {items: [integer]}\nsteps:\n  - id: each\n    foreach: ${input.items}\n    max_items: 10000\n    steps:\n      - {id: make, set: \"${item}\"}\n      - {id: check, set: \"${item}\"}\n")
	items, err := json.Marshal(make([]int, 5000))
	if err != nil {
		b.Fatal(err)
	}
	id := x.start("many", `{"items": `+string(items)+`}`)
	x.becomes(id, saga.Succeeded)
	for b.Loop() {
		x.page("/sagas/" + id).want(200)
	}
}
