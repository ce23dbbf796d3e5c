package catalog

import (
	"context"
	"errors"
	"fmt"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
)

// CompileAction checks an action as publishing does, without publishing it. file is the name used
// in errors.
func (c *Catalog) CompileAction(file string, src []byte) (*saga.Action, *dsl.Errors) {
	return dsl.ParseAction(file, src, c.strictly())
}

// Action returns one version of an action, compiled; version 0 is the newest, archived or not.
// Errors are Definition's.
func (c *Catalog) Action(ctx context.Context, name string, version int) (*saga.Action, error) {
	d, err := c.store.Document(ctx, ActionKind, name, version)
	if err != nil {
		return nil, fmt.Errorf("action %s: %w", name, err)
	}
	return c.loadAction(d)
}

func (c *Catalog) loadAction(d journal.Document) (*saga.Action, error) {
	a, errs := dsl.ParseAction(fmt.Sprintf("%s@v%d", d.Name, d.Version), d.Source, dsl.Options{Kinds: c.options.Kinds, Stored: true})
	if errs != nil {
		return nil, fmt.Errorf("%w %s v%d, an action; a newer program may have published it: %w", saga.ErrUnusable, d.Name, d.Version, errs)
	}
	a.Version = d.Version
	return a, nil
}

// resolver finds the actions and definitions that a definition names while it is compiled.
type resolver struct {
	ctx     context.Context
	catalog *Catalog
	pins    string // the document with the pins; "": none, so everything is the newest
	fixed   bool   // what is not pinned cannot be used
	looked  bool
	pinned  map[string]int
	seen    map[string]*saga.Action
	runs    map[string]*saga.Definition
	err     error // of the store
}

// find is dsl.Options.Actions.
func (r *resolver) find(name string, version int) (*saga.Action, error) {
	key := fmt.Sprintf("%s@%d", name, version)
	if a := r.seen[key]; a != nil {
		return a, nil
	}
	a, err := r.read(name, version)
	if err != nil {
		return nil, err
	}
	if r.seen == nil {
		r.seen = make(map[string]*saga.Action)
	}
	r.seen[key] = a
	return a, nil
}

func (r *resolver) read(name string, version int) (*saga.Action, error) {
	newest := false
	if version == 0 {
		if err := r.lookForPins(); err != nil {
			return nil, err
		}
		version = r.pinned[name]
		newest = version == 0
	}
	if newest && (r.fixed || r.pinned != nil) {
		return nil, fmt.Errorf("it is not known which version of action %s this definition uses: publish it again", name)
	}
	d, err := r.catalog.store.Document(r.ctx, ActionKind, name, version)
	switch {
	case errors.Is(err, journal.ErrNotFound) && newest:
		return nil, fmt.Errorf("there is no action %s: publish it first, with PUT /v1/actions/%s or `recourse definitions apply`", name, name)
	case errors.Is(err, journal.ErrNotFound):
		return nil, fmt.Errorf("action %s has no version %d: GET /v1/actions/%s/versions lists them", name, version, name)
	case err != nil:
		return nil, r.failed(fmt.Errorf("action %s: %w", name, err))
	case newest && d.Archived:
		return nil, fmt.Errorf("action %s is archived: publish it again, or name the version that you want, such as %s@%d", name, name, d.Version)
	}
	return r.catalog.loadAction(d)
}

// child is dsl.Options.Children.
func (r *resolver) child(name string, version int) *saga.Definition {
	key := fmt.Sprintf("%s@%d", name, version)
	def, known := r.runs[key]
	if !known {
		def = r.lookChild(name, version)
		if r.runs == nil {
			r.runs = make(map[string]*saga.Definition)
		}
		r.runs[key] = def
	}
	return def
}

func (r *resolver) lookChild(name string, version int) *saga.Definition {
	d, err := r.catalog.store.Document(r.ctx, Kind, name, version)
	if errors.Is(err, journal.ErrNotFound) || version == 0 && d.Archived {
		return nil
	}
	var def *saga.Definition
	if err == nil {
		def, err = r.catalog.compiled(r.ctx, d)
	}
	if err != nil && !errors.Is(err, saga.ErrUnusable) {
		r.err = fmt.Errorf("definition %s: %w", name, err)
	}
	return def
}

// lookForPins reads the definition's pins once. There may be none.
func (r *resolver) lookForPins() error {
	if r.looked || r.pins == "" {
		return nil
	}
	pins, err := r.catalog.readPins(r.ctx, r.pins)
	if err != nil {
		return r.failed(err)
	}
	r.looked, r.pinned = true, pins
	return nil
}

// failed records that the store could not be read, because that is not an error of the document.
func (r *resolver) failed(err error) error {
	r.err = err
	return err
}
