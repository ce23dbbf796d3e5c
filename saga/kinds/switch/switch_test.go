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
		block := def.ByID["route"].Body.(saga.Block)
		got, err := block.Enter(expr.MapEnv{"input": map[string]any{"n": json.Number(tt.n)}})
		if err != nil || *got.Branch != tt.want {
			t.Errorf("n = %s: branch %v, %v; want %d", tt.n, got, err, tt.want)
		}
		if l, err := block.Layout(got); err != nil || (tt.want >= 0) != (len(l.Groups) == 1) || tt.want >= 0 && l.Groups[0][0] != block.Lists()[tt.want][0] {
			t.Errorf("n = %s: layout %v, %v", tt.n, l, err)
		}
		if b := block.Lists(); len(b[0]) != 2 || b[0][1] != def.ByID["more"] {
			t.Errorf("branches %v", b)
		}
		if _, err := block.Enter(expr.MapEnv{"input": map[string]any{"n": "x"}}); err == nil {
			t.Error("a text compared with a number is no error")
		}
		for _, branch := range []int{-2, 9} {
			if _, err := block.Layout(saga.Entered{Branch: &branch}); err == nil {
				t.Errorf("branch %d is none of the switch's, and is accepted", branch)
			}
		}
	}
}
