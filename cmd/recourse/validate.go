package main

import (
	"fmt"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

type validateCmd struct {
	outputFlag
	Files  []string `arg:"" name:"file" help:"Definitions; - is stdin."`
	Strict bool     `help:"Warnings are errors."`
}

// validated is what was found in a file, as POST /v1/validate answers it.
type validated struct {
	File     string         `json:"file"`
	OK       bool           `json:"ok"`
	Errors   []saga.Finding `json:"errors"`
	Warnings []saga.Finding `json:"warnings"`
}

// Run checks the files and fails if any has an error.
func (c *validateCmd) Run(a *app) error {
	list := make([]validated, 0, len(c.Files))
	bad := 0
	for _, f := range c.Files {
		src, err := a.source(f)
		if err != nil {
			return err
		}
		v := validated{File: f, OK: true, Errors: []saga.Finding{}, Warnings: []saga.Finding{}}
		def, errs := dsl.Parse(f, src, dsl.Options{Kinds: kinds.All(), Strict: c.Strict})
		if errs != nil {
			v.OK, v.Errors = false, errs.Findings()
			bad++
		} else if def.Warnings != nil {
			v.Warnings = def.Warnings
		}
		list = append(list, v)
	}
	if c.json() {
		if err := a.encoded(list); err != nil {
			return err
		}
	} else {
		a.findings(list)
	}
	if bad > 0 {
		return exit(exitUsage, nil)
	}
	return nil
}

func (a *app) findings(list []validated) {
	for _, v := range list {
		for _, f := range v.Errors {
			a.printf("%s:%d:%d: %s: %s\n", v.File, f.Line, f.Column, f.Code, f.Detail)
		}
		for _, f := range v.Warnings {
			a.printf("%s:%d:%d: warning: %s: %s\n", v.File, f.Line, f.Column, f.Code, f.Detail)
		}
		if v.OK {
			a.printf("%s: ok%s\n", v.File, counted(len(v.Warnings)))
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

// compile reads and compiles a definition, or says what is wrong with it.
func (a *app) compile(file string) (*saga.Definition, error) {
	src, err := a.source(file)
	if err != nil {
		return nil, err
	}
	def, errs := dsl.Parse(file, src, dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		return nil, exit(exitUsage, fmt.Errorf("the definition has errors:\n%w", errs))
	}
	return def, nil
}
