package ui

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func compile(t *testing.T, source string) *saga.Definition {
	t.Helper()
	def, errs := dsl.Parse("t.yaml", []byte(source), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	return def
}

const everything = `saga: everything
input: {amount: integer}
steps:
  - id: reserve
    http: POST ${vars.things}
    in_doubt: ask
    compensate: {http: "DELETE ${vars.things}/${output.id}"}
  - id: route
    switch:
      - when: input.amount > 1000 && "</text><script>alert(1)</script>" != ""
        steps:
          - id: ok
            approval: {title: "Pay ${input.amount}?"}
      - steps:
          - id: small
            set: 1
  - id: pages
    foreach: ${[1, 2]}
    steps:
      - id: fetch
        when: item > 0
        http: POST ${vars.things}
        in_doubt: {verify: {http: "GET ${vars.things}?ref=${key}", found: "len(result.body.items) > 0"}, otherwise: ask}
        compensate: {http: "DELETE ${vars.things}/${output.id}", order: last}
      - id: keep
        http: PUT ${vars.things}/1
        compensate: {http: "DELETE ${vars.things}/1"}
  - id: twice
    repeat: {until: "true", max: 2}
    steps: [{id: nap, sleep: 1s}]
  - id: both
    parallel:
      - {id: left, emit: com.shop.left, to: [log]}
      - {id: right, signal: go}
  - id: child
    run: other@v2
  - id: pay
    http: POST ${vars.pay}/charges
    pivot: true
  - id: tell
    task: tell-people
    on_error: continue
finally:
  - {id: bye, set: done}
`

// svg renders a definition's graph as the page does.
func svg(t *testing.T, def *saga.Definition) string {
	t.Helper()
	var b bytes.Buffer
	if err := sheets["definition"].ExecuteTemplate(&b, "graph", draw(def, outlineOf(def.Source))); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGraph(t *testing.T) {
	got := svg(t, compile(t, everything))
	file := filepath.Join("testdata", "everything.svg")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("look at it, then rewrite it with -update (-want +got):\n%s", d)
	}
	if strings.Contains(got, "<script") || strings.Contains(got, "style=") {
		t.Error("the drawing holds what the page's policy forbids")
	}
}

// Every step is drawn once and lies within the picture, and steps of one list do not overlap.
func TestGraphHasRoom(t *testing.T) {
	def := compile(t, everything)
	d := draw(def, outlineOf(def.Source))
	seen := map[string]box{}
	for _, b := range d.Boxes {
		if b.X < 0 || b.Y < 0 || b.X+b.W > d.Width || b.Y+b.H > d.Height {
			t.Errorf("%s lies outside of %d × %d: %+v", b.ID, d.Width, d.Height, b)
		}
		if b.ID == "" {
			continue
		}
		if _, twice := seen[b.ID]; twice {
			t.Errorf("%s is drawn twice", b.ID)
		}
		seen[b.ID] = b
	}
	if len(seen) != len(def.ByID) {
		t.Errorf("%d steps are drawn, of %d", len(seen), len(def.ByID))
	}
	for i := 1; i < len(def.Steps); i++ {
		above, below := seen[def.Steps[i-1].ID], seen[def.Steps[i].ID]
		if above.Y+above.H >= below.Y {
			t.Errorf("%s reaches into %s", def.Steps[i-1].ID, def.Steps[i].ID)
		}
	}
	for _, in := range [][2]string{{"route", "ok"}, {"route", "small"}, {"pages", "fetch"}, {"twice", "nap"}, {"both", "right"}} {
		outer, inner := seen[in[0]], seen[in[1]]
		if inner.X <= outer.X || inner.Y <= outer.Y || inner.X+inner.W >= outer.X+outer.W || inner.Y+inner.H >= outer.Y+outer.H {
			t.Errorf("%s is not inside %s: %+v, %+v", in[1], in[0], inner, outer)
		}
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
