package dsl

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"recourse/saga/expr"
)

// Form is the shape of a node.
type Form int

// The forms.
const (
	Scalar Form = iota
	List
	Map
)

// Node is a value of a document, with its place. Mappings keep their order.
type Node struct {
	Form         Form
	Line, Column int
	Items        []*Node // for a List
	Entries      []Entry // for a Map

	value  string // for a Scalar
	kind   scalarKind
	style  yaml.Style
	parent *Node
	token  string // the name or index in the parent
}

// Entry is a key of a Map with its value.
type Entry struct {
	Key   *Node
	Value *Node
}

// Name returns the key as text.
func (e Entry) Name() string { return e.Key.value }

// Text returns a scalar as written, without quotes; "" for other forms.
func (n *Node) Text() string { return n.value }

// size counts the values of the node, including itself and its keys.
func (n *Node) size() int {
	sum := 1
	for _, item := range n.Items {
		sum += item.size()
	}
	for _, e := range n.Entries {
		sum += 1 + e.Value.size()
	}
	return sum
}

// IsText reports whether the node is a string.
func (n *Node) IsText() bool { return n.Form == Scalar && n.kind == textScalar }

// IsNull reports whether the node is null, as a key without a value is.
func (n *Node) IsNull() bool { return n.Form == Scalar && n.kind == nullScalar }

// Get returns the value of a key of a Map, or nil.
func (n *Node) Get(name string) *Node {
	if n == nil || n.Form != Map {
		return nil
	}
	for _, e := range n.Entries {
		if e.Name() == name {
			return e.Value
		}
	}
	return nil
}

// Pointer returns the node's place as a JSON pointer (RFC 6901).
func (n *Node) Pointer() string {
	var tokens []string
	for ; n != nil && n.parent != nil; n = n.parent {
		tokens = append(tokens, n.token)
	}
	var b strings.Builder
	for _, token := range slices.Backward(tokens) {
		b.WriteString("/" + expr.PointerToken(token))
	}
	return b.String()
}

// what returns the name of the node's type, for a sentence.
func (n *Node) what() string {
	switch {
	case n.Form == List && len(n.Items) == 0:
		return "an empty list"
	case n.Form == List:
		return "a list"
	case n.Form == Map:
		return "a map"
	}
	switch n.kind {
	case nullScalar:
		return "nothing"
	case boolScalar:
		return "the bool " + n.value
	case numberScalar, oddNumber:
		return "the number " + clip(n.value, 40)
	}
	return "the text " + strconv.Quote(clip(n.value, 40))
}

// JSONType returns the name of the type of a JSON document, for a sentence that must not quote it.
func JSONType(doc json.RawMessage) string {
	switch string(doc[:min(1, len(doc))]) {
	case "", "n":
		return "null"
	case "t", "f":
		return "a bool"
	case `"`:
		return "text"
	case "[":
		return "a list"
	case "{":
		return "a map"
	}
	return "a number"
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
