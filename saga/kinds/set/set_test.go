package set_test

import (
	"testing"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
	"recourse/saga/kinds/set"
)

func TestEval(t *testing.T) {
	for _, tt := range []struct{ value, want string }{
		{`"${input.n}"`, "19.10"},
		{`{a: "${input.n * 2}", b: "n=${input.n}"}`, `{"a":38.20,"b":"n=19.10"}`},
		{`[1, ~, "x", true]`, `[1,null,"x",true]`},
		{"", "null"},
	} {
		def, errs := dsl.Parse("t", []byte("saga: x\nsteps:\n  - id: a\n    set: "+tt.value+"\n"), dsl.Options{Kinds: []dsl.Kind{set.Kind()}})
		if errs != nil {
			t.Fatal(errs)
		}
		got, err := def.ByID["a"].Body.(saga.Value).Eval(expr.MapEnv{"input": expr.Raw(`{"n": 19.10}`)})
		if err != nil || string(got) != tt.want {
			t.Errorf("set: %s gives %s, %v; want %s", tt.value, got, err, tt.want)
		}
	}
}
