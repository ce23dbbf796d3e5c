package dsl

import (
	"encoding/json"
	"fmt"
)

// Schema returns a JSON Schema (2020-12) of a whole definition, for editors. It describes shapes,
// not scopes: it accepts every definition that Parse accepts, and some that Parse refuses. The same
// kinds give the same bytes.
func Schema(kinds []Kind) []byte {
	doc := object("saga", "steps")
	doc.properties(map[string]any{
		"saga":         pattern(sagaName.String()),
		"description":  kindOf("string"),
		"input":        true,
		"input_schema": json.RawMessage(`{"type": ["object", "boolean"]}`),
		"output":       true,
		"budget":       anyOf(ref("money"), limits(map[string]any{"on_exceed": words("fail", "ask")})),
		"timeout":      ref("duration"),
		"checkpoint":   words("step", "phase", "decision"),
		"retention":    anyOf(ref("duration"), words("forever")),
		"unique":       true,
		"vars":         kindOf("object"),
		"secrets":      map[string]any{"type": "array", "items": pattern(secretName.String())},
		"defaults": object().properties(map[string]any{
			"retry": ref("retry"), "timeout": ref("duration"), "in_doubt": words("retry", "ask", "fail"), "on_error": words("fail", "hold"), "hold_for": ref("duration")}),
		"on_failure": words("compensate", "stop"),
		"finally":    ref("steps"),
		"steps":      ref("steps"),
		"triggers":   map[string]any{"type": "array", "minItems": 1, "maxItems": MaxTriggers, "items": ref("trigger")},
	})
	doc["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	doc["title"] = "A recourse saga definition"
	doc["$defs"] = definitions(kinds)
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("dsl: the schema of a kind is not JSON: %v", err))
	}
	return out
}

// rules is a JSON Schema of an object without other properties.
type rules map[string]any

func object(required ...string) rules {
	r := rules{"type": "object", "additionalProperties": false}
	if len(required) > 0 {
		r["required"] = required
	}
	return r
}

func (r rules) properties(p map[string]any) rules {
	r["properties"] = p
	return r
}

// limits is a JSON Schema of the parts of a budget, and of more keys.
func limits(more map[string]any) rules {
	return object().properties(merged(map[string]any{"amount": ref("money"), "tokens": json.RawMessage(`{"type": "integer", "minimum": 1}`)}, more))
}

func ref(name string) any      { return map[string]any{"$ref": "#/$defs/" + name} }
func kindOf(word string) any   { return map[string]any{"type": word} }
func words(list ...string) any { return map[string]any{"enum": list} }
func pattern(p string) any     { return map[string]any{"type": "string", "pattern": p} }
func anyOf(list ...any) any    { return map[string]any{"anyOf": list} }
func listOr(item any) any {
	return anyOf(item, map[string]any{"type": "array", "minItems": 1, "items": item})
}
func described(doc string, rule any) any {
	return map[string]any{"description": doc, "allOf": []any{rule}}
}
func merged(base, more map[string]any) map[string]any {
	out := make(map[string]any, len(base)+len(more))
	for _, k := range sortedKeys(base) {
		out[k] = base[k]
	}
	for _, k := range sortedKeys(more) {
		out[k] = more[k]
	}
	return out
}

func definitions(kinds []Kind) map[string]any {
	retryMap := object().properties(map[string]any{
		"attempts": json.RawMessage(`{"type": "integer", "minimum": 1}`), "initial": ref("duration"), "max": ref("duration"),
		"factor": json.RawMessage(`{"type": "number", "minimum": 1, "maximum": 100}`), "jitter": json.RawMessage(`{"type": "number", "minimum": 0, "maximum": 1}`),
		"on": ref("reasons"), "not_on": ref("reasons")})
	reason := anyOf(json.RawMessage(`{"type": "integer", "minimum": 100, "maximum": 599}`), words(append([]string{"4xx", "5xx"}, reasons...)...), pattern(`^[1-5][0-9][0-9]$`))
	status := anyOf(json.RawMessage(`{"type": "integer", "minimum": 100, "maximum": 599}`), pattern(`^[1-5]([0-9][0-9]|xx)$`))
	shared := map[string]any{
		"expect": ref("expect"), "timeout": ref("duration"), "deadline": ref("duration"), "cost": ref("cost"),
		"idempotency": ref("idempotency"), "key_window": ref("duration"), "retry": ref("retry"), "when": ref("condition")}
	return map[string]any{
		"duration":  pattern(durationForm.String()),
		"money":     pattern(`^[0-9]{1,15}(\.[0-9]{1,12})? [A-Z]{3}$`),
		"endowment": anyOf(ref("money"), limits(nil)),
		"condition": json.RawMessage(`{"type": ["string", "boolean"]}`),
		"reasons":   listOr(reason),
		"retry":     anyOf(json.RawMessage(`{"type": "integer", "minimum": 1}`), words("none", "forever"), retryMap),
		"expect": object().properties(map[string]any{"status": listOr(status), "schema": true, "that": ref("condition"), "refused": ref("condition"),
			"error": pattern(stepName.String())}),
		"cost": anyOf(ref("money"), object("from", "reserve").properties(map[string]any{"from": true, "reserve": ref("money")})),
		"idempotency": anyOf(words("header", "none"), object().properties(map[string]any{
			"header": kindOf("string"), "body": kindOf("string"), "query": kindOf("string"), "key": kindOf("string")})),
		"in_doubt": anyOf(words("retry", "ask", "fail"), object("verify").properties(map[string]any{
			"verify": ref("verify"), "otherwise": words("retry", "ask", "fail")})),
		"trigger": anyOf(
			object("event").properties(map[string]any{"event": pattern(eventPattern.String()), "if": ref("condition"), "input": true}),
			object("cron").properties(map[string]any{"cron": kindOf("string"), "timezone": kindOf("string"), "catch_up": words("last", "all", "none"), "if": ref("condition"), "input": true})),
		"steps": map[string]any{"type": "array", "minItems": 1, "items": ref("step")},
		"step": withKind(kinds, []string{"id"}, merged(shared, map[string]any{
			"id": pattern(stepName.String()), "output": true, "in_doubt": ref("in_doubt"), "on_error": words("fail", "continue", "hold"), "hold_for": ref("duration"),
			"fresh_for": ref("duration"), "on_change": words("fail", "ask"),
			"pivot": kindOf("boolean"), "compensate": anyOf(words("none"), ref("compensation"))})),
		"compensation": withKind(kinds, nil, merged(shared, map[string]any{
			"on": listOr(words("succeeded", "in_doubt")), "order": words("first", "reverse", "last"), "in_doubt": words("retry", "ask"), "undo_within": ref("duration")})),
		"verify": withKind(kinds, []string{"found"}, map[string]any{
			"found": ref("condition"), "output": true, "after": ref("duration"), "expect": ref("expect"), "timeout": ref("duration")}),
	}
}

// withKind returns an object with exactly one of the kinds and the keys that belong to it.
func withKind(kinds []Kind, required []string, shared map[string]any) any {
	var each []any
	for _, k := range kinds {
		own := map[string]any{k.Name: described(k.Doc, k.Value)}
		for _, key := range k.Keys {
			own[key.Name] = key.Schema
		}
		each = append(each, object(append([]string{k.Name}, required...)...).properties(merged(shared, own)))
	}
	return map[string]any{"oneOf": each}
}
