// Package catalog publishes saga definitions and actions, and returns them compiled.
//
// Publishing is strict: the document is checked against the server's vars and, if the option is
// set, must have no warnings. Loading is not: a published document is compiled from its stored
// text, whatever the server's options are today, so that a saga can always continue. A version
// never changes, so compiled ones are cached. The versions of the actions that it uses without
// naming one do not change either: they are its pins.
package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
)

// Kinds of the documents in a journal.Catalog.
const (
	Kind       = journal.Definition
	ActionKind = "action"
)

// ErrArchived says that the definition takes no new sagas. Publishing it again revives it.
var ErrArchived = errors.New("the definition is archived")

// Options are the inputs of compiling other than the text.
type Options struct {
	Kinds  []dsl.Kind
	Strict bool                       // refuse a definition that has warnings
	Vars   map[string]json.RawMessage // the server's; nil: unknown, so every name is accepted
	// Secret returns the value of a secret. An error says how to provide it. nil: the existing
	// secrets are unknown.
	Secret func(name string) (string, error)
}

// Catalog compiles, publishes and finds definitions. It is safe for concurrent use.
type Catalog struct {
	store   journal.Catalog
	options Options
	names   []string // of the vars; nil: unknown
	cache   cache
	recent  recent
	lookup  lookup

	triggered triggered
}

// New returns a catalog over store.
func New(store journal.Catalog, o Options) *Catalog {
	c := &Catalog{store: store, options: o, lookup: lookup{store: store}}
	if o.Vars != nil {
		c.names = slices.AppendSeq([]string{}, maps.Keys(o.Vars))
		slices.Sort(c.names)
	}
	return c
}

// Kinds lists the step kinds that definitions may use.
func (c *Catalog) Kinds() []dsl.Kind { return c.options.Kinds }

// Compile checks a definition as publishing it for the first time does, without publishing it. file
// is the name used in errors. Errors are *dsl.Errors, and the store's.
func (c *Catalog) Compile(ctx context.Context, file string, src []byte) (*saga.Definition, error) {
	return c.compile(file, src, c.strictly(), &resolver{ctx: ctx, catalog: c})
}

// strictly returns the options for publishing.
func (c *Catalog) strictly() dsl.Options {
	return dsl.Options{Kinds: c.options.Kinds, Strict: c.options.Strict, VarNames: c.names}
}

// compile compiles a definition with the names that r finds. If it was published before, it is not
// checked against the definitions that it runs today.
func (c *Catalog) compile(file string, src []byte, o dsl.Options, r *resolver) (*saga.Definition, error) {
	o.Actions = r.find
	if !o.Stored {
		o.Children = r.child
	}
	def, errs := dsl.Parse(file, src, o)
	switch {
	case r.err != nil:
		return nil, r.err
	case errs != nil:
		return nil, errs
	}
	return def, nil
}

// Definition returns one version, compiled. Errors are journal.ErrNotFound, the store's, and
// saga.ErrUnusable if this program cannot compile a definition that another program has published.
func (c *Catalog) Definition(ctx context.Context, name string, version int) (*saga.Definition, error) {
	if version < 1 {
		return nil, fmt.Errorf("definition %s v%d: %w", name, version, journal.ErrNotFound)
	}
	if def := c.cache.get(name, version); def != nil {
		return def, nil
	}
	d, err := c.store.Document(ctx, Kind, name, version)
	if err != nil {
		return nil, fmt.Errorf("definition %s v%d: %w", name, version, err)
	}
	return c.load(ctx, d)
}

// Newest returns a name's newest version. Errors are Definition's, and
// ErrArchived, with the document.
func (c *Catalog) Newest(ctx context.Context, name string) (journal.Document, *saga.Definition, error) {
	d, err := c.lookup.newest(ctx, name)
	if err != nil {
		if errors.Is(err, journal.ErrNotFound) {
			c.recent.forget(name)
		}
		return d, nil, fmt.Errorf("definition %s: %w", name, err)
	}
	if d.Archived {
		c.recent.forget(name)
		return d, nil, fmt.Errorf("definition %s: %w", name, ErrArchived)
	}
	def, err := c.load(ctx, d)
	if err == nil {
		c.recent.saw(name, d.Version)
	} else {
		c.recent.forget(name)
	}
	return d, def, err
}

// Recent returns the version of a name that was the newest when this process last read it, or nil.
// Start a saga of it with journal.Start.Newest and, if the start is refused, call Newest.
func (c *Catalog) Recent(name string) (version int, def *saga.Definition) {
	if version = c.recent.version(name); version > 0 {
		def = c.cache.get(name, version)
	}
	return version, def
}

// load compiles a stored document. The result depends only on its text, its pins and the kinds.
func (c *Catalog) load(ctx context.Context, d journal.Document) (*saga.Definition, error) {
	def, err := c.compiled(ctx, d)
	if err == nil {
		c.cache.put(d.Name, d.Version, def)
	}
	return def, err
}

// compiled is load without the cache.
func (c *Catalog) compiled(ctx context.Context, d journal.Document) (*saga.Definition, error) {
	if def := c.cache.get(d.Name, d.Version); def != nil {
		return def, nil
	}
	r := &resolver{ctx: ctx, catalog: c, pins: pinsName(d.Name, d.SHA256), fixed: true}
	def, err := c.compile(fmt.Sprintf("%s@v%d", d.Name, d.Version), d.Source, dsl.Options{Kinds: c.options.Kinds, Stored: true}, r)
	var errs *dsl.Errors
	switch {
	case errors.As(err, &errs):
		return nil, fmt.Errorf("%w %s v%d; a newer program may have published it: %w", saga.ErrUnusable, d.Name, d.Version, errs)
	case err != nil:
		return nil, fmt.Errorf("definition %s v%d: %w", d.Name, d.Version, err)
	}
	return def, nil
}
