package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/examples/world"
	"recourse/internal/cli"
	"recourse/internal/test/buffer"
	"recourse/internal/test/pgserver"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/journal/sqlite"
	"recourse/saga"
)

// A server that stops waits for the attempt in flight, and records its response.
func TestServeDrains(t *testing.T) {
	t.Parallel()
	w, vars := worldFor(t)
	db := filepath.Join(t.TempDir(), "a.db")
	s := serve(t, vars, "--database", db)
	ok(t, s.env, "definitions", "apply", file(t, "hello.yaml", hello))
	if err := w.AddFault(world.Rule{Match: world.Match{PathPrefix: "/air"}, Times: 1, Do: world.Do{DelayMS: 300}}); err != nil {
		t.Fatal(err)
	}
	id := strings.Fields(ok(t, s.env, "start", "hello", "-i", `{"n":1,"city":"LIS"}`))[0]
	if _, err := w.Await(t.Context(), func(l world.Ledger) bool { return len(l.Requests()) == 1 }); err != nil {
		t.Fatal(err)
	}
	if code := s.stop(); code != cli.OK {
		t.Errorf("exit %d:\n%s", code, s.log)
	}
	store, err := sqlite.Open(t.Context(), db, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	records, err := store.Records(t.Context(), uuid.FromStringOrNil(id), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var classes []journal.Class
	for _, r := range records {
		if r.Kind == journal.Outcome {
			classes = append(classes, r.Class)
		}
	}
	if len(classes) != 1 || classes[0] != journal.Succeeded {
		t.Errorf("outcomes: %v", classes)
	}
}

// With a key in the database any address is allowed, and every request needs a key.
func TestServeOnAnOpenAddress(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "a.db")
	secret := strings.TrimSpace(ok(t, nil, "keys", "create", "--database", db, "--role", "admin", "--name", "ops"))
	s := serve(t, nil, "--database", db, "--listen", "0.0.0.0:0")
	s.env[0] = strings.Replace(s.env[0], "0.0.0.0", "127.0.0.1", 1)
	s.env[0] = strings.Replace(s.env[0], "[::]", "127.0.0.1", 1)
	if r := run(t, s.env, "list"); r.code != cli.Forbidden {
		t.Errorf("without a key: exit %d: %s", r.code, r.errOut)
	}
	if r := run(t, append(s.env, "RECOURSE_API_KEY=rk_wrong"), "list"); r.code != cli.Forbidden {
		t.Errorf("with a wrong key: exit %d: %s", r.code, r.errOut)
	}
	ok(t, append(s.env, "RECOURSE_API_KEY="+secret), "list")
}

// If keys exist they are required on a loopback address, too: a proxy on the same machine may
// forward requests from anywhere.
func TestServeOnLoopback(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "a.db")
	const forbidden = cli.Forbidden
	serveAnd := func(want int, says string, args ...string) {
		t.Helper()
		s := serve(t, nil, append([]string{"--database", db}, args...)...)
		defer s.stop()
		if r := run(t, s.env, "list"); r.code != want {
			t.Errorf("without a key: exit %d: %s", r.code, r.errOut)
		}
		if !strings.Contains(s.says, says) {
			t.Errorf("serve says %q, not %q", s.says, says)
		}
	}
	serveAnd(cli.OK, "has no API key")
	gone := keyIn(t, db, "--expires", "1ns")
	serveAnd(forbidden, "are expired")
	secret := keyIn(t, db)
	serveAnd(forbidden, "RECOURSE_API_KEY")
	serveAnd(cli.OK, "--no-auth", "--no-auth")
	s := serve(t, nil, "--database", db)
	ok(t, append(s.env, "RECOURSE_API_KEY="+secret), "list")
	if r := run(t, append(s.env, "RECOURSE_API_KEY="+gone), "list"); r.code != forbidden {
		t.Errorf("with an expired key: exit %d", r.code)
	}
	if r := run(t, nil, "serve", "--database", db, "--listen", "0.0.0.0:0", "--no-auth"); r.code != cli.Usage || !strings.Contains(r.errOut, "--no-auth is for loopback") {
		t.Errorf("open to all: exit %d: %s", r.code, r.errOut)
	}
}

