package dsl_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
	// Agents send mails without an approval, and nothing undoes a mail. Each file says so.
	"agents/booking/actions/send-mail.yaml": {"irreversible-auto"},
	"agents/refund/actions/mail.yaml":       {"irreversible-auto"},
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
	known := make(map[string]*saga.Action) // those that definitions use
	for _, pattern := range []string{"actions", "agent", "agents/*/actions"} {
		files, err := filepath.Glob("../../examples/" + pattern + "/*.yaml")
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			src := read(t, file)
			if !dsl.IsAction(src) {
				sources[filepath.Base(file)] = src
				continue
			}
			a, errs := dsl.ParseAction(file, src, dsl.Options{Kinds: kinds.All()})
			if errs != nil {
				t.Fatal(errs)
			}
			name := strings.TrimPrefix(filepath.ToSlash(file), "../../examples/")
			if codes := codesOf(a.Warnings); !slices.Equal(codes, meant[name]) {
				t.Errorf("%s has the warnings %v, want %v", name, a.Warnings, meant[name])
			}
			for _, code := range meant[name] {
				if !strings.Contains(string(src), code) {
					t.Errorf("%s does not say why it has the warning %s", name, code)
				}
			}
			if !strings.HasPrefix(name, "agents/") {
				known[a.Name] = a
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
		if !slices.Equal(codesOf(def.Warnings), meant[name]) {
			t.Errorf("%s has the warnings %v, want %v", name, def.Warnings, meant[name])
		}
	}
}

func codesOf(warnings []saga.Finding) (codes []string) {
	for _, w := range warnings {
		codes = append(codes, w.Code)
	}
	return codes
}
