package kinds_test

import (
	"encoding/json"
	"testing"

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
	"llm": {
		Good: []string{
			`{llm: {model: m, prompt: "Say ${input.s}"}}`,
			`{llm: {model: [a, b, c], system: "Be ${input.n}", messages: [{role: user, content: hi}, {role: assistant, content: "${input.s}"}], max_tokens: 7, temperature: 0.20}}`,
			`{llm: {model: "${vars.fast}", prompt: "${json(input)}", schema: {queries: [string], n: "integer?"}}}`,
			`{llm: {model: ["${vars.fast}", z], messages: "${vars.said}", max_tokens: "${input.n}", temperature: "${input.n}", schema: {type: object, properties: {a: {type: string}}}}}`,
		},
		Bad: map[string]string{
			"{llm: m}": "wrong_type", "{llm: {prompt: hi}}": "missing_key", "{llm: {model: m}}": "missing_key",
			"{llm: {model: m, prompt: hi, top_p: 1}}": "unknown_key", "{llm: {model: [], prompt: hi}}": "bad_model", "{llm: {model: [a, [b, a]], prompt: hi}}": "bad_model",
			`{llm: {model: "a b", prompt: hi}}`: "bad_model", "{llm: {model: m, prompt: hi, messages: []}}": "two_prompts", "{llm: {model: m, messages: []}}": "bad_messages",
			"{llm: {model: m, messages: [{role: boss, content: x}]}}": "bad_messages", "{llm: {model: m, messages: {a: b}}}": "wrong_type",
			`{llm: {model: m, prompt: "${secrets.KEY}"}}`: "secret_not_allowed", "{llm: {model: m, prompt: hi, max_tokens: 0}}": "wrong_type",
			"{llm: {model: m, prompt: hi, max_tokens: 1.5}}": "wrong_type", "{llm: {model: m, prompt: hi, temperature: warm}}": "wrong_type",
			"{llm: {model: m, prompt: hi, schema: strin}}": "bad_type", `{llm: {model: m, prompt: hi}, idempotency: {body: k}}`: "key_place",
			`{llm: {model: m, prompt: hi}, idempotency: {query: k}}`: "key_place", `{llm: {model: m, prompt: hi}, idempotency: {header: authorization}}`: "key_place",
		},
		Answers: []string{`{"model":"m-1","choices":[{"message":{"content":"{\"queries\":[\"q\"],\"n\":3,\"a\":\"b\"}"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":7}}`,
			`{"choices":[{"message":{"content":"Here it is:\n` + "```json" + `\n{\"queries\":[]}\n` + "```" + `"},"finish_reason":null}]}`},
		Odd: []string{`{"choices":[{"message":{"content":"no JSON"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":7}}`,
			`{"choices":[{"message":{"content":null,"refusal":"no"},"finish_reason":"stop"}]}`},
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
		"input": expr.Raw(`{"n": 2, "s": "x", "wait": "30s"}`), "vars": map[string]any{"a": "https://a.example", "fast": []any{"x", "y"},
			"said": []any{map[string]any{"role": "user", "content": "hi"}}},
		"saga": map[string]any{"id": "s-1"}, "key": "k-1", "steps": map[string]any{}, "n": json.Number("1"),
	}
	all := kinds.All()
	if len(all) != len(suites) {
		t.Errorf("%d kinds, %d suites", len(all), len(suites))
	}
	for _, k := range all {
		s := suites[k.Name]
		s.Kind, s.Env = k, env
		t.Run(k.Name, func(t *testing.T) { kindtest.Run(t, s) })
	}
}

// TestNoKeyTwice holds kinds to not taking a name that all steps have.
func TestNoKeyTwice(t *testing.T) {
	for _, k := range kinds.All() {
		for _, key := range append([]dsl.Key{{Name: k.Name}}, k.Keys...) {
			for _, common := range dsl.StepKeys() {
				if key.Name == common {
					t.Errorf("%s of %s is a key of all steps", key.Name, k.Name)
				}
			}
		}
	}
}
