package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
)

// Session returns the definition that a session's policy makes, with the versions of the actions
// that it names. Errors are Definition's.
func (c *Catalog) Session(ctx context.Context, d *saga.SessionData) (*saga.Definition, error) {
	return c.unpublished(ctx, &saga.StartedData{Session: d})
}

// Run returns the definition of a saga that only runs one version of an action. Errors are
// Definition's.
func (c *Catalog) Run(ctx context.Context, action string, version int) (*saga.Definition, error) {
	return c.unpublished(ctx, &saga.StartedData{Action: action + "@" + strconv.Itoa(version)})
}

func (c *Catalog) unpublished(ctx context.Context, d *saga.StartedData) (*saga.Definition, error) {
	sum := sha256.Sum256(saga.Encode([]any{d.Session, d.Action}))
	key := saga.SessionPrefix + hex.EncodeToString(sum[:]) // no published definition has such a name
	if def := c.cache.get(key, 0); def != nil {
		return def, nil
	}
	r := &resolver{ctx: ctx, catalog: c}
	def, errs := dsl.Unpublished(d, dsl.Options{Kinds: c.options.Kinds, Stored: true, Actions: r.find})
	switch {
	case r.err != nil:
		return nil, r.err
	case errs != nil:
		return nil, fmt.Errorf("%w: a session or an action: %w", saga.ErrUnusable, errs)
	}
	c.cache.put(key, 0, def)
	return def, nil
}

// Of returns the definition that a saga runs by: the published version, or that of its session or
// action. Errors are Definition's; journal.ErrNotFound becomes saga.ErrUnusable, because the
// definition existed when the saga started.
func (c *Catalog) Of(ctx context.Context, d *saga.StartedData) (*saga.Definition, error) {
	if d.Session != nil || d.Action != "" {
		return c.unpublished(ctx, d)
	}
	def, err := c.Definition(ctx, d.Definition, int(d.Version))
	if errors.Is(err, journal.ErrNotFound) {
		return nil, fmt.Errorf("%w: version %s of %s is gone", saga.ErrUnusable, d.Version, d.Definition)
	}
	return def, err
}
