package kinds_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
		Bad:  map[string]string{`{set: "${key}"}`: "unknown_root", `{set: 0777}`: "number_form", `{set: 1, when: "random(2) == 1"}`: "not_journaled", `{set: 1, output: "${input.n}"}`: "not_for_kind"},
	},
	"fail": {
		Good: []string{`{fail: "no ${input.s}"}`, "{fail: 3}"},
		Bad:  map[string]string{`{fail: "${now()}"}`: "not_journaled", "{fail: [a]}": "wrong_type", "{fail: }": "wrong_type", "{fail: a, output: 1}": "not_for_kind"},
	},
	"emit": {
		Good: []string{
			`{emit: com.shop.paid}`, `{emit: "com.shop.${input.s}", to: audit, data: {n: "${input.n}", list: [1.50, on]}}`, `{emit: a, to: [audit, crm], data: }`,
		},
		Bad: map[string]string{
			`{emit: "a b"}`: "bad_event", `{emit: ""}`: "bad_event", `{emit: [a]}`: "wrong_type", `{emit: a, to: []}`: "wrong_type", `{emit: a, to: {a: 1}}`: "wrong_type",
			`{emit: a, to: [x, x]}`: "duplicate_name", `{emit: a, to: "${input.s}"}`: "bad_name", `{emit: a, data: "${secrets.KEY}"}`: "secret_not_allowed",
			`{emit: a, retry: 3}`: "not_for_kind", `{emit: a, timeout: 3s}`: "not_for_kind", `{emit: a, output: 1}`: "not_for_kind",
		},
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
	"mcp": {
		Good: []string{
			`{mcp: {server: shop, tool: refund, arguments: {order: "${input.s}", n: "${input.n}", key: "${key}"}}, output: "${result.structured.id ?? result.is_error}"}`,
			`{mcp: {server: shop, tool: ns/search.v2}}`, `{mcp: {server: shop, tool: t, arguments: "${vars.said[0]}"}}`,
			`{mcp: {server: shop, tool: t}, idempotency: {body: request_id}, expect: {schema: {id: string}, refused: result.is_error && len(result.content) > 0, error: sold_out}, output: "${result.structured.id}"}`,
			`{mcp: {server: shop, tool: t}, in_doubt: {verify: {mcp: {server: shop, tool: look, arguments: {key: "${key}"}}, found: result.structured.there}}, compensate: {mcp: {server: shop, tool: undo}, in_doubt: ask}}`,
		},
		Bad: map[string]string{
			`{mcp: shop}`: "wrong_type", `{mcp: {tool: t}}`: "missing_key", `{mcp: {server: shop}}`: "missing_key", `{mcp: {server: shop, tool: t, args: {}}}`: "unknown_key",
			`{mcp: {server: Shop, tool: t}}`: "bad_name", `{mcp: {server: "${input.s}", tool: t}}`: "bad_name", `{mcp: {server: shop, tool: "a b"}}`: "bad_name", `{mcp: {server: shop, tool: "${input.s}"}}`: "bad_name",
			`{mcp: {server: shop, tool: t, arguments: [a]}}`: "wrong_type", `{mcp: {server: shop, tool: t, arguments: 3}}`: "wrong_type", `{mcp: {server: shop, tool: t, arguments: {a: "${secrets.KEY}"}}}`: "secret_not_allowed",
			`{mcp: {server: shop, tool: t}, idempotency: none}`: "key_place", `{mcp: {server: shop, tool: t}, idempotency: {query: k}}`: "key_place", `{mcp: {server: shop, tool: t}, idempotency: {header: X-Key}}`: "key_place",
			`{mcp: {server: shop, tool: t}, output: "${result.body}"}`: "unknown_field",
		},
		Answers: []string{`{"content":[{"type":"text","text":"done"}],"is_error":false}`, `{"content":[],"structured":{"id":"r-1"},"is_error":false}`},
		Odd:     []string{`{"content":[{"type":"text","text":"no"}],"is_error":true}`, `{"content":7}`, `{"is_error":false}`},
	},
	"sleep": {
		Good: []string{"{sleep: 5m}", "{sleep: 2030-01-31T09:00:00Z}", `{sleep: "${input.wait}"}`, `{sleep: "${input.s}"}`},
		Bad:  map[string]string{"{sleep: 5}": "bad_duration", "{sleep: soon}": "bad_duration", `{sleep: "${now()}"}`: "not_journaled", "{sleep: [1s]}": "wrong_type", "{sleep: 1s, output: 1}": "not_for_kind"},
	},
	"approval": {
		Good: []string{
			`{approval: {title: "Pay ${input.n}?"}}`,
			`{approval: {title: "Pay?", approvers: [finance, "${input.s}"], show: {n: "${input.n}", all: "${input}"}, form: {amount: integer, note: "string?"}}, timeout: 48h, on_timeout: reject, four_eyes: true}`,
			`{approval: {title: "Pay?", approvers: "${input.list}", form: {$ref: "#/$defs/f", $defs: {f: {type: object}}}}, timeout: 1h, on_timeout: approve, when: input.n > 1, on_error: continue}`,
			`{approval: {title: "Pay?", form: {note: string = none}}, timeout: 1h, on_timeout: approve}`,
		},
		Bad: map[string]string{
			`{approval: Pay}`:                                                                   "wrong_type",
			`{approval: {show: 1}}`:                                                             "missing_key",
			`{approval: {title: ""}}`:                                                           "bad_title",
			"{approval: {title: \"a\\nb\"}}":                                                    "bad_title",
			`{approval: {title: [a]}}`:                                                          "wrong_type",
			`{approval: {title: T, who: me}}`:                                                   "unknown_key",
			`{approval: {title: T, form: txt}}`:                                                 "bad_type",
			`{approval: {title: T, form: {$defs: 3}}}`:                                          "bad_schema",
			`{approval: {title: T, approvers: []}}`:                                             "bad_approvers",
			`{approval: {title: T, approvers: [a, ""]}}`:                                        "bad_approvers",
			`{approval: {title: T, approvers: [a, [b]]}}`:                                       "bad_approvers",
			`{approval: {title: T, approvers: {a: 1}}}`:                                         "wrong_type",
			`{approval: {title: T, show: "${secrets.KEY}"}}`:                                    "secret_not_allowed",
			`{approval: {title: "${secrets.KEY}"}}`:                                             "secret_not_allowed",
			`{approval: {title: T}, on_timeout: reject}`:                                        "missing_key",
			`{approval: {title: T}, timeout: 1h, on_timeout: skip}`:                             "unknown_value",
			`{approval: {title: T, form: {amount: integer}}, timeout: 1h, on_timeout: approve}`: "needs_data",
			`{approval: {title: T}, timeout: soon}`:                                             "bad_duration",
			`{approval: {title: T}, four_eyes: yes}`:                                            "wrong_type",
			`{approval: {title: T}, output: 1}`:                                                 "not_for_kind",
			`{approval: {title: T}, retry: 3}`:                                                  "not_for_kind",
		},
	},
	"signal": {
		Good: []string{`{signal: paid}`, `{signal: com.shop.order-paid_1, timeout: 2d}`},
		Bad: map[string]string{`{signal: Paid}`: "bad_name", `{signal: "${input.s}"}`: "bad_name", `{signal: 3}`: "wrong_type", `{signal: }`: "wrong_type",
			`{signal: paid, timeout: 3}`: "bad_duration", `{signal: paid, output: "${input.s}"}`: "not_for_kind", `{signal: paid, in_doubt: ask}`: "not_for_kind"},
	},
	"switch": {
		Good: []string{"{switch: [{when: input.n > 3, steps: [{id: a, inert: 1}]}, {steps: [{id: b, inert: 1}]}]}", "{switch: [{when: input.n > 1, steps: [{id: a, inert: 1}]}]}"},
		Bad: map[string]string{"{switch: []}": "wrong_type", "{switch: [{steps: []}]}": "wrong_type", "{switch: [{when: input.n > 1}]}": "missing_key",
			"{switch: [{steps: [{id: a, inert: 1}]}, {steps: [{id: b, inert: 1}]}]}": "missing_key", "{switch: [{steps: [{id: a, inert: 1}]}], output: 1}": "not_for_kind"},
	},
	"parallel": {
		Good: []string{"{parallel: [{id: a, inert: 1}]}", "{parallel: [{id: a, inert: 1}, {id: b, parallel: [{id: c, inert: 1}]}], on_error: continue, when: input.n > 1}"},
		Bad: map[string]string{
			"{parallel: []}":                                                                "wrong_type",
			"{parallel: {id: a}}":                                                           "wrong_type",
			"{parallel: [{id: a, inert: 1}], body: 1}":                                      "unknown_key",
			"{parallel: [{id: a, inert: 1}], retry: 2}":                                     "not_for_kind",
			"{parallel: [{id: a, inert: 1}], output: 1}":                                    "not_for_kind",
			"{parallel: [{id: a, inert: 1, pivot: true}]}":                                  "bad_pivot",
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
			`{foreach: [], as: nil, steps: [{id: a, inert: 1}]}`:                  "bad_name",
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
	"task": {
		Answers: []string{`{"words":3}`, "null"},
		Good: []string{
			`{task: page.fetch, input: {n: "${input.n}", k: "${key}"}, heartbeat: 5s, timeout: 1h, retry: {attempts: 3, on: [heartbeat_lost]}, cost: 0.01 USD}`,
			"{task: a}", "{task: a-b_c, input: }", `{task: a, input: "${input}", idempotency: {body: key}}`, `{task: a, expect: {schema: {n: integer}, that: result.body.n > 1}}`,
		},
		Bad: map[string]string{
			"{task: Fetch}": "bad_name", "{task: .a}": "bad_name", "{task: [a]}": "wrong_type", `{task: "a.${input.s}"}`: "bad_name",
			`{task: a, input: "${secrets.KEY}"}`: "secret_not_allowed", "{task: a, heartbeat: 500ms}": "bad_duration", "{task: a, heartbeat: 5}": "bad_duration",
			"{task: a, body: {}}": "unknown_key", "{task: a, idempotency: {query: k}}": "key_place", "{task: a, input: [1], idempotency: {body: k}}": "key_place",
		},
	},
	"run": {
		Good: []string{"{run: other}", `{run: other@v3, input: {n: "${input.n}"}, compensate: none}`, "{run: other@2}"},
		Bad:  map[string]string{"{run: Other}": "bad_name", "{run: other@v0}": "bad_name", "{run: [a]}": "wrong_type", "{run: other, timeout: 1h}": "not_for_kind", `{run: "${input.s}"}`: "bad_name"},
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
			`{http: "POST https://a.example/", body: "a=${input.s}", headers: {content-type: application/x-www-form-urlencoded; charset=utf-8, X-Key: a}, query: {k: 1}, idempotency: {key: "${input.s}"}}`,
			`{http: "POST https://a.example/", body: {a: 1}, headers: {Content-Type: application/problem+json}, auth: x, idempotency: {body: k}}`,
			`{http: "POST https://a.example/", body: "${input.s}", headers: {Content-Type: "${input.s}/x"}, query: {k: 1}, idempotency: {query: K}}`,
			`{http: "POST https://a.example/", body: "${input.s}", headers: {Content-Type: text/plain, Idempotency-Key: mine}, idempotency: none}`,
			`{http: "POST https://a.example/", body: "${secrets.KEY}", headers: {Content-Type: text/plain}}`,
			`{http: "POST https://a.example/", in_doubt: {verify: {http: "GET https://a.example/", headers: {Idempotency-Key: "${key}"}, found: result.status == 200}}}`,
			`{http: "HEAD https://a.example/"}`, `{http: "PUT ${vars.a}/x"}`, `{http: "PATCH ${vars.a}"}`, `{http: "DELETE ${vars.a}:80/x"}`,
		},
		Bad: map[string]string{
			`{http: "GET ${input.s}"}`: "host_not_fixed", `{http: GET}`: "bad_request",
			`{http: "POST ${vars.a}", headers: {idempotency-key: "${input.s}"}}`:                                                         "key_place",
			`{http: "POST ${vars.a}", auth: {header: Idempotency-Key, value: x}}`:                                                        "key_place",
			`{http: "POST ${vars.a}", auth: x, idempotency: {header: authorization}}`:                                                    "key_place",
			`{http: "POST ${vars.a}", body: {k: 1}, idempotency: {body: k}}`:                                                             "key_place",
			`{http: "POST ${vars.a}", query: {k: 1}, idempotency: {query: k}}`:                                                           "key_place",
			`{http: "POST ${vars.a}/x?a=${input.s}&k=1", idempotency: {query: k}}`:                                                       "key_place",
			`{http: "POST ${vars.a}", compensate: {http: "DELETE ${vars.a}", headers: {Idempotency-Key: "${key}"}}}`:                     "key_place",
			`{http: "POST ${vars.a}", headers: {Content-Type: application/x-www-form-urlencoded}, body: {a: 1}, idempotency: {body: k}}`: "key_place",
			`{http: "POST ${vars.a}", headers: {Content-Type: text/plain}, body: "${input.s}", idempotency: {body: k}}`:                  "key_place",
			`{http: "POST ${vars.a}", headers: {Content-Type: text/plain}, body: {a: 1}}`:                                                "wrong_type",
			`{http: "POST ${vars.a}", headers: {content-type: text/plain}, body: 3}`:                                                     "wrong_type",
			`{http: "POST ${vars.a}", headers: {Content-Type: application/x-www-form-urlencoded}, body: [1]}`:                            "wrong_type",
			`{http: "GET ${vars.a}", query: {q: [1, [2]]}}`:                                                                              "wrong_type",
		},
	},
}

func TestKinds(t *testing.T) {
	env := expr.MapEnv{
		"input": expr.Raw(`{"n": 2, "s": "x", "wait": "30s", "list": [1, "x"]}`), "vars": map[string]any{"a": "https://a.example", "fast": []any{"x", "y"},
			"said": []any{map[string]any{"role": "user", "content": "hi"}}},
		"saga": map[string]any{"id": "s-1"}, saga.Kin: map[string]any{"id": "c-1", "parent": "s-1", "path": "it", "depth": json.Number("1")}, "key": "k-1", "steps": map[string]any{}, "n": json.Number("1"),
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

// TestNoKeyTwice holds kinds to not taking a name that all steps have, but for those that a kind
// may give a meaning of its own.
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

// shapes has the interfaces of package saga that a body may have: the shapes, then what some bodies
// implement in addition.
var shapes = map[string][]reflect.Type{
	"shape": {reflect.TypeFor[saga.Value](), reflect.TypeFor[saga.Wait](), reflect.TypeFor[saga.Await](), reflect.TypeFor[saga.Announce](), reflect.TypeFor[saga.Block](), reflect.TypeFor[saga.Call]()},
	"addition": {reflect.TypeFor[saga.Approver](), reflect.TypeFor[saga.Receiver](), reflect.TypeFor[saga.Chooser](), reflect.TypeFor[saga.Remover](), reflect.TypeFor[saga.Reader](), reflect.TypeFor[saga.Resulting](),
		reflect.TypeFor[saga.Queued](), reflect.TypeFor[saga.Spawner](), reflect.TypeFor[saga.Priced](), reflect.TypeFor[saga.Modelled](), reflect.TypeFor[saga.Sequel]()},
}

// The table of shapes in the documentation of package saga is complete: each kind has one shape.
func TestShapeTable(t *testing.T) {
	got := make(map[string][]string) // kinds, by interface
	for _, k := range kinds.All() {
		s := suites[k.Name]
		s.Kind, s.Actions = k, action
		step, errs := s.Parse(s.Good[0])
		if errs != nil {
			t.Fatal(errs)
		}
		of := 0
		for _, class := range []string{"shape", "addition"} {
			for _, i := range shapes[class] {
				if !reflect.TypeOf(step.Body).Implements(i) || k.Name == "use" { // its body is the action's
					continue
				}
				got[i.Name()] = append(got[i.Name()], k.Name)
				if class == "shape" {
					of++
				}
			}
		}
		if of != 1 && k.Name != "use" {
			t.Errorf("%s has %d shapes, want one", k.Name, of)
		}
	}
	doc, err := os.ReadFile("../doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "in addition\n")
	rest, _, _ = strings.Cut(rest, "\n\n")
	want := make(map[string][]string)
	for row := range strings.SplitSeq(rest, "\n") {
		shape, columns, _ := strings.Cut(strings.TrimPrefix(row, "\t"), " ")
		columns = strings.TrimSpace(columns)
		if shape != "" {
			column := columns
			if at := regexp.MustCompile(`[A-Z]`).FindStringIndex(columns); at != nil {
				column, columns = columns[:at[0]], columns[at[0]:]
			} else {
				columns = ""
			}
			want[shape] = regexp.MustCompile(`\w+`).FindAllString(column, -1)
		}
		for _, m := range regexp.MustCompile(`(\w+) \(([a-z, ]+)\)`).FindAllStringSubmatch(columns, -1) {
			want[m[1]] = strings.Split(m[2], ", ")
		}
	}
	for _, m := range []map[string][]string{got, want} {
		for _, list := range m {
			slices.Sort(list)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table of step shapes in saga/doc.go (-) is not what the kinds implement (+):\n%s", diff)
	}
}
