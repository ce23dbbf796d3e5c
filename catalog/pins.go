package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"recourse/journal"
	"recourse/saga"
)

// pinsKind is the kind of documents with pins: for a definition's text, a JSON object with the
// versions of the actions that it uses without naming one. Version 1 of such a document is valid,
// whichever node has written it first.
const pinsKind = "pins"

func pinsName(definition, sha256 string) string { return definition + "@" + sha256 }

// readPins returns pins, nil if there are none.
func (c *Catalog) readPins(ctx context.Context, name string) (map[string]int, error) {
	d, err := c.store.Document(ctx, pinsKind, name, 1)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("pins of %s: %w", name, err)
	}
	var pins map[string]int
	if err := json.Unmarshal(d.Source, &pins); err != nil {
		return nil, fmt.Errorf("pins of %s: %w", name, err)
	}
	return pins, nil
}

// pinned compiles a definition that is to be published as name, and ensures that its pins are
// stored.
func (c *Catalog) pinned(ctx context.Context, name string, src []byte, match string) (*saga.Definition, error) {
	sum := sha256.Sum256(src)
	pins := pinsName(name, hex.EncodeToString(sum[:]))
	for {
		r := &resolver{ctx: ctx, catalog: c, pins: pins}
		def, err := c.compile(name+".yaml", src, c.strictly(), r)
		if err != nil {
			return nil, err
		}
		if def.Name != name {
			return nil, misnamed("saga", def.Name, name, src)
		}
		if len(def.Pins) == 0 || r.pinned != nil {
			return def, nil
		}
		if err := c.publishable(ctx, name, match); err != nil {
			return nil, err
		}
		source, err := journal.Encode(def.Pins)
		if err != nil {
			return nil, fmt.Errorf("pins of %s: %w", pins, err)
		}
		hash := sha256.Sum256(source)
		_, _, err = c.store.Publish(ctx, journal.Document{Kind: pinsKind, Name: pins, SHA256: hex.EncodeToString(hash[:]), Source: source}, "-")
		switch {
		case err == nil:
			return def, nil
		case !errors.Is(err, journal.ErrMismatch):
			return nil, fmt.Errorf("pins of %s: %w", pins, err)
		}
		// Another node has stored its pins first: those are valid.
	}
}

// publishable reports a mismatch before pins are written, because pins stay. A mismatch that
// appears only when the definition itself is stored leaves pins that are used when the same text is
// published later.
func (c *Catalog) publishable(ctx context.Context, name, match string) error {
	if match == "" {
		return nil
	}
	d, err := c.store.Document(ctx, Kind, name, 0)
	none := errors.Is(err, journal.ErrNotFound)
	if err != nil && !none {
		return fmt.Errorf("publish %s: %w", name, err)
	}
	if ok := match == "-" && none || match == "*" && !none || match == d.SHA256 && !none; !ok {
		return fmt.Errorf("publish %s: %w", name, journal.ErrMismatch)
	}
	return nil
}