// Clients without a key cannot occupy a connection or memory with a slow or endless body.
func TestServeBoundsBodies(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "a.db")
	secret := keyIn(t, db)
	s := serve(t, nil, "--database", db, "--config", file(t, "c.yaml", "limits: {body-time: 1s, unknown-connections: 50}\n"))
	half := func(path, length, more, body string) (int, error) {
		t.Helper()
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"+more+"Content-Length: "+length+"\r\n\r\n"+body)
		}()
		r := bufio.NewReader(c)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return 0, err
		}
		if _, err = io.Copy(io.Discard, r); errors.Is(err, syscall.ECONNRESET) { // what was sent is not read
			err = nil
		}
		return resp.StatusCode, err // nil: the server has closed the connection
	}
	for _, tt := range []struct {
		path, length, more, body string
		status                   int
	}{
		{"/v1/sagas", "1000", "", "{", 401},                                      // not read at all
		{"/sign-in", "10000000", "", "key=" + strings.Repeat("x", 100_000), 400}, // too long
		// Half of the body comes in the time for it.
		{"/v1/sagas", "1000", "Authorization: Bearer " + secret + "\r\n", `{"definition":`, 400},
	} {
		if status, err := half(tt.path, tt.length, tt.more, tt.body); status != tt.status || err != nil {
			t.Errorf("%s of %s bytes: %d, %v; want %d and the connection's end", tt.path, tt.length, status, err, tt.status)
		}
	}
	// There are more connections than allowed, each with half a header; clients with a key are
	// served.
	for range 60 {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "POST /v1/sagas HTTP/1.1\r\nHos"); err != nil {
			t.Fatal(err)
		}
	}
	ok(t, append(s.env, "RECOURSE_API_KEY="+secret), "list")
}

// keyIn creates a key of the role admin.
func keyIn(t *testing.T, db string, more ...string) string {
	t.Helper()
	return strings.TrimSpace(ok(t, nil, append([]string{"keys", "create", "--database", db, "--role", "admin", "--name", "ops"}, more...)...))
}

// An expired key does not allow an open address.
func TestServeCountsKeysThatWork(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "a.db")
	ok(t, nil, "keys", "create", "--database", db, "--role", "admin", "--name", "ops", "--expires", "1ns")
	r := run(t, nil, "serve", "--database", db, "--listen", "0.0.0.0:0")
	if r.code != cli.Usage || !strings.Contains(r.errOut, "no API key") {
		t.Errorf("exit %d: %s", r.code, r.errOut)
	}
}

