package dsl_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/saga"
)

// A write depends on the fresh answers that it uses, directly or through others, and on those by
// which a step before it decides whether the saga goes on.
func TestFreshReads(t *testing.T) {
	def := mustParse(t, `saga: x
input: {n: integer}
steps:
  - {id: early, http: PUT https://a.example/early, compensate: none}
  - {id: a, http: "GET https://a.example/a", fresh_for: 1m}
  - {id: b, http: "GET https://a.example/${steps.a.output.id}", fresh_for: 2m, on_change: fail}
  - {id: c, http: "GET https://a.example/c", fresh_for: 3m}
  - {id: d, http: "GET https://a.example/d", fresh_for: 4m, expect: {that: result.body.ok}}
  - {id: sum, set: "${steps.b.output.n + 1}"}
  - {id: direct, http: PUT https://a.example/, body: "${steps.c.output}", compensate: none}
  - {id: through, http: PUT https://a.example/, body: "${steps.sum.output}", compensate: none}
  - {id: other, http: PUT https://a.example/, body: "${input.n}", compensate: none}
  - {id: looks, http: "GET https://a.example/${steps.c.output.id}"}
  - id: both
    switch:
      - when: steps.a.output.ok
        steps:
          - {id: inside, http: PUT https://a.example/, compensate: none}
          - {id: told, emit: it.happened}
  - {id: maybe, when: steps.c.output.n > 1, fail: "too many"}
  - {id: late, http: PUT https://a.example/, compensate: none}
  - {id: ok, approval: {title: "${steps.a.output.x}?"}}
  - {id: last, http: PUT https://a.example/, compensate: none, pivot: true}
`)
	want := map[string][]string{
		"direct": {"c", "d"}, "through": {"a", "b", "d"}, "other": {"d"}, "inside": {"a", "d"}, "told": {"a", "d"}, "late": {"c", "d"}, "last": {"a", "c", "d"},
	}
	got := map[string][]string{}
	for id, s := range def.ByID {
		if len(s.FreshReads) > 0 {
			got[id] = s.FreshReads
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("fresh reads (-want +got):\n%s", d)
	}
	if s := def.ByID["a"]; s.FreshFor.Minutes() != 1 || s.OnChange != saga.ChangeFails {
		t.Errorf("fresh for %s, on change %s", s.FreshFor, s.OnChange)
	}
}

// A tool that is called again must only read, which is known when it is called.
func TestFreshTool(t *testing.T) {
	def := mustParse(t, `saga: x
steps:
  - {id: a, mcp: {server: shop, tool: find}, fresh_for: 1m}
  - {id: b, mcp: {server: shop, tool: pay, arguments: {id: "${steps.a.output.id}"}}, in_doubt: ask}
`)
	for id, want := range map[string]bool{"a": true, "b": false} {
		call := def.ByID[id].Body.(saga.Call)
		if r, err := call.Request(nothing{}); call.ReadOnly() != want || err == nil && r.Tool.MustRead != want {
			t.Errorf("step %s: it reads: %t, request %+v, %v", id, call.ReadOnly(), r.Tool, err)
		}
	}
}

// nothing has no values.
type nothing struct{}

func (nothing) Root(string) (any, bool) { return nil, false }
