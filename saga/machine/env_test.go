package machine_test

import (
	"encoding/json"
	"strings"
	"testing"

	"recourse/saga"
)

// A template in a loop reads the names of all loops around it, each of its own loop.
func TestNamesOfOuterLoops(t *testing.T) {
	for name, c := range map[string]struct{ src, want string }{
		"foreach in foreach": {`saga: x
steps:
  - id: out
    foreach: [a, b]
    as: one
    steps:
      - {id: in, foreach: [c], as: two, steps: [{id: s, set: "${one}${two}${index}"}]}
`, `[["ac0"],["bc0"]]`},
		"foreach in repeat": {`saga: x
steps:
  - id: out
    repeat: {max: 2}
    steps:
      - {id: in, foreach: [c, d], as: two, steps: [{id: s, set: "${two}${len(history)}"}]}
`, `[["c0","d0"],["c1","d1"]]`},
		"repeat in foreach": {`saga: x
steps:
  - id: out
    foreach: [a, b]
    as: one
    steps:
      - {id: in, repeat: {max: 2}, steps: [{id: s, set: "${one}${index}${len(history)}"}]}
`, `[["a00","a11"],["b00","b11"]]`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(byHand(t, c.src, "null").m.View().Output); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	h := play(t, map[string]string{"actions": "action: look\nagents: auto\nhttp: GET http://w/look\n", "input": "null", "definition": `saga: x
steps:
  - id: out
    foreach: [a]
    as: one
    steps:
      - {id: talk, llm: {model: small, prompt: "item ${one} at ${index}", tools: [look]}}
`})
	if !strings.Contains(h.out.String(), `"content":"item a at 0"`) {
		t.Errorf("a model with tools is asked something else\n%s", h.out.String())
	}
}

// Templates read the error of a step that has failed. A step that was skipped, or that a person has
// settled as succeeded, has none.
func TestErrorsOfSteps(t *testing.T) {
	h := byHand(t, `saga: x
steps:
  - {id: failed, http: "POST http://w/failed", body: {}, compensate: none, on_error: continue}
  - {id: skipped, when: "false", set: 1}
  - {id: settled, http: "POST http://w/settled", body: {}, compensate: none, on_error: hold}
  - {id: all, set: ["${steps.failed.error.code}", "${steps.skipped.error}", "${steps.settled.error}"]}
`, "null")
	h.reply("failed", "422 {}")
	h.reply("settled", "422 {}")
	h.must("settled", saga.Resolve{Outcome: "succeeded", Output: json.RawMessage("1")})
	if got := string(h.m.View().Output); got != `["http_422",null,null]` {
		t.Errorf("got %s\n%s", got, h.out.String())
	}
}

// The steps of `finally` read the saga's output if it has succeeded, and otherwise why it has not.
func TestWhatFinallyReads(t *testing.T) {
	for step, want := range map[string]string{"set: 7": `{"output":7,"error":null}`, "fail: no": `{"output":null,"error":"failed"}`} {
		h := byHand(t, "saga: x\nsteps: [{id: a, "+step+"}]\nfinally:\n  - {id: tell, http: \"POST http://w/tell\", body: {output: \"${output}\", error: \"${error?.code}\"}}\n", "null")
		if got := string(h.open[0].Request.Body); got != want {
			t.Errorf("%s: %s, want %s", step, got, want)
		}
	}
}
