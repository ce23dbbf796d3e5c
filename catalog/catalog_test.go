package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/kinds/emit"
)

const plain = "saga: doc\nsteps:\n  - {id: a, set: 1}\n"

func source(name, value string) []byte {
	return []byte("saga: " + name + "\nsteps:\n  - {id: a, set: " + value + "}\n")
}

func newCatalog(t *testing.T, o Options) (*Catalog, *counted) {
	t.Helper()
	if o.Kinds == nil {
		o.Kinds = kinds.All()
	}
	store := &counted{Catalog: memory.New(memory.Config{})}
	return New(store, o), store
}

// counted counts reads.
type counted struct {
	journal.Catalog
	mu    sync.Mutex
	reads int
}

func (c *counted) Document(ctx context.Context, kind, name string, version int) (journal.Document, error) {
	c.mu.Lock()
	c.reads++
	c.mu.Unlock()
	return c.Catalog.Document(ctx, kind, name, version)
}

func TestPublish(t *testing.T) {
	c, store := newCatalog(t, Options{})
	d, def, created, err := c.Publish(t.Context(), "doc", []byte(plain), "")
	if err != nil || !created || d.Version != 1 || def.Name != "doc" || d.SHA256 != def.SHA256 || string(d.Source) != plain {
		t.Fatalf("%+v %v %v", d, created, err)
	}
	if _, _, created, err = c.Publish(t.Context(), "doc", []byte(plain), ""); err != nil || created {
		t.Errorf("the same again: created %v, %v", created, err)
	}
	if _, _, _, err = c.Publish(t.Context(), "doc", source("doc", "2"), "-"); !errors.Is(err, journal.ErrMismatch) {
		t.Errorf("error %v, want ErrMismatch", err)
	}
	var errs *dsl.Errors
	if _, _, _, err = c.Publish(t.Context(), "other", append([]byte("# a comment\n"), plain...), ""); !errors.As(err, &errs) ||
		errs.List[0].Code != "name_mismatch" || errs.List[0].Line != 2 || errs.List[0].Pointer != "/saga" {
		t.Errorf("error %v, want name_mismatch in line 2", err)
	}
	if _, _, _, err = c.Publish(t.Context(), "doc", []byte("saga: doc\n"), ""); !errors.As(err, &errs) {
		t.Errorf("error %v, want *dsl.Errors", err)
	}
	if _, err := c.Definition(t.Context(), "doc", 1); err != nil || store.reads != 0 {
		t.Errorf("what was published is read again: %d, %v", store.reads, err)
	}
}

func TestDefinition(t *testing.T) {
	c, store := newCatalog(t, Options{})
	if _, _, _, err := c.Publish(t.Context(), "doc", []byte(plain), ""); err != nil {
		t.Fatal(err)
	}
	for _, version := range []int{-1, 0, 2} {
		if _, err := c.Definition(t.Context(), "doc", version); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("version %d: %v, want ErrNotFound", version, err)
		}
	}
	other := New(store, Options{Kinds: kinds.All()})
	store.reads = 0
	for range 3 {
		def, err := other.Definition(t.Context(), "doc", 1)
		if err != nil || def.Name != "doc" {
			t.Fatal(err)
		}
	}
	if store.reads != 1 {
		t.Errorf("read %d times, want once", store.reads)
	}
}

func TestNewestAndArchived(t *testing.T) {
	c, store := newCatalog(t, Options{})
	for _, value := range []string{"1", "2"} {
		if _, _, _, err := c.Publish(t.Context(), "doc", source("doc", value), ""); err != nil {
			t.Fatal(err)
		}
	}
	if d, def, err := c.Newest(t.Context(), "doc"); err != nil || d.Version != 2 || def == nil {
		t.Errorf("newest %+v, %v", d, err)
	}
	if _, _, err := c.Newest(t.Context(), "none"); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	if err := store.Archive(t.Context(), Kind, "doc"); err != nil {
		t.Fatal(err)
	}
	if d, _, err := c.Newest(t.Context(), "doc"); !errors.Is(err, ErrArchived) || d.Version != 2 {
		t.Errorf("%+v %v, want ErrArchived with the document", d, err)
	}
	if _, err := c.Definition(t.Context(), "doc", 1); err != nil {
		t.Errorf("an archived version cannot be loaded: %v", err)
	}
}

