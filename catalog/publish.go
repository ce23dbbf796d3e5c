package catalog

import (
	"bytes"
	"context"
	"fmt"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
)

// Publish compiles a document and stores it as name's newest version. created is false if the
// newest version has the same text. match is as in journal.Catalog.Publish. Errors are *dsl.Errors
// if the document is not a definition called name, journal.ErrMismatch, and the store's.
//
// Actions that it uses without a version are pinned to their newest ones before it is stored. A
// text that has pins keeps them, no matter who publishes it again or when. To use a newer action,
// change the text.
func (c *Catalog) Publish(ctx context.Context, name string, src []byte, match string) (journal.Document, *saga.Definition, bool, error) {
	def, err := c.pinned(ctx, name, src, match)
	if err != nil {
		return journal.Document{}, nil, false, err
	}
	d, created, err := c.store.Publish(ctx, journal.Document{Kind: Kind, Name: name, SHA256: def.SHA256, Source: def.Source}, match)
	if err != nil {
		return journal.Document{}, nil, false, fmt.Errorf("publish %s: %w", name, err)
	}
	c.cache.put(name, d.Version, def)
	c.Changed()
	return d, def, created, nil
}

// PublishAction compiles an action and stores it as name's newest version, as Publish does for a
// definition.
func (c *Catalog) PublishAction(ctx context.Context, name string, src []byte, match string) (journal.Document, *saga.Action, bool, error) {
	a, errs := c.CompileAction(name+".yaml", src)
	if errs == nil && a.Name != name {
		errs = misnamed("action", a.Name, name, src)
	}
	if errs != nil {
		return journal.Document{}, nil, false, errs
	}
	d, created, err := c.store.Publish(ctx, journal.Document{Kind: ActionKind, Name: name, SHA256: a.SHA256, Source: a.Source}, match)
	if err != nil {
		return journal.Document{}, nil, false, fmt.Errorf("publish action %s: %w", name, err)
	}
	a.Version = d.Version
	return d, a, created, nil
}

func misnamed(key, says, name string, src []byte) *dsl.Errors {
	return &dsl.Errors{List: []dsl.Error{{File: name + ".yaml", Line: lineOf(src, key+":"), Column: 1,
		Pointer: "/" + key, Code: "name_mismatch", Detail: fmt.Sprintf("the document says %s: %s, but it is published as %s: make them the same", key, says, name)}}}
}

// lineOf returns the number of the first line that begins with prefix, 1 if there is none.
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
