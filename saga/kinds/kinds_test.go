package kinds_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
	"recourse/saga/kinds"
	"recourse/saga/kinds/kindtest"
)

// suites has the examples of each kind, by name.
var suites = map[string]kindtest.Suite{
	"set": {
		Good: []string{`{set: {a: "${input.n}", b: [1.50, on]}}`, `{set: "${input}"}`, "{set: }"},
		Bad:  map[string]string{`{set: "${key}"}`: "unknown_root", `{set: 0777}`: "number_form"},
	},
	"fail": {
		Good: []string{`{fail: "no ${input.s}"}`, "{fail: 3}"},
		Bad:  map[string]string{"{fail: [a]}": "wrong_type", "{fail: }": "wrong_type"},
	},
	"sleep": {
		Good: []string{"{sleep: 5m}", "{sleep: 2030-01-31T09:00:00Z}", `{sleep: "${input.wait}"}`, `{sleep: "${input.s}"}`},
		Bad:  map[string]string{"{sleep: 5}": "bad_duration", "{sleep: soon}": "bad_duration", "{sleep: [1s]}": "wrong_type"},
	},
	"switch": {
		Good: []string{"{switch: [{when: input.n > 3, steps: [{id: a, inert: 1}]}, {steps: [{id: b, inert: 1}]}]}", "{switch: [{when: input.n > 1, steps: [{id: a, inert: 1}]}]}"},
		Bad: map[string]string{"{switch: []}": "wrong_type", "{switch: [{steps: []}]}": "wrong_type", "{switch: [{when: input.n > 1}]}": "missing_key",
			"{switch: [{steps: [{id: a, inert: 1}]}, {steps: [{id: b, inert: 1}]}]}": "missing_key"},
	},
	"parallel": {
		Good: []string{"{parallel: [{id: a, inert: 1}]}", "{parallel: [{id: a, inert: 1}, {id: b, parallel: [{id: c, inert: 1}]}], on_error: continue, when: input.n > 1}"},
		Bad: map[string]string{
			"{parallel: []}":                               "wrong_type",
			"{parallel: {id: a}}":                          "wrong_type",
			"{parallel: [{id: a, inert: 1}], body: 1}":     "unknown_key",
			"{parallel: [{id: a, inert: 1}], retry: 2}":    "not_for_kind",
			"{parallel: [{id: a, inert: 1, pivot: true}]}": "bad_pivot",
			"{parallel: [{id: a, inert: 1}, {id: b, inert: 1, when: steps.a.output == 1}]}": "unknown_step",
		},
	},
	"foreach": {
		Good: []string{
			`{foreach: "${input.list}", steps: [{id: a, inert: 1}]}`,
			`{foreach: [1, "${input.list}"], as: one, max_parallel: 4, max_items: 7, on_item_error: collect, steps: [{id: a, inert: 1, when: "one == index"}], output: "${steps.a.output} ${one}"}`,
			`{foreach: "${input.list}", steps: [{id: a, foreach: "${item}", as: inner, steps: [{id: b, inert: 1, when: inner == item}]}]}`,
		},
		Bad: map[string]string{
			`{foreach: 3, steps: [{id: a, inert: 1}]}`: "wrong_type",
			`{foreach: []}`:            "missing_key",
			`{foreach: [], steps: []}`: "wrong_type",
			`{foreach: [], as: input, steps: [{id: a, inert: 1}]}`:                "bad_name",
			`{foreach: [], as: A-b, steps: [{id: a, inert: 1}]}`:                  "bad_name",
			`{foreach: [], max_parallel: 0, steps: [{id: a, inert: 1}]}`:          "wrong_type",
			`{foreach: [], max_items: 10001, steps: [{id: a, inert: 1}]}`:         "wrong_type",
			`{foreach: [], on_item_error: ignore, steps: [{id: a, inert: 1}]}`:    "unknown_value",
			`{foreach: "${item}", steps: [{id: a, inert: 1}]}`:                    "unknown_root",
			`{foreach: [], as: one, steps: [{id: a, inert: 1, when: item == 1}]}`: "unknown_root",
			`{foreach: [], steps: [{id: a, inert: 1, pivot: true}]}`:              "bad_pivot",
		},
	},
	"repeat": {
		Good: []string{
			`{repeat: {max: 3}, steps: [{id: a, inert: 1}]}`,
			`{repeat: {until: steps.a.output == 1 && index > 2, max: 3}, steps: [{id: a, inert: 1, when: len(history) < 2}], output: ["${index}", "${steps.a.output}"]}`,
		},
		Bad: map[string]string{
			`{repeat: 3, steps: [{id: a, inert: 1}]}`:                               "wrong_type",
			`{repeat: {max: 3}}`:                                                    "missing_key",
			`{repeat: {until: index > 1}, steps: [{id: a, inert: 1}]}`:              "missing_key",
			`{repeat: {max: 0}, steps: [{id: a, inert: 1}]}`:                        "wrong_type",
			`{repeat: {max: 3, while: 1}, steps: [{id: a, inert: 1}]}`:              "unknown_key",
			`{repeat: {max: 3, until: steps.b.output}, steps: [{id: a, inert: 1}]}`: "unknown_step",
			`{repeat: {max: 3}, steps: [{id: a, inert: 1, when: item == 1}]}`:       "unknown_root",
			`{repeat: {max: 3}, as: x, steps: [{id: a, inert: 1}]}`:                 "unknown_key",
		},
	},
	"use": {
		Good: []string{"{use: ping}", "{use: ping@7}", `{use: echo, with: {text: "${input.s}"}}`, "{use: echo, with: {text: x}, retry: 2, timeout: 1s, in_doubt: ask}"},
		Bad: map[string]string{
			"{use: }": "wrong_type", "{use: [ping]}": "wrong_type", "{use: ping@0}": "bad_use", "{use: Ping}": "bad_use", "{use: pong}": "unknown_action",
			"{use: echo}": "bad_input", "{use: echo, with: {text: 3}}": "bad_input", `{use: echo, with: {text: "${input.s}", tone: x}}`: "bad_input", `{use: echo, with: "${key}"}`: "unknown_root",
			"{use: ping, headers: {}}": "unknown_key", "{use: ping, http: GET https://a.example}": "unknown_key",
		},
	},
	"http": {
		Good: []string{
			`{http: "POST https://a.example/x/${input.s}", body: {a: "${input}", k: "${secrets.KEY}"}, auth: "${secrets.KEY}"}`,
			`{http: "GET https://a.example/", query: {s: "${input.s}", k: "${secrets.KEY}"}, headers: {X-A: "v ${secrets.KEY}"}}`,
			`{http: "HEAD https://a.example/"}`, `{http: "PUT ${vars.a}/x"}`, `{http: "PATCH ${vars.a}"}`, `{http: "DELETE ${vars.a}:80/x"}`,
		},
		Bad: map[string]string{`{http: "GET ${input.s}"}`: "host_not_fixed", `{http: GET}`: "bad_request"},
	},
}

