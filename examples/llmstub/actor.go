package llmstub

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
)

// scripts are what the model does for each item of a list in the user's message: one stage after
// the other. Calls of one stage do not depend on each other.
var scripts = map[string][][]string{
	"orders": {{"look"}, {"refund"}, {"mail"}},
	"trips":  {{"book_flight", "book_hotel"}, {"send_mail"}},
}

// item is an element of a list in the user's message.
type item struct {
	Fields map[string]json.RawMessage
	Stages [][]string
}

// actor plays the model of an agent.
type actor struct {
	rng      *rand.Rand
	random   bool
	oneByOne bool
}

// ticket finds the items that the user's messages list, as JSON within any text:
// {"orders": [{…}, {…}]}.
func (q *question) ticket() (items []item) {
	for _, m := range q.Messages {
		if m.Role != userRole {
			continue
		}
		for rest := m.Text; ; rest = rest[1:] {
			at := strings.IndexByte(rest, '{')
			if at < 0 {
				break
			}
			rest = rest[at:]
			var doc map[string]json.RawMessage
			if json.NewDecoder(strings.NewReader(rest)).Decode(&doc) != nil {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(scripts)) {
				var list []map[string]json.RawMessage
				_ = json.Unmarshal(doc[name], &list) // another list than the script's
				for _, fields := range list {
					items = append(items, item{fields, scripts[name]})
				}
			}
			break
		}
	}
	return items
}

// calls returns the next tool calls: for each item those of its first stage that has not been
// called. A tool that must be called, but is not in a script, gets an instance of its schema.
func (a *actor) calls(q *question, items []item) []toolCall {
	if q.Choice == noTool || len(q.Tools) == 0 {
		return nil
	}
	var due []toolCall
	for _, it := range items {
		due = append(due, a.due(q, it)...)
	}
	if q.Choice != "" {
		due = a.forced(q, due)
	}
	if a.random {
		a.rng.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	}
	if (q.Single || a.oneByOne) && len(due) > 1 {
		due = due[:1]
	}
	for i := range due {
		due[i].ID = newID(a.rng)
	}
	return due
}

func (a *actor) due(q *question, it item) (calls []toolCall) {
	for _, stage := range it.Stages {
		for _, name := range stage {
			if t, ok := q.tool(name); ok && !q.called(name, it) {
				calls = append(calls, toolCall{Name: name, Arguments: a.arguments(t, it.Fields)})
			}
		}
		if len(calls) > 0 {
			return calls
		}
	}
	return nil
}

// forced returns those of the calls that the request demands, or makes one. After a tool's result a
// demand is met.
func (a *actor) forced(q *question, due []toolCall) []toolCall {
	if q.Choice != anyTool {
		due = slices.DeleteFunc(due, func(c toolCall) bool { return c.Name != q.Choice })
	}
	if len(due) > 0 || q.Messages[len(q.Messages)-1].Role == toolRole {
		return due
	}
	t := q.Tools[0]
	if q.Choice != anyTool {
		var ok bool
		if t, ok = q.tool(q.Choice); !ok {
			return nil
		}
	}
	return []toolCall{{Name: t.Name, Arguments: a.arguments(t, nil)}}
}

func (q *question) tool(name string) (tool, bool) {
	i := slices.IndexFunc(q.Tools, func(t tool) bool { return t.Name == name })
	if i < 0 {
		return tool{}, false
	}
	return q.Tools[i], true
}

// called reports whether the conversation has a call of a tool for an item: one with the item's
// values in all arguments that are named like its fields.
func (q *question) called(name string, it item) bool {
	for _, m := range q.Messages {
		for _, c := range m.Calls {
			var args map[string]json.RawMessage
			if c.Name != name || json.Unmarshal([]byte(c.Arguments), &args) != nil {
				continue
			}
			same := true
			for field, value := range it.Fields {
				if given, ok := args[field]; ok && !equal(given, value) {
					same = false
				}
			}
			if same {
				return true
			}
		}
	}
	return false
}

func equal(a, b json.RawMessage) bool {
	return reflect.DeepEqual(decoded(a), decoded(b))
}

func decoded(raw json.RawMessage) (v any) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	_ = d.Decode(&v) // it is part of a document that was decoded
	return v
}

// arguments returns arguments that fit a tool's schema: values of the fields with the same name,
// a phrase for any other text, and an instance of the schema for the rest.
func (a *actor) arguments(t tool, fields map[string]json.RawMessage) string {
	schema, _ := decoded(t.Schema).(map[string]any)
	properties, _ := schema["properties"].(map[string]any)
	names := slices.Sorted(maps.Keys(properties))
	space := ""
	if a.random {
		a.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		space = strings.Repeat(" ", a.rng.IntN(2))
	}
	var pairs []string
	for _, name := range names {
		value, ok := fields[name]
		if !ok {
			value = encode(a.value(schema, properties[name], name))
		}
		pairs = append(pairs, string(encode(name))+":"+space+string(value))
	}
	return "{" + strings.Join(pairs, ","+space) + "}"
}

func (a *actor) value(root, schema any, name string) any {
	rules, _ := schema.(map[string]any)
	if kind(rules) == "string" && rules["const"] == nil && rules["enum"] == nil && rules["format"] == nil {
		return a.phrase()
	}
	return (&maker{root: root}).make(schema, name, 0)
}

var (
	openings = []string{"Good news", "All set", "Hello", "As agreed", "Thank you", "A short note", "Done", "For your records"}
	closings = []string{"this is arranged.", "your request was handled.", "everything is in order.", "we took care of it.",
		"no further step is needed.", "the details follow.", "please keep this for reference.", "it went through."}
)

// phrase is a text that no field of the ticket says.
func (a *actor) phrase() string {
	return openings[a.rng.IntN(len(openings))] + ": " + closings[a.rng.IntN(len(closings))]
}

func (a *actor) announce(calls []toolCall) string {
	var names []string
	for _, c := range calls {
		names = append(names, c.Name)
	}
	return []string{"Next: ", "I call ", "Let me do this: "}[a.rng.IntN(3)] + strings.Join(names, ", ") + "."
}

func (a *actor) conclude(items int) string {
	return fmt.Sprintf("%s It was %d.", a.phrase(), items)
}
