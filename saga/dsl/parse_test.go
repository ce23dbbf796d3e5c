package dsl_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	diffs "github.com/google/go-cmp/cmp"

	"recourse/internal/test/golden"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/kinds/emit"
)

func options() dsl.Options {
	return dsl.Options{Kinds: kinds.With(kinds.Options{}), Actions: actions, Children: children}
}

// children finds the definitions of testdata/children, whichever version is asked for.
func children(name string, _ int) *saga.Definition {
	src, err := os.ReadFile("testdata/children/" + name + ".yaml")
	if err != nil {
		return nil
	}
	def, errs := dsl.Parse(name+".yaml", src, dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		panic(errs)
	}
	return def
}

// actions finds those of testdata/actions, and of the examples, each in any version.
func actions(name string, version int) (*saga.Action, error) {
	src, err := os.ReadFile("testdata/actions/" + name + ".yaml")
	if err != nil {
		src, err = os.ReadFile("../../examples/agent/" + name + ".yaml")
	}
	if err != nil {
		return nil, fmt.Errorf("there is no action %s: publish it first", name)
	}
	a, errs := dsl.ParseAction(name+".yaml", src, dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		return nil, errs
	}
	a.Version = cmp.Or(version, 7)
	return a, nil
}

// parseFile reads a definition, or an action, by its file's name.
func parseFile(file string, src []byte, o dsl.Options) (name string, errs *dsl.Errors) {
	if strings.HasPrefix(filepath.Base(file), "action-") {
		a, errs := dsl.ParseAction(file, src, o)
		if a != nil {
			name = a.Name
		}
		return name, errs
	}
	def, errs := dsl.Parse(file, src, o)
	if def != nil {
		name = def.Name
	}
	return name, errs
}

func mustParse(tb testing.TB, src string) *saga.Definition {
	tb.Helper()
	def, errs := dsl.Parse("test.yaml", []byte(src), options())
	if errs != nil {
		tb.Fatalf("Parse:\n%v", errs)
	}
	return def
}

func glob(tb testing.TB, pattern string) []string {
	tb.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		tb.Fatalf("no files for %s: %v", pattern, err)
	}
	return files
}

func read(tb testing.TB, file string) []byte {
	tb.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// directive finds "# key: value" lines, by which a document sets options.
func directive(src []byte, key string) (string, bool) {
	for line := range strings.Lines(string(src)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "# "+key+":"); ok {
			return strings.TrimSpace(v), true
		}
	}
	return "", false
}

// TestBad holds every document of testdata/bad against its messages.
func TestBad(t *testing.T) {
	files := glob(t, "testdata/bad/*.yaml")
	if len(files) < 60 {
		t.Fatalf("%d documents, want at least 60", len(files))
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			src := read(t, file)
			o := options()
			if vars, ok := directive(src, "vars"); ok {
				o.VarNames = strings.Fields(vars)
			}
			if names, ok := directive(src, "sinks"); ok {
				sinks := []emit.Sink{}
				for name := range strings.FieldsSeq(names) {
					sinks = append(sinks, emit.Sink{Name: name})
				}
				o.Kinds = kinds.With(kinds.Options{Sinks: sinks})
			}
			if servers, ok := directive(src, "mcp"); ok {
				o.Kinds = kinds.With(kinds.Options{MCP: strings.Fields(servers)})
			}
			_, o.Strict = directive(src, "strict")
			got, errs := parseFile(name, src, o)
			if errs == nil {
				t.Fatalf("Parse gave %q, want errors", got)
			}
			if got != "" {
				t.Error("Parse gave a definition and errors")
			}
			golden.Check(t, "bad/"+strings.TrimSuffix(name, ".yaml")+".txt", errs.Error()+"\n")
		})
	}
}

// TestEveryCode holds the corpus to having a document for each code the package has.
func TestEveryCode(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range glob(t, "testdata/bad/*.txt") {
		for line := range strings.Lines(string(read(t, file))) {
			if parts := strings.SplitN(line, ": ", 3); len(parts) == 3 {
				seen[parts[1]] = true
			}
		}
	}
	for _, code := range codesInSource(t) {
		// TestBombs has those.
		if !seen[code] && code != "too_large" && code != "too_many_nodes" && code != "too_many_steps" {
			t.Errorf("no document of testdata/bad gives %s", code)
		}
	}
}

// codesInSource reads the codes out of the package's own calls.
func codesInSource(t *testing.T) []string {
	t.Helper()
	var codes []string
	files := append(glob(t, "*.go"), glob(t, "../kinds/*/*.go")...)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.Contains(file, "call") || strings.Contains(file, "guard") {
			continue
		}
		for _, m := range codeCall.FindAllStringSubmatch(string(read(t, file)), -1) {
			codes = append(codes, m[1])
		}
	}
	if len(codes) < 40 {
		t.Fatalf("found %d codes, so the pattern is stale", len(codes))
	}
	return codes
}

func TestGood(t *testing.T) {
	files := append(glob(t, "testdata/good/*.yaml"), glob(t, "../../examples/*.yaml")...)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			def, errs := dsl.Parse(file, read(t, file), options())
			if errs != nil {
				t.Fatalf("Parse:\n%v", errs)
			}
			if want, ok := directive(def.Source, "warnings"); ok {
				var got []string
				for _, w := range def.Warnings {
					got = append(got, w.Code)
				}
				if diff := diffs.Diff(strings.Fields(want), got); diff != "" {
					t.Errorf("warnings (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestStrict(t *testing.T) {
	o := options()
	o.Strict = true
	_, errs := dsl.Parse("strict.yaml", []byte("saga: x\nsteps:\n  - {id: a, http: POST https://a.example/, compensate: none}\n  - {id: b, http: POST https://a.example/}\n"), o)
	if errs == nil || len(errs.List) != 2 || errs.List[0].Code != "blind-retry" {
		t.Errorf("Parse strictly: %v, want two blind-retry errors", errs)
	}
}
