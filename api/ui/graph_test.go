package ui

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"recourse/api/ui/graph"
	"recourse/internal/test/golden"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

func compile(t *testing.T, source string) *saga.Definition {
	t.Helper()
	def, errs := dsl.Parse("t.yaml", []byte(source), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	return def
}

// svg renders a definition's graph as the page does.
func svg(t *testing.T, def *saga.Definition) string {
	t.Helper()
	var b bytes.Buffer
	if err := sheets["definition"].ExecuteTemplate(&b, "graph", graph.Draw(def)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGraph(t *testing.T) {
	source, err := os.ReadFile("graph/testdata/everything.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := svg(t, compile(t, string(source)))
	golden.Check(t, "everything.svg", got)
	if strings.Contains(got, "<script") || strings.Contains(got, "style=") {
		t.Error("the drawing holds what the page's policy forbids")
	}
}

// A definition with the maximum number of steps is drawn in part, and says how many are omitted.
func TestGraphIsBounded(t *testing.T) {
	const steps = 10_000
	var b strings.Builder
	b.WriteString("saga: long\nsteps:\n")
	for i := range steps {
		fmt.Fprintf(&b, "  - {id: s%d, set: %d}\n", i, i)
	}
	def := compile(t, b.String())
	got := svg(t, def)
	if len(got) > 400_000 {
		t.Errorf("the drawing has %d bytes", len(got))
	}
	for _, want := range []string{"9600 more steps", `aria-label="10000 steps"`} {
		if !strings.Contains(got, want) {
			t.Errorf("the drawing lacks %q", want)
		}
	}
}
