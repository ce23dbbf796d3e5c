// Package outline reads how a definition is written, which its compiled form does not keep.
package outline

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Outline contains parts of a definition's text that its compiled form does not keep: how its steps
// are written, and the order of its input's fields. It is empty if the text cannot be read.
type Outline struct {
	steps map[string]Wording // by step id
	input *yaml.Node         // input or input_schema; nil for neither
}

// Wording is a short form of a step's text.
type Wording struct {
	Text     string   // the value of its kind: "POST ${vars.pay}/charges"
	Undo     string   // the value of its compensation's kind
	Check    string   // the value of its status check's kind
	Branches []string // conditions of a switch, "" for a last one without
}

// bodies are the keys whose value describes a step, a compensation or a status check.
var bodies = []string{"http", "llm", "task", "use", "run", "emit", "signal", "sleep", "approval", "foreach", "repeat", "fail"}

// Of reads the text of a definition.
func Of(source []byte) Outline {
	o := Outline{steps: map[string]Wording{}}
	var doc yaml.Node
	if yaml.Unmarshal(source, &doc) != nil || len(doc.Content) != 1 {
		return o
	}
	root := doc.Content[0]
	if o.input = under(root, "input"); o.input == nil {
		o.input = under(root, "input_schema")
	}
	for _, key := range []string{"steps", "finally"} {
		o.walk(under(root, key))
	}
	return o
}

// Name returns the name that a document gives itself, and whether it is an action; "" if it has
// none.
func Name(source []byte) (name string, action bool) {
	var doc yaml.Node
	if yaml.Unmarshal(source, &doc) != nil || len(doc.Content) != 1 {
		return "", false
	}
	root := doc.Content[0]
	if n := under(root, "saga"); n != nil {
		return text(n), false
	}
	name = text(under(root, "action"))
	return name, name != ""
}

// walk reads a list of steps, with nested ones.
func (o *Outline) walk(list *yaml.Node) {
	if list == nil || list.Kind != yaml.SequenceNode {
		return
	}
	for _, step := range list.Content {
		id := under(step, "id")
		if id == nil {
			continue
		}
		g := Wording{Text: written(step), Undo: written(under(step, "compensate")), Check: written(under(under(step, "in_doubt"), "verify"))}
		if branches := under(step, "switch"); branches != nil {
			for _, b := range branches.Content {
				g.Branches = append(g.Branches, text(under(b, "when")))
				o.walk(under(b, "steps"))
			}
		}
		o.steps[id.Value] = g
		o.walk(under(step, "parallel"))
		o.walk(under(step, "steps"))
	}
}

// written returns the value of a body in one line.
func written(body *yaml.Node) string {
	for _, kind := range bodies {
		n := under(body, kind)
		if n == nil {
			continue
		}
		if n.Kind == yaml.MappingNode { // the main part of kinds with several parts
			for _, key := range []string{"title", "model", "until"} {
				if part := under(n, key); part != nil && key == "until" {
					return line("until " + text(part))
				} else if part != nil {
					return line(text(part))
				}
			}
		}
		return line(text(n))
	}
	return ""
}

// under returns a field of a mapping; nil if absent.
func under(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// text returns the text of a scalar, or of a list of scalars.
func text(n *yaml.Node) string {
	switch {
	case n == nil:
		return ""
	case n.Kind == yaml.ScalarNode:
		return n.Value
	case n.Kind == yaml.SequenceNode:
		var parts []string
		for _, item := range n.Content {
			parts = append(parts, text(item))
		}
		return strings.Join(parts, ", ")
	}
	return ""
}

func line(s string) string { return strings.Join(strings.Fields(s), " ") }

// Step returns how a step is written, by its id.
func (o *Outline) Step(id string) Wording { return o.steps[id] }

// Order sorts the names of an object's fields in the order of the text; path leads to the object.
func (o *Outline) Order(names []string, path ...string) {
	n := o.input
	for _, name := range path {
		if p := under(n, "properties"); p != nil {
			n = p
		}
		n = under(n, name)
	}
	if p := under(n, "properties"); p != nil {
		n = p
	}
	at := map[string]int{}
	if n != nil && n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			at[n.Content[i].Value] = i + 1
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if at[a] != at[b] {
			return at[a] - at[b]
		}
		return strings.Compare(a, b)
	})
}
