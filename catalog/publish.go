package catalog

import (
	"bytes"
	"context"
	"fmt"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
)

// Publish compiles a document and stores it as name's newest version; created is
// false if the newest one has the same text. match is as in
// journal.Catalog.Publish. Errors: *dsl.Errors when the document is not a
// definition called name, journal.ErrMismatch, the store's.
func (c *Catalog) Publish(ctx context.Context, name string, src []byte, match string) (journal.Document, *saga.Definition, bool, error) {
	file := name + ".yaml"
	def, errs := c.Compile(file, src)
	if errs != nil {
		return journal.Document{}, nil, false, errs
	}
	if def.Name != name {
		return journal.Document{}, nil, false, &dsl.Errors{List: []dsl.Error{{File: file, Line: lineOf(src, "saga:"), Column: 1,
			Pointer: "/saga", Code: "name_mismatch", Detail: fmt.Sprintf("the document says saga: %s, but it is published as %s: make them the same", def.Name, name)}}}
	}
	d, created, err := c.store.Publish(ctx, journal.Document{Kind: Kind, Name: name, SHA256: def.SHA256, Source: def.Source}, match)
	if err != nil {
		return journal.Document{}, nil, false, fmt.Errorf("publish %s: %w", name, err)
	}
	c.cache.put(name, d.Version, def)
	c.Changed()
	return d, def, created, nil
}

// lineOf is the number of the first line that begins with prefix, 1 if there is none.
func lineOf(src []byte, prefix string) int {
	n := 0
	for line := range bytes.Lines(src) {
		n++
		if bytes.HasPrefix(line, []byte(prefix)) {
			return n
		}
	}
	return 1
}
