package run_test

import (
	"encoding/json"
	"testing"

	"recourse/saga"
	"recourse/saga/expr"
	"recourse/saga/kinds/kindtest"
	"recourse/saga/kinds/run"
)

// Who has started the outermost saga goes with the request; nobody is not mentioned.
func TestStarter(t *testing.T) {
	step, errs := kindtest.Suite{Kind: run.Kind()}.Parse(`{run: child}`)
	if errs != nil {
		t.Fatal(errs)
	}
	for _, who := range []string{"ann", ""} {
		env := expr.MapEnv{saga.Kin: map[string]any{"id": "i", "parent": "p", "path": "it", "depth": json.Number("1"), "starter": who}}
		r, err := step.Body.(saga.Call).Request(env)
		if err != nil || r.Child.Starter != who {
			t.Errorf("%q: %+v, %v", who, r.Child, err)
		}
	}
}
