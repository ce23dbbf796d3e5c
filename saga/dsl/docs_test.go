package dsl_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestExamples holds the examples of the other pages to being valid.
func TestExamples(t *testing.T) {
	for name, least := range map[string]int{"people.md": 2, "patterns.md": 16, "workers.md": 1} {
		page := string(read(t, "../../docs/"+name))
		o, blocks := withActions(t, name, page)
		if len(blocks) < least {
			t.Errorf("%s has %d examples", name, len(blocks))
		}
		for _, src := range blocks {
			if _, errs := dsl.Parse(name, []byte(src), o); errs != nil {
				t.Errorf("an example of %s does not validate:\n%s\n%v", name, src, errs)
			}
		}
	}
}

// withActions are the options with the actions of a page, and the page's definitions.
func withActions(t *testing.T, name, page string) (o dsl.Options, definitions []string) {
	t.Helper()
	o = options()
	found := map[string]*saga.Action{}
	for _, b := range yamlBlock.FindAllStringSubmatch(page, -1) {
		if !dsl.IsAction([]byte(b[1])) {
			definitions = append(definitions, b[1])
			continue
		}
		a, errs := dsl.ParseAction(name, []byte(b[1]), o)
		if errs != nil {
			t.Fatalf("an example of %s does not validate:\n%s\n%v", name, b[1], errs)
		}
		found[a.Name] = a
	}
	o.Actions = func(name string, _ int) (*saga.Action, error) {
		if a := found[name]; a != nil {
			return a, nil
		}
		return nil, fmt.Errorf("the page has no action %s", name)
	}
	return o, definitions
}

// TestReferencePage holds docs/definitions.md to its examples being valid and to
// naming every key, kind and warning.
func TestReferencePage(t *testing.T) {
	page := string(read(t, "../../docs/definitions.md"))
	blocks := yamlBlock.FindAllStringSubmatch(page, -1)
	if len(blocks) < 8 {
		t.Fatalf("%d examples", len(blocks))
	}
	for _, b := range blocks {
		if _, errs := dsl.Parse("definitions.md", []byte(b[1]), options()); errs != nil {
			t.Errorf("an example of the page does not validate:\n%s\n%v", b[1], errs)
		}
	}
	words := append(dsl.StepKeys(), dsl.TopKeys()...)
	for _, k := range kinds.All() {
		words = append(words, k.Name)
		for _, key := range k.Keys {
			words = append(words, key.Name)
		}
	}
	for _, w := range words {
		if !strings.Contains(page, "`"+w+"`") && !strings.Contains(page, "### "+w+"\n") {
			t.Errorf("the page does not name %s", w)
		}
	}
}

// TestWarningsPage: the tables of docs/definitions.md list exactly the warnings that the code can
// give, each once, so none is left undocumented, and none is documented that does not exist.
func TestWarningsPage(t *testing.T) {
	page := string(read(t, "../../docs/definitions.md"))
	_, section, _ := strings.Cut(page, "\n## Warnings\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(section, -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	if diff := cmp.Diff(warningsInSource(t), listed); diff != "" {
		t.Errorf("warnings of the code and of the page (-code +page):\n%s", diff)
	}
}

// warningCalls match what gives a warning: in this package, and in the catalog, which knows what
// the server has.
var warningCalls = map[string]*regexp.Regexp{
	"*.go":                      regexp.MustCompile(`\bw\.(?:say\([^"]*(?:"[a-z_]*", )?|warns = append\(w\.warns, finding\(\w+, )"([a-z]+(?:-[a-z]+)+)"`),
	"../../catalog/*absent*.go": regexp.MustCompile(`(?m)^\tcode\w+ += "([a-z]+(?:-[a-z]+)+)"$`),
}

// warningsInSource reads the codes of warnings out of the code, sorted.
func warningsInSource(t *testing.T) (codes []string) {
	t.Helper()
	for pattern, call := range warningCalls { // any order
		before := len(codes)
		for _, file := range glob(t, pattern) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, m := range call.FindAllStringSubmatch(string(read(t, file)), -1) {
				codes = append(codes, m[1])
			}
		}
		if len(codes) == before {
			t.Fatalf("no warnings in %s, so the pattern is stale", pattern)
		}
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// TestEventsPage holds the examples of docs/events.md to being valid.
func TestEventsPage(t *testing.T) {
	blocks := yamlBlock.FindAllStringSubmatch(string(read(t, "../../docs/events.md")), -1)
	if len(blocks) < 3 {
		t.Fatalf("%d examples", len(blocks))
	}
	for _, b := range blocks {
		if _, errs := dsl.Parse("events.md", []byte(b[1]), options()); errs != nil {
			t.Errorf("an example of the page does not validate:\n%s\n%v", b[1], errs)
		}
	}
}

// TestActionsPage holds docs/actions.md likewise; its definitions use its actions.
func TestActionsPage(t *testing.T) {
	page := string(read(t, "../../docs/actions.md"))
	o, definitions := withActions(t, "actions.md", page)
	for _, src := range definitions {
		if _, errs := dsl.Parse("actions.md", []byte(src), o); errs != nil {
			t.Errorf("an example of the page does not validate:\n%s\n%v", src, errs)
		}
	}
	if _, err := o.Actions("refund", 0); err != nil {
		t.Error(err)
	}
	for _, key := range append(dsl.ActionKeys(), "irreversible-auto", "dead-approve-when") {
		if !strings.Contains(page, "`"+key+"`") {
			t.Errorf("the page does not name %s", key)
		}
	}
}

// TestMCPPage holds the action of docs/mcp.md to being valid. The page's other blocks are parts of
// the config file.
func TestMCPPage(t *testing.T) {
	o, _ := withActions(t, "mcp.md", string(read(t, "../../docs/mcp.md")))
	if a, err := o.Actions("refund", 0); err != nil {
		t.Error(err)
	} else if len(a.Warnings) > 0 {
		t.Errorf("the action has warnings: %v", a.Warnings)
	}
}
