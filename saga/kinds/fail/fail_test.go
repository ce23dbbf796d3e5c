package fail_test

import (
	"errors"
	"strings"
	"testing"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
	"recourse/saga/kinds/fail"
)

func TestEval(t *testing.T) {
	for _, tt := range []struct{ message, code, title string }{
		{"only ${input.n} left", "failed", "only 2 left"},
		{"${input.long}", "failed", strings.Repeat("é", 500) + "…"},
		{"${input.missing}", "", ""},
	} {
		def, errs := dsl.Parse("t", []byte("saga: x\nsteps:\n  - id: a\n    fail: "+tt.message+"\n"), dsl.Options{Kinds: []dsl.Kind{fail.Kind()}})
		if errs != nil {
			t.Fatal(errs)
		}
		out, err := def.ByID["a"].Body.(saga.Value).Eval(expr.MapEnv{"input": map[string]any{"n": "2", "long": strings.Repeat("é", 600)}})
		var f *saga.Failure
		if out != nil || err == nil || errors.As(err, &f) != (tt.code != "") {
			t.Fatalf("fail: %s gives %s, %v", tt.message, out, err)
		}
		if f != nil && (f.Code != tt.code || f.Title != tt.title) {
			t.Errorf("fail: %s gives %+v, want %q", tt.message, f, tt.title)
		}
	}
}
