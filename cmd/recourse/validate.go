package main

import (
	"errors"
	"fmt"

	"recourse/internal/cli"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

type validateCmd struct {
	cli.OutputFlag
	actionFlags
	Files  []string `arg:"" name:"file" help:"Definitions and actions; - is stdin. Definitions may use the actions and run the definitions among them."`
	Strict bool     `help:"Treat warnings as errors."`
}

// validated holds the findings of a file, in the format of POST /v1/validate.
type validated struct {
	File     string         `json:"file"`
	OK       bool           `json:"ok"`
	Errors   []saga.Finding `json:"errors"`
	Warnings []saga.Finding `json:"warnings"`
}

// Run checks the files and fails if any has an error.
func (c *validateCmd) Run(a *cli.App) error {
	actions, err := c.actions(a)
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
		if err := actions.read(f, sources[i]); err != nil && !errors.As(err, &errs) {
			return cli.Exit(cli.Usage, err)
		}
	}
	children := childrenOf(c.Files, sources, dsl.Options{Kinds: kinds.All(), Actions: actions.find})
	list := make([]validated, 0, len(c.Files))
	bad := 0
	for i, f := range c.Files {
		v := validated{File: f, OK: true, Errors: []saga.Finding{}, Warnings: []saga.Finding{}}
		warnings, errs := check(f, sources[i], dsl.Options{Kinds: kinds.All(), Strict: c.Strict, Actions: actions.find, Children: children.find})
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

// childSet finds definitions that others run without a version, because a file does not say which
// version it will become.
type childSet struct {
	list  map[string]*saga.Definition
	other func(name string, version int) *saga.Definition // finds definitions without a file; may be nil
}

// childrenOf reads the definitions among some files. It omits those with errors, which are reported
// when they are validated.
func childrenOf(files []string, sources [][]byte, o dsl.Options) *childSet {
	set := &childSet{list: make(map[string]*saga.Definition)}
	for i, src := range sources {
		if dsl.IsAction(src) {
			continue
		}
		if def, errs := dsl.Parse(files[i], src, o); errs == nil {
			set.list[def.Name] = def
		}
	}
	return set
}

// find is dsl.Options.Children.
func (s *childSet) find(name string, version int) *saga.Definition {
	if def := s.list[name]; def != nil && version == 0 {
		return def
	}
	if s.other == nil {
		return nil
	}
	return s.other(name, version)
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

func printFindings(a *cli.App, list []validated) {
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

// compileFile reads and compiles a definition, or returns its errors.
func compileFile(a *cli.App, file string, actions *actionSet) (*saga.Definition, error) {
	src, err := a.ReadSource(file)
	if err != nil {
		return nil, err
	}
	def, errs := dsl.Parse(file, src, dsl.Options{Kinds: kinds.All(), Actions: actions.find})
	if errs != nil {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("the definition has errors:\n%w", errs))
	}
	return def, nil
}
