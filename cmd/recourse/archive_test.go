package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"recourse/internal/archive"
	"recourse/internal/cli"
	"recourse/internal/test/buffer"
	"recourse/internal/test/pgserver"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/machine"
)

// old makes a database think that the retention of all sagas that have ended is over.
const old = `UPDATE sagas SET delete_at = 1 WHERE ended_at IS NOT NULL`

// emptied waits until a server has archived n sagas.
func emptied(t *testing.T, s *serving, n string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; <-time.After(10 * time.Millisecond) {
		if strings.Contains(ok(t, s.env, "list", "--status", "succeeded,compensated,failed", "-o", "json"), "[]") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s sagas are not archived: %s", n, s.log)
		}
	}
}

func objects(t *testing.T, dir, below string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, below), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return names
}

func TestArchive(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { archives(t, "sqlite", filepath.Join(t.TempDir(), "a.db")) })
	t.Run("postgres", func(t *testing.T) { archives(t, "pgx", pgserver.DSN(t)) })
}

// archives lets the ended saga of a database go to an archive, and checks that verify notices harm.
func archives(t *testing.T, driver, db string) {
	s := filled(t, db)
	id := strings.Fields(ok(t, s.env, "list", "--status", "succeeded"))[6]
	exported := ok(t, s.env, "journal", id, "-o", "json")
	s.stop()
	alter(t, driver, db, old)
	dir := filepath.Join(t.TempDir(), "archive")
	s = serve(t, nil, "--database", db, "--archive", dir, "--archive-wait", "0s")
	emptied(t, s, "1")
	parts := objects(t, dir, "sagas")
	if len(parts) != 1 || !strings.Contains(parts[0], "/sagas/"+time.Now().UTC().Format("2006-01-02")+"/hello/") || len(objects(t, dir, "index")) != 1 {
		t.Fatalf("objects: %v", objects(t, dir, ""))
	}
	v, r := verdictOf(t, "--archive", dir, "--database", db)
	wants(t, v, r)
	if v.Sagas != 3 || v.Replayed != 3 || v.Archived != 1 || v.Unfinished != 0 {
		t.Errorf("database and archive: %s", r.out)
	}
	v, r = verdictOf(t, "--archive", dir)
	wants(t, v, r)
	if v.Sagas != 1 || v.Replayed != 0 || v.Archived != 1 {
		t.Errorf("archive: %s", r.out)
	}
	starts := file(t, "starts.json", `{"id":"`+id+`"}`)
	v, r = verdictOf(t, "--archive", dir, "--database", db, "--starts", starts)
	wants(t, v, r)
	v, r = verdictOf(t, "--database", db, "--starts", starts)
	wants(t, v, r, 1)
	shows(t, s, id, exported)
	// An object is what journal prints, so verify reads it as any file.
	v, r = verdictOf(t, parts[0])
	wants(t, v, r)
	if v.Sagas != 1 || v.Records != strings.Count(exported, "\n") {
		t.Errorf("one object: %s, exported:\n%s", r.out, exported)
	}
	s.stop()

	for _, tt := range []struct {
		name string
		harm func(part, index string)
		want []int
	}{
		{"an object is cut off", func(part, _ string) { cut(t, part) }, []int{2}},
		{"an object is missing", func(part, _ string) { remove(t, part) }, []int{2}},
		{"an index is missing", func(_, index string) { remove(t, index) }, []int{2}},
		{"an index is cut off", func(_, index string) { cut(t, index) }, []int{2}},
		{"another file", func(part, _ string) { copyTo(t, part, part+"x") }, []int{2}},
		{"a copy of an archiver that crashed", func(part, _ string) {
			copyTo(t, part, filepath.Join(filepath.Dir(part), "0193a000-0000-7000-8000-000000000001.ndjson.zst"))
		}, nil},
		{"an unfinished file", func(string, string) { copyTo(t, parts[0], filepath.Join(dir, ".unfinished", "1")) }, nil},
	} {
		broken := filepath.Join(t.TempDir(), "archive")
		if err := os.CopyFS(broken, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		tt.harm(objects(t, broken, "sagas")[0], objects(t, broken, "index")[0])
		v, r := verdictOf(t, "--archive", broken, "--database", db)
		t.Run(tt.name, func(t *testing.T) { wants(t, v, r, tt.want...) })
	}
	remove(t, parts[0])
	s = serve(t, nil, "--database", db, "--archive", dir)
	for _, path := range []string{"", "/journal", "/steps"} {
		if got := s.status(t, http.MethodGet, "/v1/sagas/"+id+path); got != http.StatusServiceUnavailable {
			t.Errorf("GET %s without the object: %d", path, got)
		}
	}
}

// A saga that an archiver which crashed has left in the database is found there, also if its
// journal cannot be read.
func TestVerifyUnfinishedArchive(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "a.db")
	filled(t, db).stop()
	alter(t, "sqlite", db, old)
	before := filepath.Join(t.TempDir(), "b.db")
	copyTo(t, db, before)
	dir := filepath.Join(t.TempDir(), "archive")
	s := serve(t, nil, "--database", db, "--archive", dir, "--archive-wait", "0s")
	emptied(t, s, "1")
	s.stop()
	remove(t, objects(t, dir, "index")[0])
	v, r := verdictOf(t, "--archive", dir, "--database", before)
	wants(t, v, r)
	alter(t, "sqlite", before, `UPDATE journal SET data = substr(data, 1, 20) WHERE seq = 1 AND saga_id IN (SELECT id FROM sagas WHERE status = 'succeeded')`)
	v, r = verdictOf(t, "--archive", dir, "--database", before)
	wants(t, v, r, 2)
	if v.Sagas != 3 || v.Unfinished != 1 {
		t.Errorf("it says %s", r.out)
	}
}

