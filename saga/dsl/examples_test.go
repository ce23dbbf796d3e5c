package dsl_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

// meant are the warnings of examples that are right, and that the example keeps: what it is there
// to show.
var meant = map[string][]string{
	"travel.yaml":     {"model-output-feeds-write-without-approval"}, // a model writes to the traveller
	"agent-loop.yaml": {"model-output-feeds-write-without-approval"}, // so does its note
	// The task of research.yaml only reads, which no definition can say.
	"research.yaml": {"uncompensated-write"},
}

// TestExamplesHaveNoWarnings: what newcomers copy is as it should be.
func TestExamplesHaveNoWarnings(t *testing.T) {
	sources := make(map[string][]byte)
	for _, dir := range []string{"../../examples", "../../internal/cli/demo/definitions"} {
		files, err := filepath.Glob(dir + "/*.yaml")
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, file := range files {
			sources[filepath.Base(file)] = read(t, file)
		}
	}
	block := regexp.MustCompile("(?s)```yaml\n(saga: .*?)```")
	for _, page := range []string{"README.md", "docs/quickstart.md", "docs/http-calls.md"} {
		found := block.FindAllSubmatch(read(t, "../../"+page), -1)
		if len(found) == 0 {
			t.Errorf("%s has no definition", page)
		}
		for i, m := range found {
			sources[fmt.Sprint(page, " ", i+1)] = m[1]
		}
	}
	known := make(map[string]*saga.Action)
	for _, pattern := range []string{"actions", "agent"} {
		files, err := filepath.Glob("../../examples/" + pattern + "/*.yaml")
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			if src := read(t, file); dsl.IsAction(src) {
				a, errs := dsl.ParseAction(file, src, dsl.Options{Kinds: kinds.All()})
				if errs != nil {
					t.Fatal(errs)
				}
				if len(a.Warnings) > 0 {
					t.Errorf("%s: %v", file, a.Warnings)
				}
				known[a.Name] = a
			} else {
				sources[filepath.Base(file)] = src
			}
		}
	}
	find := func(name string, _ int) (*saga.Action, error) {
		if a := known[name]; a != nil {
			return a, nil
		}
		return nil, errors.New("there is no action " + name)
	}
	for name, src := range sources { // any order
		def, errs := dsl.Parse(name, src, dsl.Options{Kinds: kinds.All(), Actions: find})
		if errs != nil {
			t.Errorf("%s: %v", name, errs)
			continue
		}
		var codes []string
		for _, w := range def.Warnings {
			codes = append(codes, w.Code)
		}
		if !slices.Equal(codes, meant[name]) {
			t.Errorf("%s has the warnings %v, want %v", name, def.Warnings, meant[name])
		}
	}
}
