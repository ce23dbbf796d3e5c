package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

const using = "saga: doc\nsteps:\n  - {id: a, use: refund}\n"

func refund(path string) []byte {
	return []byte("action: refund\nhttp: POST https://pay.example/" + path + "\nin_doubt: retry\n")
}

func publishAction(t *testing.T, c *Catalog, src []byte) journal.Document {
	t.Helper()
	d, _, _, err := c.PublishAction(t.Context(), "refund", src, "")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func publish(t *testing.T, c *Catalog, src string) (int, *saga.Definition) {
	t.Helper()
	d, def, _, err := c.Publish(t.Context(), "doc", []byte(src), "")
	if err != nil {
		t.Fatal(err)
	}
	return d.Version, def
}

// uses is which version of its action a definition uses, and where that sends its request.
func uses(t *testing.T, def *saga.Definition, err error) string {
	t.Helper()
	if err != nil {
		t.Error(err)
		return ""
	}
	r, err := def.ByID["a"].Body.(saga.Call).Request(nil)
	if err != nil {
		t.Error(err)
	}
	return def.ByID["a"].Use.String() + " " + strings.TrimPrefix(r.URL, "https://pay.example/")
}

func TestPublishAction(t *testing.T) {
	c, _ := newCatalog(t, Options{})
	if d := publishAction(t, c, refund("one")); d.Version != 1 || d.Kind != ActionKind {
		t.Errorf("%+v", d)
	}
	if _, _, created, err := c.PublishAction(t.Context(), "refund", refund("one"), ""); created || err != nil {
		t.Errorf("the same again: created %v, %v", created, err)
	}
	if _, _, _, err := c.PublishAction(t.Context(), "refund", refund("two"), "-"); !errors.Is(err, journal.ErrMismatch) {
		t.Errorf("error %v, want ErrMismatch", err)
	}
	var errs *dsl.Errors
	if _, _, _, err := c.PublishAction(t.Context(), "other", refund("one"), ""); !errors.As(err, &errs) || errs.List[0].Code != "name_mismatch" || errs.List[0].Pointer != "/action" {
		t.Errorf("error %v, want name_mismatch", err)
	}
	if _, _, _, err := c.PublishAction(t.Context(), "doc", []byte(plain), ""); !errors.As(err, &errs) {
		t.Errorf("error %v: a definition is no action", err)
	}
	if a, err := c.Action(t.Context(), "refund", 0); err != nil || a.Version != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := c.Action(t.Context(), "refund", 2); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
}

// A version of a definition uses the same versions of its actions forever, on every node, and
// whatever becomes of them.
func TestPins(t *testing.T) {
	c, store := newCatalog(t, Options{})
	publishAction(t, c, refund("one"))
	first, def := publish(t, c, using)
	if got := uses(t, def, nil); got != "refund@1 one" {
		t.Errorf("published with %s", got)
	}
	publishAction(t, c, refund("two"))
	again, def := publish(t, c, using)
	if got := uses(t, def, nil); again != first || got != "refund@1 one" {
		t.Errorf("the unchanged text, published again, is v%d with %s", again, got)
	}
	second, def := publish(t, c, using+"# with the newer refund\n")
	if got := uses(t, def, nil); second != 2 || got != "refund@2 two" {
		t.Errorf("the changed text is v%d with %s", second, got)
	}
	third, def := publish(t, c, using) // the first text is the newest again
	if got := uses(t, def, nil); third != 3 || got != "refund@1 one" {
		t.Errorf("the first text again is v%d with %s", third, got)
	}
	if err := store.Archive(t.Context(), ActionKind, "refund"); err != nil {
		t.Fatal(err)
	}
	elsewhere := New(store, Options{Kinds: kinds.All()})
	for version, want := range map[int]string{1: "refund@1 one", 2: "refund@2 two", 3: "refund@1 one"} {
		def, err := elsewhere.Definition(t.Context(), "doc", version)
		if got := uses(t, def, err); got != want {
			t.Errorf("v%d uses %s, want %s", version, got, want)
		}
	}
	if _, def, err := New(store, Options{Kinds: kinds.All()}).Newest(t.Context(), "doc"); uses(t, def, err) != "refund@1 one" {
		t.Error("the newest version does not use what it is pinned to")
	}
}

func TestNamedVersions(t *testing.T) {
	c, store := newCatalog(t, Options{})
	publishAction(t, c, refund("one"))
	publishAction(t, c, refund("two"))
	if err := store.Archive(t.Context(), ActionKind, "refund"); err != nil {
		t.Fatal(err)
	}
	_, def := publish(t, c, strings.Replace(using, "refund", "refund@1", 1))
	if got := uses(t, def, nil); got != "refund@1 one" || def.Pins != nil {
		t.Errorf("%s, pins %v", got, def.Pins)
	}
	if _, err := store.Document(t.Context(), pinsKind, pinsName("doc", def.SHA256), 1); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("pins of what names its versions: %v", err)
	}
	for src, want := range map[string]string{
		using: "archived", strings.Replace(using, "refund", "refund@9", 1): "no version 9", strings.Replace(using, "refund", "other", 1): "no action other",
	} {
		var errs *dsl.Errors
		if _, _, _, err := c.Publish(t.Context(), "doc", []byte(src), ""); !errors.As(err, &errs) || errs.List[0].Code != "unknown_action" || !strings.Contains(errs.List[0].Detail, want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// Checking a definition takes the newest actions and keeps nothing.
func TestCompileKeepsNoPins(t *testing.T) {
	c, store := newCatalog(t, Options{})
	publishAction(t, c, refund("one"))
	def, err := c.Compile(t.Context(), "doc.yaml", []byte(using))
	if got := uses(t, def, err); got != "refund@1 one" {
		t.Errorf("compiled with %s", got)
	}
	if _, _, _, err := c.Publish(t.Context(), "doc", []byte(using), "*"); !errors.Is(err, journal.ErrMismatch) {
		t.Errorf("error %v, want ErrMismatch", err)
	}
	if _, err := store.Document(t.Context(), pinsKind, pinsName("doc", def.SHA256), 1); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("pins were kept: %v", err)
	}
}

// raced publishes pins of its own just before a publisher does.
type raced struct {
	journal.Catalog
	once  sync.Once
	other string
}

func (r *raced) Publish(ctx context.Context, d journal.Document, match string) (journal.Document, bool, error) {
	if d.Kind == pinsKind {
		r.once.Do(func() {
			d := d
			d.Source, d.SHA256 = []byte(r.other), "other"
			if _, _, err := r.Catalog.Publish(ctx, d, "-"); err != nil {
				panic(err)
			}
		})
	}
	return r.Catalog.Publish(ctx, d, match)
}

func TestFirstPinsHold(t *testing.T) {
	store := &raced{Catalog: memory.New(memory.Config{}), other: `{"refund":1}`}
	c := New(store, Options{Kinds: kinds.All()})
	publishAction(t, c, refund("one"))
	publishAction(t, c, refund("two"))
	_, def := publish(t, c, using)
	if got := uses(t, def, nil); got != "refund@1 one" {
		t.Errorf("uses %s, though another publisher was first", got)
	}
}

func TestManyPublishers(t *testing.T) {
	store := memory.New(memory.Config{})
	one := New(store, Options{Kinds: kinds.All()})
	publishAction(t, one, refund("0"))
	var wg sync.WaitGroup
	seen := make([]string, 8)
	for i := range seen {
		wg.Go(func() {
			c := New(store, Options{Kinds: kinds.All()})
			publishAction(t, c, refund(fmt.Sprint(i+1)))
			d, _, _, err := c.Publish(t.Context(), "doc", []byte(using), "")
			if err != nil {
				t.Error(err)
				return
			}
			def, err := New(store, Options{Kinds: kinds.All()}).Definition(t.Context(), "doc", d.Version)
			seen[i] = uses(t, def, err)
		})
	}
	wg.Wait()
	for _, got := range seen {
		if got != seen[0] {
			t.Errorf("one version of a definition uses %q", seen)
			break
		}
	}
}

// broken fails to read what is of a kind.
type broken struct {
	journal.Catalog
	kind string
}

var errBroken = errors.New("no database")

func (b *broken) Document(ctx context.Context, kind, name string, version int) (journal.Document, error) {
	if kind == b.kind {
		return journal.Document{}, errBroken
	}
	return b.Catalog.Document(ctx, kind, name, version)
}

// A database that cannot be read is no error of the document, nor does it make the definition
// unusable.
func TestBrokenStore(t *testing.T) {
	whole := memory.New(memory.Config{})
	c := New(whole, Options{Kinds: kinds.All()})
	publishAction(t, c, refund("one"))
	publish(t, c, using)
	for _, kind := range []string{ActionKind, pinsKind} {
		c := New(&broken{whole, kind}, Options{Kinds: kinds.All()})
		var errs *dsl.Errors
		if _, err := c.Definition(t.Context(), "doc", 1); !errors.Is(err, errBroken) || errors.Is(err, saga.ErrUnusable) {
			t.Errorf("without %s: load: %v", kind, err)
		}
		if _, _, _, err := c.Publish(t.Context(), "doc", []byte(using), ""); !errors.Is(err, errBroken) || errors.As(err, &errs) {
			t.Errorf("without %s: publish: %v", kind, err)
		}
	}
}

// What was published without pins, by whatever means, is unusable rather than a guess.
func TestLostPins(t *testing.T) {
	store := memory.New(memory.Config{})
	c := New(store, Options{Kinds: kinds.All()})
	publishAction(t, c, refund("one"))
	if _, _, err := store.Publish(t.Context(), journal.Document{Kind: Kind, Name: "doc", SHA256: "x", Source: []byte(using)}, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Definition(t.Context(), "doc", 1); !errors.Is(err, saga.ErrUnusable) {
		t.Errorf("error %v, want ErrUnusable", err)
	}
}

// An action that was published before stays usable, whatever later versions of the program find in
// its types.
func TestStoredActionIsTaken(t *testing.T) {
	store := memory.New(memory.Config{})
	c := New(store, Options{Kinds: kinds.All()})
	src := []byte("action: refund\ninput: {n: integer, s: string}\nhttp: POST https://pay.example/\nbody: {n: \"${input.n + input.s}\"}\nin_doubt: retry\n")
	var errs *dsl.Errors
	if _, _, _, err := c.PublishAction(t.Context(), "refund", src, ""); !errors.As(err, &errs) {
		t.Fatalf("publishing it now: %v", err)
	}
	if _, _, err := store.Publish(t.Context(), journal.Document{Kind: ActionKind, Name: "refund", SHA256: "1", Source: src}, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Action(t.Context(), "refund", 1); err != nil {
		t.Error(err)
	}
	publish(t, c, "saga: doc\nsteps:\n  - {id: a, use: refund, with: {n: 1, s: x}}\n")
}
