package archive

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// testBucket is the contract of Bucket.
func testBucket(t *testing.T, b Bucket) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"", "/a", "a/", "a//b", "../a", "a/../b", ".a", "a/.b", "a\x00", `a\b`} {
		if err := b.Put(ctx, key, nil); err == nil {
			t.Errorf("the key %q is accepted", key)
		}
		if _, err := b.Get(ctx, key); err == nil || errors.Is(err, ErrNotFound) {
			t.Errorf("the key %q: %v", key, err)
		}
	}
	if _, err := b.Get(ctx, "a/none"); !errors.Is(err, ErrNotFound) {
		t.Errorf("no object: %v", err)
	}
	for _, key := range []string{"a/x/2", "a/x/1", "a/y", "a-b", "b/~action/z", "a/xx/1"} {
		must(b.Put(ctx, key, []byte("of "+key)))
	}
	must(b.Put(ctx, "a/y", []byte("new")))
	must(b.Put(ctx, "empty", nil))
	for key, want := range map[string]string{"a/x/1": "of a/x/1", "a/y": "new", "empty": "", "b/~action/z": "of b/~action/z"} {
		got, err := b.Get(ctx, key)
		must(err)
		if string(got) != want {
			t.Errorf("%s = %q", key, got)
		}
	}
	listed := func(prefix string, want ...string) {
		t.Helper()
		var got []string
		must(b.List(ctx, prefix, func(key string) error {
			got = append(got, key)
			return nil
		}))
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q: %s", prefix, d)
		}
	}
	listed("", "a-b", "a/x/1", "a/x/2", "a/xx/1", "a/y", "b/~action/z", "empty")
	listed("a/", "a/x/1", "a/x/2", "a/xx/1", "a/y")
	listed("a/x", "a/x/1", "a/x/2", "a/xx/1")
	listed("a/x/", "a/x/1", "a/x/2")
	listed("none/")
	enough := errors.New("enough")
	n := 0
	if err := b.List(ctx, "a/", func(string) error { n++; return enough }); !errors.Is(err, enough) || n != 1 {
		t.Errorf("after %d keys: %v", n, err)
	}
	must(b.Delete(ctx, "a/x/1"))
	must(b.Delete(ctx, "none/x/1"))
	must(b.Delete(ctx, "a/x/1"))
	listed("a/x/", "a/x/2")
}

func TestDirectory(t *testing.T) {
	b, err := Open(t.Context(), "file://"+filepath.ToSlash(filepath.Join(t.TempDir(), "new", "archive")))
	if err != nil {
		t.Fatal(err)
	}
	testBucket(t, b)
}

// Files that a process left unfinished are no objects, and are deleted after a day.
func TestUnfinishedFiles(t *testing.T) {
	root := t.TempDir()
	open := func() Bucket {
		t.Helper()
		b, err := Open(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := open()
	young, old := filepath.Join(root, unfinished, "young"), filepath.Join(root, unfinished, "old")
	for _, name := range []string{young, old} {
		if err := os.WriteFile(name, []byte("a part"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(old, time.Time{}, time.Now().Add(-25*time.Hour)); err != nil {
		t.Fatal(err)
	}
	open()
	if _, err := os.Stat(young); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("the old file: %v", err)
	}
	if err := b.List(t.Context(), "", func(key string) error { t.Errorf("listed: %s", key); return nil }); err != nil {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, text := range []string{"", "file://host/path", "file:///path?x=1", "ftp://x/y", "s3:bucket://"} {
		if b, err := Open(t.Context(), text); err == nil {
			t.Errorf("%q is opened as %s", text, b)
		}
	}
}