// shows checks how a server shows an archived saga.
func shows(t *testing.T, s *serving, id, exported string) {
	t.Helper()
	for _, name := range []string{id, id[:30]} {
		if out := ok(t, s.env, "show", name); !strings.Contains(out, "archived") || !strings.Contains(out, "in sagas/") || !strings.Contains(out, "book") {
			t.Errorf("show:\n%s", out)
		}
	}
	var v machine.View
	if err := json.Unmarshal([]byte(ok(t, s.env, "show", id, "-o", "json")), &v); err != nil || v.Archived == nil || v.Archived.At.IsZero() || v.Status != saga.Succeeded || v.Cost.Spent == "" {
		t.Errorf("%v: %+v", err, v)
	}
	if got := ok(t, s.env, "journal", id, "-o", "json"); got != exported {
		t.Errorf("journal:\n%swant\n%s", got, exported)
	}
	if got := ok(t, s.env, "journal", id, "-o", "json", "--follow"); got != exported {
		t.Errorf("journal --follow:\n%swant\n%s", got, exported)
	}
	if out := ok(t, s.env, "show", id, "--steps"); !strings.Contains(out, "book") {
		t.Errorf("steps:\n%s", out)
	}
	for _, args := range [][]string{{"cancel", id}, {"pause", id}, {"retry", id, "--reason", "r"}} {
		if r := run(t, s.env, args...); r.code != cli.Conflict || !strings.Contains(r.errOut, "is in the archive since") {
			t.Errorf("%v: exit %d: %s%s", args, r.code, r.out, r.errOut)
		}
	}
	for path, want := range map[string]int{"/v1/sagas/" + id + "/steps/book": 200, "/v1/sagas/" + id + "/steps/none": 404, "/v1/sessions/" + id: 409, "/sagas/" + id: 200, "/sagas/" + id + "/journal": 200,
		"/v1/sagas/" + other: 404, "/v1/sagas/" + other + "/journal": 404} {
		if got := s.status(t, http.MethodGet, path); got != want {
			t.Errorf("GET %s: %d, want %d", path, got, want)
		}
	}
	if got := s.status(t, http.MethodDelete, "/v1/sagas/"+id); got != http.StatusConflict {
		t.Errorf("DELETE: %d", got)
	}
}

func cut(t *testing.T, name string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, data[:len(data)-5], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A server without the archive of its database deletes nothing, unless it is told to.
func TestServerWithoutTheArchive(t *testing.T) {
	t.Parallel()
	store := memory.New(memory.Config{})
	log := &buffer.Buffer{}
	keeps := func(o nodeOptions, want bool) {
		t.Helper()
		o.Store, o.Log = store, slog.New(slog.NewTextHandler(log, nil))
		archived := (&node{}).archived(o)
		for range 2 {
			if got, err := archived(t.Context()); got != want || err != nil {
				t.Errorf("keeps expired sagas: %v, %v; want %v", got, err, want)
			}
		}
	}
	bucket, err := archive.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	keeps(nodeOptions{}, false)
	keeps(nodeOptions{Archive: bucket}, true)
	a := archive.New(archive.Config{Store: store, Bucket: bucket, Now: time.Now, Node: func() string { return "n" }})
	if err := a.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	if log.String() != "" {
		t.Errorf("logged: %s", log)
	}
	keeps(nodeOptions{}, true)
	if got := strings.Count(log.String(), "was started without it"); got != 1 {
		t.Errorf("logged %d times", got)
	}
	keeps(nodeOptions{NoArchive: true}, false)
}

func TestArchiveFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--archive", "ftp://x/y"}, {"--archive", "file://host/x"}, {"--archive-wait", "-1s"}, {"--archive", "/dev/null/x"}} {
		if r := run(t, nil, append([]string{"serve", "--listen", "127.0.0.1:0", "--database", filepath.Join(t.TempDir(), "a.db")}, args...)...); r.code != cli.Usage || !strings.Contains(r.errOut, "--archive") {
			t.Errorf("%v: exit %d: %s", args, r.code, r.errOut)
		}
	}
}
