package switchkind_test

import (
	"encoding/json"
	"testing"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
	"recourse/saga/kinds/set"
	switchkind "recourse/saga/kinds/switch"
)

func TestChoose(t *testing.T) {
	const src = `
saga: x
steps:
  - id: route
    switch:
      - when: input.n > 10
        steps: [{id: many, set: 1}, {id: more, set: 2}]
      - when: input.n > 5
        steps: [{id: some, set: 1}]
`
	const last = "      - steps: [{id: few, set: 1}]\n"
	for _, tt := range []struct {
		src, n string
		want   int
	}{{src, "11", 0}, {src, "6", 1}, {src, "1", -1}, {src + last, "1", 2}} {
		def, errs := dsl.Parse("t", []byte(tt.src), dsl.Options{Kinds: []dsl.Kind{set.Kind(), switchkind.Kind()}})
		if errs != nil {
			t.Fatal(errs)
		}
		choice := def.ByID["route"].Body.(saga.Choice)
		got, err := choice.Choose(expr.MapEnv{"input": map[string]any{"n": json.Number(tt.n)}})
		if err != nil || got != tt.want {
			t.Errorf("n = %s: branch %d, %v; want %d", tt.n, got, err, tt.want)
		}
		if b := choice.Branches(); len(b[0]) != 2 || b[0][1] != def.ByID["more"] {
			t.Errorf("branches %v", b)
		}
		if _, err := choice.Choose(expr.MapEnv{"input": map[string]any{"n": "x"}}); err == nil {
			t.Error("a text compared with a number is no error")
		}
	}
}
