package definition

import (
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
	if o.Vars, err = config.ReadVars(varsFile, a.Variables); err != nil {
		return o, err
	}
	given, err := cli.Pairs("--var", varArgs)
	if err != nil {
		return o, err
	}
	for name, value := range given {
		if o.Vars[name], err = journal.Encode(value); err != nil {
			return o, fmt.Errorf("--var %s: %w", name, err)
		}
	}
	return o, nil
}

// StartError returns the errors of a start.
func StartError(list []saga.Finding) error {
	lines := []string{"the saga cannot start:"}
	for _, f := range list {
		lines = append(lines, fmt.Sprintf("  %s: %s", strings.TrimPrefix(f.Pointer+": "+f.Code, ": "), f.Detail))
	}
	return cli.Exit(cli.Usage, errors.New(strings.Join(lines, "\n")))
}
