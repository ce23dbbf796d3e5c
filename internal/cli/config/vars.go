package config

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"

	"recourse/internal/cli"
	"recourse/journal"
)

// VarPrefix begins the names of environment variables that are vars.
const VarPrefix = "RECOURSE_VAR_"

var varName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// ReadVars reads the server's vars: those of the file (a YAML map, values of any type), overridden
// by RECOURSE_VAR_<name>, which are always strings.
func ReadVars(path string, env map[string]string) (map[string]json.RawMessage, error) {
	vars := make(map[string]json.RawMessage)
	if path != "" {
		if err := varsFile(path, vars); err != nil {
			return nil, cli.Exit(cli.Usage, err)
		}
	}
	for entry, value := range env {
		name, ours := strings.CutPrefix(entry, VarPrefix)
		if !ours {
			continue
		}
		if !varName.MatchString(name) {
			return nil, cli.Exit(cli.Usage, fmt.Errorf("%s: a var's name has letters, digits and _, and begins with no digit", entry))
		}
		text, err := journal.Encode(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry, err)
		}
		vars[name] = text
	}
	return vars, nil
}

func varsFile(path string, into map[string]json.RawMessage) error {
	src, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--vars: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Load(src, &doc); err != nil {
		return fmt.Errorf("--vars %s: %w", path, err)
	}
	root := &doc
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		root = root.Content[0]
	}
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("--vars %s: write a map, such as `pay: https://pay.example`", path)
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		name := root.Content[i].Value
		if !varName.MatchString(name) {
			return fmt.Errorf("--vars %s:%d: %q: a var's name has letters, digits and _, and begins with no digit", path, root.Content[i].Line, name)
		}
		if _, twice := into[name]; twice {
			return fmt.Errorf("--vars %s:%d: %s is there twice", path, root.Content[i].Line, name)
		}
		if into[name], err = cli.YAMLToJSON(root.Content[i+1]); err != nil {
			return fmt.Errorf("--vars %s:%d: %s: %w", path, root.Content[i+1].Line, name, err)
		}
	}
	return nil
}
