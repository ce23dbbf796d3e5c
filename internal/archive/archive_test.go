package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"recourse/journal"
	"recourse/journal/memory"
	"recourse/journal/packed"
	"recourse/journal/sqlite"
)

// world is a database with ended sagas and an archive in a directory.
type world struct {
	*testing.T
	store  journal.Store
	bucket *faulty
	now    time.Time
	cfg    Config
	logged bytes.Buffer
}

var epoch = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

const node = "node-1"

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, now: epoch}
	w.store = memory.New(memory.Config{Now: func() time.Time { return w.now }})
	b, err := Open(t.Context(), t.TempDir())
	w.must(err)
	w.bucket = &faulty{Bucket: b}
	_, err = w.store.Register(t.Context(), node, 1000*time.Hour)
	w.must(err)
	w.cfg = Config{Store: w.store, Bucket: w.bucket, Node: func() string { return node }, Now: func() time.Time { return w.now }, Log: slog.New(slog.NewTextHandler(&w.logged, nil))}
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// ended adds a saga that was started some time before now, has ended, and whose retention has
// ended.
func (w *world) ended(definition string, age time.Duration, blobs ...journal.Blob) uuid.UUID {
	w.Helper()
	id := journal.FirstID(w.now.Add(-age))
	copy(id[8:], uuid.Must(uuid.NewV4()).Bytes()[8:])
	var records []journal.Record
	var prev []byte
	for seq := int64(1); seq <= 3; seq++ {
		r := journal.Record{Seq: seq, At: w.now.Add(-time.Minute), Kind: journal.Woke, Path: "s", Way: journal.Do, Node: node, Data: fmt.Appendf(nil, `{"n":%d,"text":"<&>"}`, seq)}
		journal.Seal(id, prev, &r)
		prev = r.Hash
		records = append(records, r)
	}
	row := &journal.Row{Status: "succeeded", Seq: 3, Labels: map[string]string{"tier": "gold"}, UpdatedAt: w.now, EndedAt: w.now.Add(-time.Minute), DeleteAt: w.now.Add(-time.Second)}
	out, err := w.store.Append(w.Context(), node, []journal.Append{{Saga: id, Start: &journal.Start{Definition: definition, Version: 2, SHA256: "aa", CreatedAt: w.now.Add(-age)}, Records: records, Row: row, Release: true, Blobs: blobs}})
	w.must(err)
	w.must(out[0].Err)
	return id
}

func (w *world) keys(prefix string) (keys []string) {
	w.Helper()
	w.must(w.bucket.List(w.Context(), prefix, func(key string) error {
		keys = append(keys, key)
		return nil
	}))
	return keys
}

func (w *world) inDatabase(id uuid.UUID) bool {
	_, err := w.store.Saga(w.Context(), id)
	return err == nil
}

// archived checks that a saga is in the archive, and not in the database.
func (w *world) archived(id uuid.UUID) Entry {
	w.Helper()
	if w.inDatabase(id) {
		w.Errorf("saga %s is still in the database", id)
	}
	r := NewReader(w.bucket)
	e, err := r.Find(w.Context(), id)
	w.must(err)
	records, err := r.Records(w.Context(), e)
	w.must(err)
	w.must(journal.Verify(id, nil, 1, records))
	if len(records) != 3 || string(records[2].Data) != `{"n":3,"text":"<&>"}` {
		w.Errorf("saga %s has the records %v", id, records)
	}
	return e
}

// faulty is a bucket that fails: the nth operation of a kind returns an error, or changes data.
type faulty struct {
	Bucket
	fail    func(op, key string) error
	corrupt func(key string, data []byte) []byte
	gets    []string
}

func (f *faulty) before(op, key string) error {
	if f.fail == nil {
		return nil
	}
	return f.fail(op, key)
}

func (f *faulty) Put(ctx context.Context, key string, data []byte) error {
	if err := f.before("put", key); err != nil {
		return err
	}
	if f.corrupt != nil {
		data = f.corrupt(key, bytes.Clone(data))
	}
	return f.Bucket.Put(ctx, key, data)
}

func (f *faulty) Get(ctx context.Context, key string) ([]byte, error) {
	f.gets = append(f.gets, key)
	if err := f.before("get", key); err != nil {
		return nil, err
	}
	return f.Bucket.Get(ctx, key)
}

