// Package crashtest is `recourse test`: a crash matrix of a definition.
package crashtest

import (
	"errors"
	"fmt"
	"sync"

	"recourse/internal/cli"
	"recourse/internal/cli/definition"
	"recourse/internal/crashmatrix"
	"recourse/saga"
)

// Command is `recourse test`.
type Command struct {
	definition.ActionFlags
	Output string   `short:"o" enum:"text,json,yaml,junit" default:"text" env:"RECOURSE_OUTPUT" help:"text for people, json or yaml for programs, junit for CI."`
	File   string   `arg:"" help:"A definition; - is stdin."`
	Input  string   `short:"i" placeholder:"JSON" help:"The input: JSON, @FILE, or - for stdin. Default: made up from the input's schema."`
	Stubs  string   `placeholder:"FILE" help:"YAML map of answers by the path or id of a step. Default: made up from schemas and from what the definition reads."`
	Ledger string   `enum:"honours,ignores,as-declared" default:"as-declared" help:"Whether the stubbed services honour idempotency keys: honours, ignores, or as-declared (unless a step has idempotency: none)."`
	Pairs  bool     `help:"Also test two faults in one saga. This takes the square of the time."`
	Golden string   `placeholder:"FILE" help:"Compare the table with this file; exit 1 if it differs."`
	Update bool     `help:"Rewrite the golden file."`
	Var    []string `sep:"none" placeholder:"NAME=TEXT" help:"A variable, in addition to RECOURSE_VAR_<name>; repeatable. Others are made up."`
	Vars   string   `env:"RECOURSE_VARS" placeholder:"FILE" help:"YAML map of variables."`
	All    bool     `help:"Print every row on a terminal, also those with the verdict ok."`
}

// Run prints the matrix. The exit code is 1 if a row shows a fault of the definition, or the table
// differs from the golden file.
func (c *Command) Run(a *cli.App) error {
	if c.Update && c.Golden == "" {
		return cli.Exit(cli.Usage, errors.New("--update needs --golden FILE, the file to rewrite"))
	}
	actions, err := c.ReadActions(a)
	if err != nil {
		return err
	}
	def, err := definition.Compile(a, c.File, actions)
	if err != nil {
		return err
	}
	o, err := c.options(a, def)
	if err != nil {
		return err
	}
	for _, act := range actions.List {
		o.Sources = append(o.Sources, act.Source)
	}
	m, err := crashmatrix.Run(a.Ctx, def, o)
	if start, ok := errors.AsType[*crashmatrix.StartError](err); ok {
		return definition.StartError(start.Findings)
	} else if err != nil {
		return fmt.Errorf("test: %w", err)
	}
	if err := c.print(a, m); err != nil {
		return err
	}
	if err := c.compare(a, m); err != nil {
		return err
	}
	if m.Faulty() {
		return cli.Exit(cli.Failed, nil)
	}
	return nil
}

// options reads the options of the matrix.
func (c *Command) options(a *cli.App, def *saga.Definition) (o crashmatrix.Options, err error) {
	start, err := definition.StartOptions(a, c.Input, c.Vars, c.Var)
	if err != nil {
		return o, err
	}
	o = crashmatrix.Options{Input: start.Input, Vars: start.Vars, Ledger: crashmatrix.Honours(c.Ledger), Pairs: c.Pairs}
	if o.Stubs, err = definition.ReadStubs(a, def, c.Stubs); err != nil {
		return o, err
	}
	var once sync.Mutex
	var bar *cli.ProgressBar
	o.Progress = func(done, all int) {
		once.Lock()
		defer once.Unlock()
		if bar == nil {
			bar = a.Progress("sagas", all)
		}
		if bar.At(done); done == all {
			bar.End()
		}
	}
	return o, nil
}
