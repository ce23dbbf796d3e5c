package dsl

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
)

// scalarKind is the type of a scalar by YAML 1.2's core schema. Numbers that JSON writes
// differently have a type of their own.
type scalarKind int

const (
	textScalar scalarKind = iota
	nullScalar
	boolScalar
	numberScalar // a number that JSON writes alike: its literal is kept
	oddNumber    // 0777, 0o17, 0x1F, 1_000, .5, +1, .inf
)

var (
	jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
	// A number by YAML 1.2, or by YAML 1.1, which other tools read.
	yamlNumber = regexp.MustCompile(`^[-+]?([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?$` +
		`|^[-+]?0o[0-7_]+$|^[-+]?0x[0-9a-fA-F_]+$|^[-+]?0b[01_]+$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$`)
)

func classify(value string, style yaml.Style) scalarKind {
	if style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return textScalar
	}
	switch value {
	case "", "~", "null", "Null", "NULL":
		return nullScalar
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return boolScalar
	}
	switch {
	case len(value) == 0 || strings.IndexByte("+-.0123456789", value[0]) < 0:
		return textScalar
	case jsonNumber.MatchString(value):
		return numberScalar
	case yamlNumber.MatchString(value):
		return oddNumber
	}
	return textScalar
}

// literal returns a scalar that is not text as JSON.
func (n *Node) literal() json.RawMessage {
	switch n.kind {
	case nullScalar:
		return json.RawMessage("null")
	case boolScalar:
		return json.RawMessage(strings.ToLower(n.value))
	}
	return json.RawMessage(n.value)
}

// jsonText writes a string as JSON without escaping <, > and &.
func jsonText(s string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic("dsl: a string that JSON cannot hold: " + err.Error()) // strings can always be encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// plain returns a scalar that is not text as a value: nil, a bool or a json.Number.
func (n *Node) plain() any {
	switch n.kind {
	case nullScalar:
		return nil
	case boolScalar:
		return strings.EqualFold(n.value, "true")
	}
	return json.Number(n.value)
}