func TestArchives(t *testing.T) {
	w := newWorld(t)
	old, young, other := w.ended("booking", 30*time.Hour), w.ended("booking", time.Hour), w.ended("~action/mail", time.Hour)
	a := New(w.cfg)
	w.must(a.Once(t.Context()))
	e := w.archived(old)
	if again := w.archived(young); again.Object != e.Object {
		t.Errorf("sagas of one definition and day are in %s and %s", e.Object, again.Object)
	}
	if e := w.archived(other); !strings.HasPrefix(e.Object, "sagas/2026-11-21/~action/mail/") {
		t.Errorf("its object is %s", e.Object)
	}
	want := Entry{Saga: old, Object: e.Object, ArchivedAt: epoch, Records: 3, Hash: e.Hash, Definition: "booking", Version: 2, SHA256: "aa", Status: "succeeded",
		Labels: map[string]string{"tier": "gold"}, CreatedAt: epoch.Add(-30 * time.Hour), UpdatedAt: epoch, EndedAt: epoch.Add(-time.Minute)}
	if d := cmp.Diff(want, e); d != "" {
		t.Error(d)
	}
	if got := len(w.keys("index/2026-11-20/")) + len(w.keys("index/2026-11-21/")); got != 3 {
		t.Errorf("%d index objects, want one for each part and day of a start", got)
	}
	if s := a.Stats(); s.Sagas != 3 || s.Objects != 2 || s.Failures != 0 || s.Refused != 0 || s.Overdue != 0 {
		t.Errorf("stats %+v", s)
	}
	if has, err := Archived(t.Context(), w.store); !has || err != nil {
		t.Errorf("the database says that it has no archive: %v", err)
	}
	if _, err := NewReader(w.bucket).Find(t.Context(), uuid.Must(uuid.NewV7())); !errors.Is(err, ErrNotFound) {
		t.Errorf("another saga: %v", err)
	}
}

// Nothing is deleted whatever fails before the last step, and the next run archives everything.
func TestFailures(t *testing.T) {
	broken := errors.New("broken")
	for _, op := range []string{"put content/", "get content/", "put sagas/", "get sagas/", "put index/", "get index/"} {
		t.Run(op, func(t *testing.T) {
			w := newWorld(t)
			plain, session := w.ended("booking", time.Hour), w.ended("~bot", time.Hour, blob("a"))
			a := New(w.cfg)
			verb, prefix, _ := strings.Cut(op, " ")
			struck := false
			w.bucket.fail = func(op, key string) error {
				if !struck && op == verb && strings.HasPrefix(key, prefix) {
					struck = true
					return broken
				}
				return nil
			}
			if err := a.Once(t.Context()); !errors.Is(err, broken) {
				t.Fatalf("Once = %v", err)
			}
			if op != "put content/" && op != "get content/" && !w.inDatabase(plain) {
				t.Error("the saga was deleted")
			}
			if strings.Contains(op, "content") && !w.inDatabase(session) {
				t.Error("the session was deleted")
			}
			w.must(a.Once(t.Context()))
			w.archived(plain)
			w.archived(session)
		})
	}
}

// An object that is not read back as it was stored deletes nothing, whatever is wrong with it.
func TestReadBack(t *testing.T) {
	cut := func(data []byte) []byte { return data[:len(data)-1] }
	flip := func(data []byte) []byte { data[len(data)/2] ^= 1; return data }
	empty := func([]byte) []byte { return nil }
	for _, prefix := range []string{"sagas/", "index/", "content/"} {
		for name, change := range map[string]func([]byte) []byte{"cut off": cut, "changed": flip, "empty": empty} {
			t.Run(prefix+" "+name, func(t *testing.T) {
				w := newWorld(t)
				id := w.ended("~bot", time.Hour, blob("a"))
				w.bucket.corrupt = func(key string, data []byte) []byte {
					if strings.HasPrefix(key, prefix) {
						return change(data)
					}
					return data
				}
				a := New(w.cfg)
				if err := a.Once(t.Context()); !errors.Is(err, ErrDamaged) {
					t.Errorf("Once = %v", err)
				}
				if !w.inDatabase(id) {
					t.Fatal("the saga was deleted")
				}
				w.bucket.corrupt = nil
				w.must(a.Once(t.Context()))
				w.archived(id)
			})
		}
	}
}

