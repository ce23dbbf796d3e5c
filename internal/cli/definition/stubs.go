package definition

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v4"

	"recourse/internal/cli"
	"recourse/saga"
)

// ReadStubs reads the file of --stubs: a YAML map of answers by the path or id of a step, or of a
// status check. nil for "".
func ReadStubs(a *cli.App, def *saga.Definition, file string) (map[string]json.RawMessage, error) {
	if file == "" {
		return nil, nil
	}
	fail := func(err error) (map[string]json.RawMessage, error) {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("--stubs %s: %w", file, err))
	}
	src, err := a.ReadSource(file)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Load(src, &doc); err != nil {
		return fail(err)
	}
	root := &doc
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		root = root.Content[0]
	}
	if root.Kind != yaml.MappingNode {
		return fail(errors.New("write a map of answers, such as `charge: {id: ch_1}`"))
	}
	stubs := make(map[string]json.RawMessage)
	for i := 0; i+1 < len(root.Content); i += 2 {
		path := root.Content[i].Value
		base, _ := saga.SplitQuery(path)
		if def.Step(base) == nil {
			return fail(fmt.Errorf("line %d: the definition has no step %q", root.Content[i].Line, path))
		}
		if stubs[path], err = cli.YAMLToJSON(root.Content[i+1]); err != nil {
			return fail(fmt.Errorf("line %d: %s: %w", root.Content[i+1].Line, path, err))
		}
	}
	return stubs, nil
}