func TestServeIsReady(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"))
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json", "/"} {
		if status := s.status(t, http.MethodGet, path); status != http.StatusOK {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// A saga is kept after its end for the time in its definition, by default for the server's.
func TestServeRetention(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	db := filepath.Join(t.TempDir(), "a.db")
	src := "saga: NAME\nsteps: [{id: a, set: 1}]\n"
	want := make(map[string]time.Duration) // by saga; 0: forever
	start := func(s *serving, name, retention string, keep time.Duration) {
		ok(t, s.env, "definitions", "apply", file(t, name+".yaml", strings.ReplaceAll(src, "NAME", name)+retention))
		want[strings.Fields(ok(t, s.env, "start", name, "--wait", "10s"))[0]] = keep
	}
	s := serve(t, nil, "--database", db)
	start(s, "plain", "", 30*day)
	start(s, "own", "retention: 90d\n", 90*day)
	start(s, "kept", "retention: forever\n", 0)
	s.stop()
	s = serve(t, []string{"RECOURSE_RETENTION=12h"}, "--database", db)
	start(s, "plain", "", 12*time.Hour)
	s.stop()
	s = serve(t, []string{"RECOURSE_RETENTION=12h"}, "--database", db, "--retention", "forever")
	start(s, "plain", "", 0)
	start(s, "own", "retention: 90d\n", 90*day)
	s.stop()
	if len(want) != 6 {
		t.Fatalf("%d sagas", len(want))
	}
	store, err := sqlite.Open(t.Context(), db, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for id, keep := range want {
		h, err := store.Saga(t.Context(), uuid.FromStringOrNil(id))
		switch {
		case err != nil:
			t.Fatal(err)
		case keep == 0 && !h.DeleteAt.IsZero(), keep > 0 && h.DeleteAt.Sub(h.EndedAt) != keep:
			t.Errorf("%s ended at %v and is to be deleted at %v, not after %v", h.Definition, h.EndedAt, h.DeleteAt, keep)
		}
	}
}

// The commands that a saga accepts while it waits for a timer.
func TestPauseResumeCancel(t *testing.T) {
	t.Parallel()
	w, vars := worldFor(t)
	s := serve(t, vars, "--database", filepath.Join(t.TempDir(), "a.db"))
	ok(t, s.env, "definitions", "apply", file(t, "slow.yaml", slow))
	id := strings.Fields(ok(t, s.env, "start", "slow"))[0]
	waitFor(t, s, id, saga.Waiting)
	for _, tt := range []struct{ order, want string }{{"pause", "paused"}, {"resume", "waiting"}} {
		if out := ok(t, s.env, tt.order, id, "--reason", "test"); !strings.Contains(out, tt.want) {
			t.Errorf("%s: %s", tt.order, out)
		}
	}
	ok(t, s.env, "cancel", id, "--reason", "enough")
	waitFor(t, s, id, saga.Compensated)
	if net := w.Balance().Net(); net != 0 {
		t.Errorf("%d effects remain", net)
	}
	out := ok(t, s.env, "retry", id, "--reason", "after all")
	if again := strings.Fields(out)[0]; again == id {
		t.Errorf("an ended saga was retried in place: %s", out)
	}
	if r := run(t, s.env, "start", "slow", "--wait", "1ms"); r.code != cli.Failed || !strings.Contains(r.errOut, "has not ended") {
		t.Errorf("a saga that does not end in time: exit %d: %s", r.code, r.errOut)
	}
}

// A program that is interrupted while it waits for a server ends.
func TestFollowInterrupted(t *testing.T) {
	t.Parallel()
	_, vars := worldFor(t)
	s := serve(t, vars, "--database", filepath.Join(t.TempDir(), "a.db"))
	ok(t, s.env, "definitions", "apply", file(t, "slow.yaml", slow))
	id := strings.Fields(ok(t, s.env, "start", "slow"))[0]
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &lineWriter{text: "sleeps until", seen: make(chan struct{})}
	m := Main{Args: []string{"journal", id, "--follow"}, Env: s.env, Stdin: strings.NewReader(""), Stdout: out, Stderr: &buffer.Buffer{}}
	code := make(chan int, 1)
	go func() { code <- m.Run(ctx) }()
	<-out.seen
	interrupt()
	if got := <-code; got != cli.Failed {
		t.Errorf("exit %d", got)
	}
}

// A state directory belongs to one process at a time, whichever database it serves, and to the next
// process afterwards.
func TestServeStateDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	state, other := filepath.Join(dir, "state"), filepath.Join(dir, "b.db")
	s := serve(t, nil, "--database", filepath.Join(dir, "a.db"), "--state-dir", state)
	r := run(t, []string{"RECOURSE_STATE_DIR=" + state}, "serve", "--listen", "127.0.0.1:0", "--database", other)
	if r.code != cli.Conflict || !strings.Contains(r.errOut, state) || !strings.Contains(r.errOut, "stop the other process first, or name another directory") {
		t.Errorf("a second server: exit %d: %s", r.code, r.errOut)
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("the second server has made its database")
	}
	if code := s.stop(); code != cli.OK {
		t.Errorf("exit %d:\n%s", code, s.log)
	}
	s = serve(t, nil, "--database", other, "--state-dir", state)
	ok(t, s.env, "definitions", "apply", file(t, "a.yaml", "saga: a\nsteps: [{id: a, set: 1}]\n"))
	ok(t, s.env, "start", "a", "--wait", "10s")
	r = run(t, nil, "serve", "--listen", "127.0.0.1:0", "--database", filepath.Join(dir, "c.db"), "--state-dir", other)
	if r.code != cli.Usage || !strings.Contains(r.errOut, "name a directory") {
		t.Errorf("a file for a state directory: exit %d: %s", r.code, r.errOut)
	}
}

// A node that has just started refuses an old primary that its state directory knows, until an
// operator allows it.
func TestServeRemembersItsDatabase(t *testing.T) {
	t.Parallel()
	dsn, state := pgserver.DSN(t), filepath.Join(t.TempDir(), "state")
	args := []string{"--database", dsn, "--state-dir", state}
	if code := serve(t, nil, args...).stop(); code != cli.OK {
		t.Fatalf("exit %d", code)
	}
	known := filepath.Join(state, "database")
	text, err := os.ReadFile(known)
	if err != nil {
		t.Fatal(err)
	}
	var at struct {
		System   string `json:"system"`
		Timeline int64  `json:"timeline"`
	}
	if err := json.Unmarshal(text, &at); err != nil || at.System == "" || at.Timeline == 0 {
		t.Fatalf("%s says %s, %v", known, text, err)
	}
	at.Timeline++ // as if another server had been promoted
	if text, err = json.Marshal(at); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(known, text, 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, nil, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	if r.code != cli.Failed || !strings.Contains(r.errOut, "pg_rewind") || !strings.Contains(r.errOut, "remove "+known) || strings.Contains(r.errOut, "refuses the login") {
		t.Errorf("an old primary: exit %d: %s", r.code, r.errOut)
	}
	if err := os.Remove(known); err != nil {
		t.Fatal(err)
	}
	if code := serve(t, nil, args...).stop(); code != cli.OK {
		t.Errorf("on purpose: exit %d", code)
	}
}

// All expired replies are deleted each minute, however many there are.
func TestServeSweeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Config{})
		for i := range 2*sweepPage + 1 {
			if _, _, err := store.Begin(t.Context(), strconv.Itoa(i), "f", time.Second); err != nil {
				t.Fatal(err)
			}
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute+time.Second)
		defer stop()
		(&node{store: store}).sweep(ctx)
		if n, err := store.Sweep(t.Context(), sweepPage); n > 0 || err != nil {
			t.Errorf("%d replies were left, %v", n, err)
		}
	})
}