// A part that has other journals than the database is refused, even if the bucket returns the bytes
// that were stored.
func TestReadBackComparesJournals(t *testing.T) {
	w := newWorld(t)
	one, two := w.ended("booking", time.Hour), w.ended("booking", time.Hour)
	a := New(w.cfg)
	page, _, err := a.page(t.Context(), journal.Head{})
	w.must(err)
	for name, change := range map[string]func(*part){
		"another count":   func(p *part) { p.entries[0].Records = 4 },
		"another hash":    func(p *part) { p.entries[0].Hash = p.entries[1].Hash },
		"a saga too few":  func(p *part) { p.entries = append(p.entries, p.entries[0]) },
		"a saga too many": func(p *part) { p.entries = p.entries[:1] },
		"another order":   func(p *part) { slices.Reverse(p.entries) },
	} {
		p, _, err := a.build(t.Context(), group{"2026-11-21", "booking"}, page)
		w.must(err)
		change(p)
		if err := a.move(t.Context(), p); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !w.inDatabase(one) || !w.inDatabase(two) || len(w.keys("sagas/")) > 0 {
		t.Errorf("a saga was deleted, or an object is left: %v", w.keys("sagas/"))
	}
}

// Everything is read back before anything of it is deleted.
func TestOrder(t *testing.T) {
	w := newWorld(t)
	id := w.ended("~bot", time.Hour, blob("a"))
	w.bucket.fail = func(op, key string) error {
		if !w.inDatabase(id) {
			t.Errorf("%s %s after the saga was deleted", op, key)
		}
		return nil
	}
	w.must(New(w.cfg).Once(t.Context()))
	for _, key := range w.keys("") {
		if !slices.Contains(w.bucket.gets, key) {
			t.Errorf("%s was not read back", key)
		}
	}
	if len(w.bucket.gets) != 3 {
		t.Errorf("read back: %v", w.bucket.gets)
	}
}

func TestParts(t *testing.T) {
	w := newWorld(t)
	var all []uuid.UUID
	for range 5 {
		all = append(all, w.ended("booking", time.Hour))
	}
	w.cfg.MaxBytes = 1000 // two journals
	w.must(New(w.cfg).Once(t.Context()))
	for _, id := range all {
		w.archived(id)
	}
	if got := len(w.keys("sagas/")); got != 3 {
		t.Errorf("%d objects, want 3", got)
	}
}

// Sagas wait for others, but not for too long, and not if there are many.
func TestWaits(t *testing.T) {
	w := newWorld(t)
	id := w.ended("booking", time.Hour)
	w.cfg.Wait, w.cfg.MaxSagas = time.Hour, 2
	a := New(w.cfg)
	w.must(a.Once(t.Context()))
	if !w.inDatabase(id) {
		t.Fatal("archived at once")
	}
	second := w.ended("booking", time.Hour)
	w.must(a.Once(t.Context()))
	w.archived(id)
	w.archived(second)
	third := w.ended("booking", time.Hour)
	w.now = w.now.Add(time.Hour)
	w.must(a.Once(t.Context()))
	w.archived(third)
}

// A saga whose journal is not sound stays, and does not keep others from being archived.
func TestRefuses(t *testing.T) {
	for name, err := range map[string]error{"changed": nil, "damaged": packed.ErrInvalid, "without its dictionary": packed.ErrNoDictionary} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			bad := w.ended("booking", time.Hour)
			w.now = w.now.Add(time.Second)
			good := w.ended("booking", time.Hour)
			w.cfg.Store = tampered{w.store, bad, err}
			w.cfg.Wait = time.Millisecond
			a := New(w.cfg)
			for range 2 {
				w.must(a.Once(t.Context()))
			}
			w.archived(good)
			if !w.inDatabase(bad) {
				t.Error("the bad one was deleted")
			}
			if s := a.Stats(); s.Refused != 1 || s.Sagas != 1 {
				t.Errorf("stats %+v", s)
			}
			if got := strings.Count(w.logged.String(), "saga="+bad.String()); got != 1 {
				t.Errorf("it is logged %d times:\n%s", got, &w.logged)
			}
			a.cfg.Store = w.store // the journal was restored
			w.now = w.now.Add(tryRefused)
			w.must(a.Once(t.Context()))
			w.archived(bad)
			if s := a.Stats(); s.Refused != 0 {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

// tampered is a store in which a record of a saga was changed, or whose journal cannot be read.
type tampered struct {
	journal.Store
	saga uuid.UUID
	err  error
}

func (s tampered) Records(ctx context.Context, saga uuid.UUID, after int64, limit int) ([]journal.Record, error) {
	list, err := s.Store.Records(ctx, saga, after, limit)
	if saga == s.saga && s.err != nil {
		return nil, s.err
	}
	if saga == s.saga && len(list) > 1 {
		list[1].Data = []byte(`{"n":4}`)
	}
	return list, err
}

// A row of SQLite that is cut off belongs to a saga that is not sound.
func TestRefusesOnSQLite(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "a.db")
	open := func() {
		t.Helper()
		store, err := sqlite.Open(t.Context(), path, sqlite.Options{Migrate: true, Now: w.cfg.Now})
		w.must(err)
		t.Cleanup(func() { store.Close() })
		w.store, w.cfg.Store = store, store
	}
	open()
	_, err := w.store.Register(t.Context(), node, 1000*time.Hour)
	w.must(err)
	bad, good := w.ended("booking", time.Hour), w.ended("booking", time.Hour)
	w.store.Close()
	db, err := sql.Open("sqlite", path)
	w.must(err)
	_, err = db.ExecContext(t.Context(), `UPDATE journal SET data = substr(data, 1, 20) WHERE saga_id = ?`, bad.Bytes())
	w.must(errors.Join(err, db.Close()))
	open()
	a := New(w.cfg)
	w.must(a.Once(t.Context()))
	w.archived(good)
	if s := a.Stats(); s.Refused != 1 || !w.inDatabase(bad) {
		t.Errorf("stats %+v", s)
	}
}

// Two nodes that archive the same sagas at once do no harm, wherever the second one begins.
func TestTwoAtOnce(t *testing.T) {
	for _, op := range []string{"put content/", "put sagas/", "get sagas/", "put index/", "get index/"} {
		t.Run(op, func(t *testing.T) {
			w := newWorld(t)
			plain, session := w.ended("booking", time.Hour), w.ended("~bot", time.Hour, blob("a"))
			verb, prefix, _ := strings.Cut(op, " ")
			began := false
			w.bucket.fail = func(op, key string) error {
				if began || op != verb || !strings.HasPrefix(key, prefix) {
					return nil
				}
				began = true
				w.must(New(w.cfg).Once(t.Context()))
				return nil
			}
			w.must(New(w.cfg).Once(t.Context()))
			w.archived(plain)
			w.archived(session)
			w.hasContent(session, blob("a"))
		})
	}
}

func blob(text string) journal.Blob {
	return journal.Blob{Hash: sha256.Sum256([]byte(text)), Data: []byte("\xffpacked " + text)}
}

func (w *world) hasContent(saga uuid.UUID, want ...journal.Blob) {
	w.Helper()
	hashes := [][sha256.Size]byte{blob("a").Hash, blob("b").Hash, blob("c").Hash}
	got, err := NewReader(w.bucket).Blobs(w.Context(), saga, hashes)
	w.must(err)
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		w.Error(d)
	}
}

func TestContent(t *testing.T) {
	w := newWorld(t)
	id := w.ended("~bot", time.Hour, blob("a"), blob("b"), blob("c"))
	w.must(New(w.cfg).Once(t.Context()))
	if e := w.archived(id); e.Blobs != 3 {
		t.Errorf("%+v", e)
	}
	w.hasContent(id, blob("a"), blob("b"), blob("c"))
}

// Content that is erased while its saga is archived is erased in the archive, too.
func TestErased(t *testing.T) {
	for _, op := range []string{"put content/", "get content/", "put sagas/", "get index/"} {
		t.Run(op, func(t *testing.T) {
			w := newWorld(t)
			id := w.ended("~bot", time.Hour, blob("a"), blob("b"))
			verb, prefix, _ := strings.Cut(op, " ")
			began := false
			w.bucket.fail = func(op, key string) error {
				if !began && op == verb && strings.HasPrefix(key, prefix) {
					began = true
					_, err := w.store.EraseBlobs(t.Context(), id)
					w.must(err)
				}
				return nil
			}
			a := New(w.cfg)
			w.must(a.Once(t.Context()))
			w.must(a.Once(t.Context()))
			w.archived(id)
			w.hasContent(id)
			if keys := w.keys("content/"); len(keys) > 0 {
				t.Errorf("left: %v", keys)
			}
		})
	}
}

// Content stays erased if another node archives the saga without it, and deletes the saga, before
// this node has stored what it has read, whatever happens to this node then.
func TestErasedWithTwoAtOnce(t *testing.T) {
	for _, fails := range []string{"", "get content/", "put sagas/", "put index/"} {
		t.Run(fails, func(t *testing.T) {
			w := newWorld(t)
			id := w.ended("~bot", time.Hour, blob("a"))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			began, other := false, false
			w.bucket.fail = func(op, key string) error {
				switch {
				case !began && op == "put" && strings.HasPrefix(key, "content/"):
					began, other = true, true
					_, err := w.store.EraseBlobs(t.Context(), id)
					w.must(err)
					w.must(New(w.cfg).Once(t.Context()))
					other = false
				case began && !other && fails != "" && strings.HasPrefix(op+" "+key, fails):
					stop()
					return context.Canceled
				}
				return nil
			}
			if err := New(w.cfg).Once(ctx); (err != nil) != (fails != "") {
				t.Errorf("Once = %v", err)
			}
			w.archived(id)
			if keys := w.keys("content/"); len(keys) > 0 {
				t.Errorf("left: %v", keys)
			}
		})
	}
}

// A saga that another node deletes while this one reads it has not lost its content.
func TestDeletedWhileRead(t *testing.T) {
	w := newWorld(t)
	id := w.ended("~bot", time.Hour, blob("a"))
	cfg := w.cfg
	cfg.Store = overtaken{w.store, func() { w.must(New(w.cfg).Once(t.Context())) }}
	w.must(New(cfg).Once(t.Context()))
	if e := w.archived(id); e.Blobs != 1 {
		t.Errorf("%+v", e)
	}
	w.hasContent(id, blob("a"))
}

// overtaken is a store on which another node works before blobs are read.
type overtaken struct {
	journal.Store
	other func()
}

func (o overtaken) BlobHashes(ctx context.Context, saga uuid.UUID) ([][sha256.Size]byte, error) {
	o.other()
	return o.Store.BlobHashes(ctx, saga)
}

// The first of the living nodes archives, and the others if it does not for a long time.
func TestTurns(t *testing.T) {
	w := newWorld(t)
	_, err := w.store.Register(t.Context(), "node-0", 10*time.Minute)
	w.must(err)
	one := w.ended("booking", time.Hour)
	a := New(w.cfg)
	w.must(a.Once(t.Context()))
	if !w.inDatabase(one) {
		t.Error("it was not the node's turn")
	}
	w.now = w.now.Add(10 * time.Minute) // the other node's lease has ended
	w.must(a.Once(t.Context()))
	w.archived(one)

	_, err = w.store.Register(t.Context(), "node-00", 1000*time.Hour) // without an archive
	w.must(err)
	two := w.ended("booking", time.Hour)
	w.must(a.Once(t.Context()))
	if !w.inDatabase(two) {
		t.Error("it was not the node's turn")
	}
	w.now = w.now.Add(standIn + time.Second)
	w.must(a.Once(t.Context()))
	w.archived(two)
}

// A saga that is refused is overdue on no node, and counts until it is gone.
func TestTwoNodesRefuse(t *testing.T) {
	w := newWorld(t)
	_, err := w.store.Register(t.Context(), "node-2", 1000*time.Hour)
	w.must(err)
	bad := w.ended("booking", time.Hour)
	w.cfg.Store = tampered{w.store, bad, nil}
	w.now = w.now.Add(time.Hour)
	first := New(w.cfg)
	w.cfg.Node = func() string { return "node-2" }
	second := New(w.cfg)
	once := func(a *Archiver, refused int) {
		t.Helper()
		w.must(a.Once(t.Context()))
		if s := a.Stats(); s.Refused != refused || s.Overdue != 0 {
			t.Errorf("stats %+v, want %d refused", s, refused)
		}
	}
	once(first, 1)
	once(second, 0) // it is not its turn
	w.now = w.now.Add(standIn + time.Second)
	once(second, 1)
	w.now = w.now.Add(tryRefused)
	once(first, 1)
	once(second, 0)
	w.must(w.store.Delete(t.Context(), bad))
	w.now = w.now.Add(tryRefused)
	once(first, 0)
	other := w.ended("booking", time.Hour)
	w.cfg.Store = tampered{w.store, other, nil}
	third := New(w.cfg)
	w.now = w.now.Add(standIn + time.Second)
	once(third, 1)
	w.must(w.store.Delete(t.Context(), other))
	w.now = w.now.Add(tryRefused)
	w.ended("booking", time.Hour)
	once(third, 0)
}

// A saga that is refused still counts while it waits for others before the next try.
func TestRefusedWaits(t *testing.T) {
	w := newWorld(t)
	w.cfg.Wait = 24 * time.Hour
	w.ended("booking", time.Hour)
	w.now = w.now.Add(w.cfg.Wait)
	bad := w.ended("booking", time.Hour)
	w.cfg.Store = tampered{w.store, bad, nil}
	a := New(w.cfg)
	for range 2 {
		w.must(a.Once(t.Context()))
		if s := a.Stats(); s.Refused != 1 || s.Sagas != 1 {
			t.Errorf("stats %+v", s)
		}
		w.now = w.now.Add(tryRefused)
	}
	w.must(w.store.Delete(t.Context(), bad))
	w.must(a.Once(t.Context()))
	if s := a.Stats(); s.Refused != 0 {
		t.Errorf("stats %+v", s)
	}
}

// The others also archive if the node whose turn it is has never archived.
func TestTurnsBeforeTheFirstRun(t *testing.T) {
	w := newWorld(t)
	_, err := w.store.Register(t.Context(), "node-0", 1000*time.Hour) // without an archive
	w.must(err)
	id := w.ended("booking", time.Hour)
	a := New(w.cfg)
	for _, wait := range []time.Duration{0, standIn} {
		w.now = w.now.Add(wait)
		w.must(a.Once(t.Context()))
		if !w.inDatabase(id) {
			t.Fatal("it was not the node's turn")
		}
	}
	w.now = w.now.Add(time.Second)
	w.must(a.Once(t.Context()))
	w.archived(id)
}

func TestOverdue(t *testing.T) {
	w := newWorld(t)
	w.ended("booking", time.Hour)
	w.cfg.Wait = time.Hour
	a := New(w.cfg)
	broken := errors.New("broken")
	w.bucket.fail = func(string, string) error { return broken }
	w.now = w.now.Add(3*time.Hour - time.Second)
	for range 2 {
		err := a.Once(t.Context())
		a.report(t.Context(), err)
	}
	if s := a.Stats(); s.Overdue != 2*time.Hour || s.Failures != 2 {
		t.Errorf("stats %+v", s)
	}
	if got := strings.Count(w.logged.String(), "could not archive"); got != 1 {
		t.Errorf("logged %d times", got)
	}
	w.bucket.fail = nil
	a.report(t.Context(), a.Once(t.Context()))
	if s := a.Stats(); s.Overdue != 0 || !strings.Contains(w.logged.String(), "works again") {
		t.Errorf("stats %+v", s)
	}
}

// A reader finds a saga at once when it has left the database, although it has read the list of
// objects a moment ago.
func TestReaderFindsNewSagas(t *testing.T) {
	w := newWorld(t)
	w.cfg.Wait = 0
	a, r := New(w.cfg), NewReader(w.bucket)
	for range 3 {
		id := w.ended("booking", time.Hour)
		if _, err := r.Find(t.Context(), id); !errors.Is(err, ErrNotFound) {
			t.Errorf("before: %v", err)
		}
		w.must(a.Once(t.Context()))
		if _, err := r.Find(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
}
