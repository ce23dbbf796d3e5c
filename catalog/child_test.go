package catalog

import (
	"errors"
	"strings"
	"testing"

	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

// A step that runs a definition is typed by what the definition is when it is published: its input,
// and what it gives.
func TestChildTypes(t *testing.T) {
	store := memory.New(memory.Config{})
	c := New(store, Options{Kinds: kinds.All()})
	put := func(c *Catalog, name, src string) error {
		_, _, _, err := c.Publish(t.Context(), name, []byte(src), "")
		return err
	}
	const (
		counts = "saga: kid\ninput: {n: integer}\nsteps:\n  - {id: a, set: {sum: \"${input.n + 1}\"}}\n"
		names  = "saga: kid\ninput: {name: string}\nsteps:\n  - {id: a, set: \"${input.name}\"}\n"
	)
	parent := func(target, input, reads string) string {
		return "saga: doc\nsteps:\n  - {id: r, run: " + target + ", input: " + input + "}\n  - {id: s, set: \"${steps.r.output" + reads + "}\"}\n"
	}
	taken := func(src string) {
		t.Helper()
		if err := put(c, "doc", src); err != nil {
			t.Errorf("%s\n%v", src, err)
		}
	}
	refused := func(src, want string) {
		t.Helper()
		var errs *dsl.Errors
		if err := put(c, "doc", src); !errors.As(err, &errs) || len(errs.List) != 1 || !strings.HasPrefix(errs.List[0].Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	taken(parent("kid", "{n: x}", ".sum.of")) // nobody knows it yet
	if err := put(c, "kid", counts); err != nil {
		t.Fatal(err)
	}
	refused(parent("kid", "{n: x}", ".sum"), "doc.yaml:3:34: bad_input: the input of definition kid, /n: got string, want integer")
	refused(parent("kid", "{n: 1}", ".some"), `doc.yaml:4:21: unknown_field: steps.r.output has no field "some", only "sum"`)
	taken(parent("kid", "{n: 1}", ".sum"))
	if err := put(c, "kid", names); err != nil {
		t.Fatal(err)
	}
	refused(parent("kid", "{name: x, n: 1}", ""), `doc.yaml:3:43: bad_input: the input of definition kid, /n: there is no field "n"`)
	taken(parent("kid@v1", "{n: 1}", ".sum")) // that version, whatever is newest
	taken(parent("kid@v9", "{m: 1}", ".sum")) // which may come
	if err := store.Archive(t.Context(), Kind, "kid"); err != nil {
		t.Fatal(err)
	}
	taken(parent("kid", "{n: 1}", ".sum"))

	// Stored versions are not checked against today's definitions of their children.
	fresh := New(store, Options{Kinds: kinds.All()})
	for version := 1; ; version++ {
		def, err := fresh.Definition(t.Context(), "doc", version)
		if errors.Is(err, journal.ErrNotFound) {
			if version < 5 {
				t.Errorf("%d versions", version-1)
			}
			break
		}
		if err != nil || def == nil {
			t.Errorf("v%d: %v", version, err)
		}
	}
}