func TestKinds(t *testing.T) {
	env := expr.MapEnv{
		"input": expr.Raw(`{"n": 2, "s": "x", "wait": "30s", "list": [1, "x"]}`), "vars": map[string]any{"a": "https://a.example"},
		"saga": map[string]any{"id": "s-1"}, "key": "k-1", "steps": map[string]any{}, "n": json.Number("1"),
	}
	env[saga.ActionInput] = expr.Raw(`{"text": "x"}`)
	all := kinds.All()
	if len(all) != len(suites) {
		t.Errorf("%d kinds, %d suites", len(all), len(suites))
	}
	for _, k := range all {
		s := suites[k.Name]
		s.Kind, s.Env, s.Actions = k, env, action
		t.Run(k.Name, func(t *testing.T) { kindtest.Run(t, s) })
	}
}

// action compiles the actions that the suite of use names.
func action(name string, version int) (*saga.Action, error) {
	src := map[string]string{
		"ping": "action: ping\nhttp: GET ${vars.a}/ping",
		"echo": "action: echo\ninput: {text: string}\nsecrets: [ECHO]\nhttp: POST ${vars.a}/echo\nauth: ${secrets.ECHO}\nbody: {text: '${input.text}', key: '${key}'}",
	}[name]
	if src == "" {
		return nil, fmt.Errorf("there is no action %s: publish it first", name)
	}
	a, errs := dsl.ParseAction(name+".yaml", []byte(src), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		return nil, errs
	}
	a.Version = max(version, 1)
	return a, nil
}

// TestNoKeyTwice holds kinds to not taking a name that all steps have, but for those that a kind may give a meaning of its own.
func TestNoKeyTwice(t *testing.T) {
	for _, k := range kinds.All() {
		for _, key := range append([]dsl.Key{{Name: k.Name}}, k.Keys...) {
			for _, common := range dsl.StepKeys() {
				if key.Name == common && common != "output" && common != "timeout" {
					t.Errorf("%s of %s is a key of all steps", key.Name, k.Name)
				}
			}
		}
	}
}
