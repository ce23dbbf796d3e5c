package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// jsonToYAML converts a JSON document to YAML: fields keep their order, numbers their digits.
func jsonToYAML(doc []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	n, err := jsonNode(d)
	if err != nil {
		return nil, fmt.Errorf("write as YAML: %w", err)
	}
	text, err := yaml.Dump(n, yaml.WithIndent(2), yaml.WithLineWidth(-1))
	if err != nil {
		return nil, fmt.Errorf("write as YAML: %w", err)
	}
	return text, nil
}

// jsonNode reads the next JSON value.
func jsonNode(d *json.Decoder) (*yaml.Node, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		return jsonNodes(d, t)
	case json.Number: // plain, without a tag, so that the digits stay as they are
		return &yaml.Node{Kind: yaml.ScalarNode, Value: t.String()}, nil
	case string:
		return textNode(t), nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(t)}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
}

// jsonNodes reads the content of an object or an array.
func jsonNodes(d *json.Decoder, begin json.Delim) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	if begin == '{' {
		n.Kind = yaml.MappingNode
	}
	for d.More() { // for an object also its keys
		one, err := jsonNode(d)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, one)
	}
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	_, err := d.Token()
	return n, err
}

// textNode returns a text node that no reader takes for another type: 1e3, no and 2026-11-21 are
// quoted.
func textNode(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	if !plainText.MatchString(text) || taken(text) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// plainText matches text that begins with a letter and has no special characters of YAML.
var plainText = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./@+-]*( [A-Za-z0-9_./@+-]+)*$`)

// taken reports whether YAML 1.1 or 1.2 reads a text as another type, in any case of letters.
func taken(text string) bool {
	return slices.Contains([]string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}, strings.ToLower(text))
}
