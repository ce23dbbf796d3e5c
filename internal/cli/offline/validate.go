// Package offline has the commands that need neither a server nor a database: validate, plan and
// replay.
package offline

import (
	"errors"
	"fmt"

	"recourse/internal/cli"
	"recourse/internal/cli/definition"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

// Validate is `recourse validate`.
type Validate struct {
	cli.OutputFlag
	definition.ActionFlags
	Files  []string `arg:"" name:"file" help:"Definitions and actions; - is stdin. Definitions may use the actions and run the definitions among them."`
	Strict bool     `help:"Treat warnings as errors."`
}

// Findings holds the findings of a file, in the format of POST /v1/validate.
type Findings struct {
	File     string         `json:"file"`
	OK       bool           `json:"ok"`
	Errors   []saga.Finding `json:"errors"`
	Warnings []saga.Finding `json:"warnings"`
}

// Run checks the files and fails if any has an error.
func (c *Validate) Run(a *cli.App) error {
	actions, err := c.ReadActions(a)
	if err != nil {
		return err
	}
	sources := make([][]byte, len(c.Files))
	for i, f := range c.Files {
		if sources[i], err = a.ReadSource(f); err != nil {
			return err
		}
		if !dsl.IsAction(sources[i]) {
			continue
		}
		var errs *dsl.Errors
		// Errors of the document are listed below.
		if err := actions.Read(f, sources[i]); err != nil && !errors.As(err, &errs) {
			return cli.Exit(cli.Usage, err)
		}
	}
	children := definition.ReadChildren(c.Files, sources, dsl.Options{Kinds: kinds.All(), Actions: actions.Find})
	list := make([]Findings, 0, len(c.Files))
	bad := 0
	for i, f := range c.Files {
		v := Findings{File: f, OK: true, Errors: []saga.Finding{}, Warnings: []saga.Finding{}}
		warnings, errs := check(f, sources[i], dsl.Options{Kinds: kinds.All(), Strict: c.Strict, Actions: actions.Find, Children: children.Find})
		if errs != nil {
			v.OK, v.Errors = false, errs.Findings()
			bad++
		} else if warnings != nil {
			v.Warnings = warnings
		}
		list = append(list, v)
	}
	if c.Machine() {
		if err := a.Encode(list); err != nil {
			return err
		}
	} else {
		printFindings(a, list)
	}
	if bad > 0 {
		return cli.Exit(cli.Usage, nil)
	}
	return nil
}

// check compiles a definition or an action, and returns its warnings.
func check(file string, src []byte, o dsl.Options) ([]saga.Finding, *dsl.Errors) {
	if dsl.IsAction(src) {
		act, errs := dsl.ParseAction(file, src, o)
		if errs != nil {
			return nil, errs
		}
		return act.Warnings, nil
	}
	def, errs := dsl.Parse(file, src, o)
	if errs != nil {
		return nil, errs
	}
	return def.Warnings, nil
}

func printFindings(a *cli.App, list []Findings) {
	for _, v := range list {
		for _, f := range v.Errors {
			a.Printf("%s:%d:%d: %s: %s\n", v.File, f.Line, f.Column, f.Code, f.Detail)
		}
		for _, f := range v.Warnings {
			a.Printf("%s:%d:%d: warning: %s: %s\n", v.File, f.Line, f.Column, f.Code, f.Detail)
		}
		if v.OK {
			a.Printf("%s: ok%s\n", v.File, counted(len(v.Warnings)))
		}
	}
}

func counted(warnings int) string {
	switch warnings {
	case 0:
		return ""
	case 1:
		return ", 1 warning"
	}
	return fmt.Sprintf(", %d warnings", warnings)
}
