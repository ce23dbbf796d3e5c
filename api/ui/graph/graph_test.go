package graph

import (
	"os"
	"testing"

	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

// Every step is drawn once and lies within the picture, and steps of one list do not overlap.
func TestGraphHasRoom(t *testing.T) {
	source, err := os.ReadFile("testdata/everything.yaml")
	if err != nil {
		t.Fatal(err)
	}
	def, errs := dsl.Parse("everything.yaml", source, dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	d := Draw(def)
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
