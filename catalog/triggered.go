package catalog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
)

// Triggered is the newest version of a definition that has triggers.
type Triggered struct {
	Definition *saga.Definition
	Version    int
	Published  time.Time
}

// Unusable is the newest version of a definition that has triggers, and that this program cannot
// compile: a newer program has published it.
type Unusable struct {
	Name    string
	Version int
	Events  []string // patterns of the events that start its sagas
	Cron    bool     // times start its sagas
	Err     error    // saga.ErrUnusable, with the reason
}

// triggered caches the definitions with triggers. The zero value has not read any.
type triggered struct {
	mu     sync.Mutex
	looked time.Time // zero: the cache may be out of date
	list   []Triggered
	not    []Unusable
	seen   map[string]glance // by name
}

// glance is the result of reading a name's newest version.
type glance struct {
	version int
	has     *Triggered // nil: no triggers, or not usable
	not     *Unusable  // nil: no triggers, or usable
}

// page is the number of definitions that are read at once.
const page = 100

// Triggered lists the definitions that have triggers and are not archived, by name. The list may be
// as old as age, but includes everything that this process has published or archived. Those that
// this program cannot compile are in a list of their own. The caller must not change the lists.
// Errors are the store's.
func (c *Catalog) Triggered(ctx context.Context, age time.Duration) ([]Triggered, []Unusable, error) {
	t := &c.triggered
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.looked.IsZero() && time.Since(t.looked) < age {
		return t.list, t.not, nil
	}
	began := time.Now()
	var list []Triggered
	var not []Unusable
	seen := make(map[string]glance, len(t.seen))
	for after := ""; ; {
		docs, err := c.store.Documents(ctx, Kind, after, page)
		if err != nil {
			return nil, nil, fmt.Errorf("definitions with triggers: %w", err)
		}
		for _, d := range docs {
			g, known := t.seen[d.Name]
			if !known || g.version != d.Version {
				if g, err = c.glance(ctx, d); err != nil {
					return nil, nil, fmt.Errorf("definitions with triggers: %w", err)
				}
			}
			seen[d.Name] = g
			if g.has != nil {
				list = append(list, *g.has)
			}
			if g.not != nil {
				not = append(not, *g.not)
			}
			after = d.Name
		}
		if len(docs) < page {
			break
		}
	}
	t.looked, t.list, t.not, t.seen = began, list, not, seen
	return list, not, nil
}

func (c *Catalog) glance(ctx context.Context, d journal.Document) (glance, error) {
	g := glance{version: d.Version}
	def, err := c.compiled(ctx, d)
	switch {
	case errors.Is(err, saga.ErrUnusable):
		if events, cron := dsl.TriggersOf(d.Source); len(events) > 0 || cron {
			g.not = &Unusable{Name: d.Name, Version: d.Version, Events: events, Cron: cron, Err: err}
		}
	case err != nil:
		return g, err
	case len(def.Triggers) > 0:
		g.has = &Triggered{Definition: def, Version: d.Version, Published: d.CreatedAt}
	}
	return g, nil
}

// Before returns the version before t, which is not the first one. It may have no triggers. Errors
// are Definition's.
func (c *Catalog) Before(ctx context.Context, t Triggered) (Triggered, error) {
	d, err := c.store.Document(ctx, Kind, t.Definition.Name, t.Version-1)
	if err != nil {
		return Triggered{}, fmt.Errorf("definition %s v%d: %w", t.Definition.Name, t.Version-1, err)
	}
	def, err := c.compiled(ctx, d)
	return Triggered{Definition: def, Version: d.Version, Published: d.CreatedAt}, err
}

// Changed makes the next call of Triggered read the store, because a definition was published or
// archived.
func (c *Catalog) Changed() {
	c.triggered.mu.Lock()
	defer c.triggered.mu.Unlock()
	c.triggered.looked = time.Time{}
}

// Archive hides the documents under a name: no new sagas, and no new uses of an action; running
// sagas continue. The error is journal.ErrNotFound if there are none.
func (c *Catalog) Archive(ctx context.Context, kind, name string) error {
	defer c.Changed()
	return c.store.Archive(ctx, kind, name)
}
