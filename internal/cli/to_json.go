package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"

	"go.yaml.in/yaml/v4"

	"recourse/journal"
)

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// YAMLToJSON converts a YAML value to JSON; numbers keep their digits.
func YAMLToJSON(n *yaml.Node) (json.RawMessage, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		return scalarJSON(n)
	case yaml.SequenceNode:
		parts := make([]json.RawMessage, len(n.Content))
		for i, one := range n.Content {
			var err error
			if parts[i], err = YAMLToJSON(one); err != nil {
				return nil, err
			}
		}
		return journal.Encode(parts)
	case yaml.MappingNode:
		return mapJSON(n)
	}
	return nil, errors.New("aliases and the like are not taken here: write the value out")
}

// mapJSON keeps the keys' order.
func mapJSON(n *yaml.Node) (json.RawMessage, error) {
	var b bytes.Buffer
	seen := make(map[string]bool)
	b.WriteByte('{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		if n.Content[i].Kind != yaml.ScalarNode {
			return nil, errors.New("a key is text here, not a list, a map or an alias")
		}
		if seen[name] {
			return nil, errors.New("the key " + name + " is there twice")
		}
		seen[name] = true
		key, err := journal.Encode(name)
		if err != nil {
			return nil, err
		}
		value, err := YAMLToJSON(n.Content[i+1])
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func scalarJSON(n *yaml.Node) (json.RawMessage, error) {
	if n.Style == 0 {
		switch v := n.Value; {
		case v == "" || v == "null" || v == "~":
			return json.RawMessage("null"), nil
		case v == "true" || v == "false":
			return json.RawMessage(v), nil
		case jsonNumber.MatchString(v):
			return json.RawMessage(v), nil
		}
	}
	return journal.Encode(n.Value)
}
