package outline_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/api/ui/outline"
)

const source = `saga: written
input:
  zone: text
  lines:
    properties: {sku: text, count: integer}
  age: integer
steps:
  - id: pay
    http: POST
      ${vars.pay}/charges
    compensate: {http: "DELETE ${vars.pay}/charges/${output.id}"}
    in_doubt: {verify: {http: "GET ${vars.pay}/charges?key=${key}"}}
  - id: route
    switch:
      - when: input.age > 17
        steps: [{id: ask, approval: {title: "Go on?"}}]
      - steps: [{id: nap, sleep: 1s}]
finally:
  - {id: bye, emit: com.shop.bye}
`

func TestStep(t *testing.T) {
	o := outline.Of([]byte(source))
	for id, want := range map[string]outline.Wording{
		"pay":   {Text: "POST ${vars.pay}/charges", Undo: "DELETE ${vars.pay}/charges/${output.id}", Check: "GET ${vars.pay}/charges?key=${key}"},
		"route": {Branches: []string{"input.age > 17", ""}},
		"ask":   {Text: "Go on?"},
		"nap":   {Text: "1s"},
		"bye":   {Text: "com.shop.bye"},
		"none":  {},
	} {
		if d := cmp.Diff(want, o.Step(id)); d != "" {
			t.Errorf("%s (-want +got):\n%s", id, d)
		}
	}
}

// Names are in the order of the text. Names that it does not have come first, sorted.
func TestOrder(t *testing.T) {
	for _, tt := range []struct {
		source      string
		names, path []string
		want        []string
	}{
		{source, []string{"age", "lines", "zone", "other"}, nil, []string{"other", "zone", "lines", "age"}},
		{source, []string{"count", "sku"}, []string{"lines"}, []string{"sku", "count"}},
		{"not: [yaml", []string{"b", "a"}, nil, []string{"a", "b"}},
	} {
		o := outline.Of([]byte(tt.source))
		o.Order(tt.names, tt.path...)
		if d := cmp.Diff(tt.want, tt.names); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
}