// What was published loads, whatever the options are today; what this program
// does not know is unusable, and says so.
func TestLoadingIsLenient(t *testing.T) {
	store := memory.New(memory.Config{})
	warned := "saga: doc\nsteps:\n  - {id: a, http: 'POST ${vars.pay}/charges'}\n"
	free := New(store, Options{Kinds: kinds.All()})
	if _, _, _, err := free.Publish(t.Context(), "doc", []byte(warned), ""); err != nil {
		t.Fatal(err)
	}
	strict := New(store, Options{Kinds: kinds.All(), Strict: true, Vars: map[string]json.RawMessage{}})
	if _, err := strict.Definition(t.Context(), "doc", 1); err != nil {
		t.Errorf("loading is as strict as publishing: %v", err)
	}
	if _, _, _, err := strict.Publish(t.Context(), "doc", []byte(warned+"\n"), ""); err == nil {
		t.Error("publishing is not strict")
	}
	older := New(store, Options{Kinds: kinds.All()[1:]})
	if _, err := older.Definition(t.Context(), "doc", 1); !errors.Is(err, saga.ErrUnusable) {
		t.Errorf("error %v, want ErrUnusable", err)
	}
	if _, _, err := older.Newest(t.Context(), "doc"); !errors.Is(err, saga.ErrUnusable) {
		t.Errorf("error %v, want ErrUnusable", err)
	}
}

