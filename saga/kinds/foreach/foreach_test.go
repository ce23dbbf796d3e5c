package foreach_test

import (
	"errors"
	"strings"
	"testing"

	"recourse/saga"
	"recourse/saga/expr"
	"recourse/saga/kinds/foreach"
	"recourse/saga/kinds/kindtest"
)

func TestEnter(t *testing.T) {
	step, errs := kindtest.Suite{Kind: foreach.Kind()}.Parse(`{foreach: "${input.v}", max_items: 3, steps: [{id: a, inert: 1}]}`)
	if errs != nil {
		t.Fatal(errs)
	}
	for doc, want := range map[string]string{
		`[]`: "", `[1,{"a":9007199254740993},"x"]`: "", `[1,2,3,4]`: "too_many_items", `{"a":1}`: "not_a_list", `null`: "not_a_list", `"[1]"`: "not_a_list",
		`"canary"`: "not_a_list", `{"canary":1}`: "not_a_list",
	} {
		e, err := step.Body.(saga.Block).Enter(expr.MapEnv{"input": map[string]any{"v": expr.Raw(doc)}})
		got := ""
		if f, ok := errors.AsType[*saga.Failure](err); ok {
			if got = f.Code; strings.Contains(f.Title+f.Detail, "canary") {
				t.Errorf("%s: the failure quotes the value: %+v", doc, f)
			}
		} else if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", doc, got, want)
		}
		if want == "" && doc != "[]" && string(e.Items[1]) != `{"a":9007199254740993}` {
			t.Errorf("%s: items %s: numbers must stay", doc, e.Items)
		}
	}
}
