package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"recourse/internal/cli"
	"recourse/internal/cli/config"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// StartOptions reads the options of a local start.
func StartOptions(a *cli.App, input, varsFile string, varArgs []string) (machine.StartOptions, error) {
	o := machine.StartOptions{Version: 1}
	var err error
	if o.Input, err = a.JSONArg("--input", input); err != nil {
		return o, err
	}
	o.Vars, err = Vars(a, varsFile, varArgs)
	return o, err
}

// Vars reads the vars of a file, of the environment and of --var, the last of which win.
func Vars(a *cli.App, file string, args []string) (map[string]json.RawMessage, error) {
	vars, err := config.ReadVars(file, a.Variables)
	if err != nil {
		return nil, err
	}
	given, err := cli.Pairs("--var", args)
	if err != nil {
		return nil, err
	}
	for name, value := range given {
		if vars[name], err = journal.Encode(value); err != nil {
			return nil, fmt.Errorf("--var %s: %w", name, err)
		}
	}
	return vars, nil
}

// StartError returns the errors of a start.
func StartError(list []saga.Finding) error {
	lines := []string{"the saga cannot start:"}
	for _, f := range list {
		lines = append(lines, fmt.Sprintf("  %s: %s", strings.TrimPrefix(f.Pointer+": "+f.Code, ": "), f.Detail))
	}
	return cli.Exit(cli.Usage, errors.New(strings.Join(lines, "\n")))
}