func TestVars(t *testing.T) {
	src := []byte("saga: doc\nsteps:\n  - {id: a, set: '${vars.pay}'}\n")
	for _, tt := range []struct {
		vars map[string]json.RawMessage
		ok   bool
	}{{nil, true}, {map[string]json.RawMessage{}, false}, {map[string]json.RawMessage{"pay": json.RawMessage(`"x"`)}, true}} {
		c, _ := newCatalog(t, Options{Vars: tt.vars})
		if _, err := c.Compile(t.Context(), "x.yaml", src); (err == nil) != tt.ok {
			t.Errorf("vars %v: %v", tt.vars, err)
		} else if err != nil && !strings.HasPrefix(err.Error(), "x.yaml:3:") {
			t.Errorf("errors do not name the file: %v", err)
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	var c cache
	defs := make([]*saga.Definition, cached+10)
	for i := range defs {
		defs[i] = &saga.Definition{Name: fmt.Sprint(i)}
		c.put("doc", i, defs[i])
		c.get("doc", 0) // in use all the time
	}
	if len(c.items) != cached || c.order.Len() != cached {
		t.Errorf("%d items, %d in order; want %d", len(c.items), c.order.Len(), cached)
	}
	if c.get("doc", 0) != defs[0] || c.get("doc", len(defs)-1) != defs[len(defs)-1] || c.get("doc", 1) != nil {
		t.Error("not the least used ones were dropped")
	}
}

func TestCacheIsBoundedByText(t *testing.T) {
	var c cache
	big := func(n int) *saga.Definition { return &saga.Definition{Source: make([]byte, n)} }
	for i := range 40 {
		c.put("doc", i, big(1<<20))
	}
	if len(c.items) != 16 || c.text != cachedText || c.get("doc", 39) == nil {
		t.Errorf("%d items of %d bytes", len(c.items), c.text)
	}
	c.put("huge", 1, big(cachedText+1))
	if c.get("huge", 1) == nil || len(c.items) != 1 {
		t.Errorf("the one in use is not kept alone: %d items", len(c.items))
	}
}

func TestConcurrent(t *testing.T) {
	c, _ := newCatalog(t, Options{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				name := fmt.Sprintf("d%d", j%4)
				d, _, _, err := c.Publish(t.Context(), name, source(name, fmt.Sprint(i*20+j)), "")
				if err != nil {
					t.Error(err)
					return
				}
				def, err := c.Definition(t.Context(), name, d.Version)
				if err != nil || def.SHA256 != d.SHA256 {
					t.Errorf("%s v%d: %v", name, d.Version, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestTriggered(t *testing.T) {
	c, store := newCatalog(t, Options{})
	names := func(age time.Duration) (list []string) {
		t.Helper()
		all, not, err := c.Triggered(t.Context(), age)
		if err != nil {
			t.Fatal(err)
		}
		if len(not) > 0 {
			t.Errorf("not usable: %v", not)
		}
		for _, d := range all {
			list = append(list, fmt.Sprintf("%s@%d", d.Definition.Name, d.Version))
			if d.Published.IsZero() {
				t.Error("it is not known when it was published")
			}
		}
		return list
	}
	publish := func(c *Catalog, name, triggers string) {
		t.Helper()
		if _, _, _, err := c.Publish(t.Context(), name, []byte("saga: "+name+"\n"+triggers+"steps:\n  - {id: a, set: 1}\n"), ""); err != nil {
			t.Fatal(err)
		}
	}
	for i := range page + 5 {
		publish(c, fmt.Sprintf("d%04d", i), "")
	}
	publish(c, "one", "triggers: [{event: a}]\n")
	publish(c, "a-two", "triggers: [{event: b}]\n")
	check := func(age time.Duration, want ...string) {
		t.Helper()
		if got := names(age); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	check(time.Hour, "a-two@1", "one@1")
	publish(c, "one", "triggers: [{event: c}]\n")
	check(time.Hour, "a-two@1", "one@2")
	publish(c, "one", "")
	check(time.Hour, "a-two@1")
	other := New(store, c.options)
	publish(other, "far", "triggers: [{cron: '@daily'}]\n")
	check(time.Hour, "a-two@1")
	check(0, "a-two@1", "far@1")
	if err := c.Archive(t.Context(), Kind, "a-two"); err != nil {
		t.Fatal(err)
	}
	check(time.Hour, "far@1")
	older := New(store, Options{Kinds: []dsl.Kind{}})
	publish(c, "one", "triggers: [{event: a}]\n")
	for range 2 { // the second time it is known
		list, not, err := older.Triggered(t.Context(), 0)
		if err != nil || len(list) != 0 || len(not) != 2 {
			t.Fatalf("what cannot be compiled: %v, %v, %v", list, not, err)
		}
		far, one := not[0], not[1]
		if far.Name != "far" || !far.Cron || len(far.Events) > 0 || one.Name != "one" || one.Version != 4 || one.Cron || !slices.Equal(one.Events, []string{"a"}) || !errors.Is(one.Err, saga.ErrUnusable) {
			t.Errorf("%+v %+v", far, one)
		}
	}
}

// Sagas continue although a sink was removed from the server; publishing no longer allows its name.
func TestLoadingOutlivesSinks(t *testing.T) {
	store := memory.New(memory.Config{})
	src := "saga: doc\nsteps:\n  - {id: a, emit: x, to: audit}\n"
	had := New(store, Options{Kinds: kinds.With(kinds.Options{Sinks: []emit.Sink{{Name: "audit"}}})})
	if _, _, _, err := had.Publish(t.Context(), "doc", []byte(src), ""); err != nil {
		t.Fatal(err)
	}
	lost := New(store, Options{Kinds: kinds.With(kinds.Options{Sinks: []emit.Sink{}})})
	if _, err := lost.Definition(t.Context(), "doc", 1); err != nil {
		t.Error(err)
	}
	var errs *dsl.Errors
	if _, _, _, err := lost.Publish(t.Context(), "doc", []byte(src+"\n"), ""); !errors.As(err, &errs) || errs.List[0].Code != "unknown_sink" {
		t.Errorf("error %v, want unknown_sink", err)
	}
}
