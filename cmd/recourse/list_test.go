package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"recourse/internal/cli"
	"recourse/saga"
	"recourse/saga/machine"
)

// --after and --before become times that the server compares with.
func TestListByTime(t *testing.T) {
	t.Parallel()
	var asked url.Values
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query()
		w.Write([]byte(`{"data":[]}`))
	}))
	t.Cleanup(s.Close)
	env := []string{"RECOURSE_SERVER=" + s.URL}
	ok(t, env, "list", "--after", "2026-11-20T10:00:00+02:00", "--before", "2h")
	if got := asked.Get("started_after"); got != "2026-11-20T08:00:00Z" {
		t.Errorf("after: %s", got)
	}
	before, err := time.Parse(time.RFC3339Nano, asked.Get("started_before"))
	if ago := time.Since(before); err != nil || ago < 2*time.Hour || ago > 2*time.Hour+time.Minute {
		t.Errorf("before: %s, %v", asked.Get("started_before"), err)
	}
	ok(t, env, "list")
	if asked.Has("started_after") || asked.Has("started_before") {
		t.Errorf("asked for %v", asked)
	}
	if r := run(t, env, "list", "--after", "yesterday"); r.code != cli.Usage || !strings.Contains(r.errOut, "--after yesterday") {
		t.Errorf("exit %d: %s", r.code, r.errOut)
	}
}

// A search continues automatically, and says where it stopped if it did not scan everything.
func TestListGoesOn(t *testing.T) {
	t.Parallel()
	endless, asked := false, 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked++; {
		case endless || asked < 3:
			fmt.Fprintf(w, `{"data":[],"next_cursor":"c%d","looked_back_to":"2026-11-20T07:12:03.112Z"}`, asked)
		default:
			if want := "c2"; r.URL.Query().Get("cursor") != want {
				t.Errorf("cursor %s, want %s", r.URL.Query().Get("cursor"), want)
			}
			w.Write([]byte(`{"data":[{"id":"01a20416-b269-771d-8ab3-998c750e7dfb","definition":"buy","version":"v1","status":"succeeded","labels":{},"cost":{}}]}`))
		}
	}))
	t.Cleanup(s.Close)
	env := []string{"RECOURSE_SERVER=" + s.URL}
	if r := run(t, env, "list", "-q", "1005"); r.code != cli.OK || !strings.Contains(r.out, "01a20416-b269") || r.errOut != "" {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.errOut)
	}
	for _, form := range []string{"text", "json"} {
		endless, asked = true, 0
		r := run(t, env, "list", "-q", "1005", "-o", form)
		if r.code != cli.OK || asked != 200 || !strings.Contains(r.errOut, "add --before 2026-11-20T07:12:03.113Z") {
			t.Errorf("exit %d after %d requests: %s%s", r.code, asked, r.out, r.errOut)
		}
	}
}

// Commands accept abbreviated ids, and keep using the saga that the id named first.
func TestSagaByTheBeginningOfItsID(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"))
	ok(t, s.env, "definitions", "apply", file(t, "c.yaml", "saga: asks\nsteps: [{id: sure, approval: {title: Sure?}}]\n"))
	id := strings.Fields(ok(t, s.env, "start", "asks"))[0]
	waitFor(t, s, id, saga.Waiting)
	short := id[:16]
	for _, args := range [][]string{{"show", short}, {"show", short, "--steps"}, {"journal", short}, {"inbox", "--saga", short}, {"pause", short}, {"resume", short},
		{"approve", short, "sure", "--yes"}, {"journal", short, "--follow"}, {"show", short, "--follow"}} {
		ok(t, s.env, args...)
	}
	waitFor(t, s, id, saga.Succeeded)
	if r := run(t, s.env, "cancel", "ffffffff"); r.code == cli.OK || !strings.Contains(r.errOut, "no saga's id begins with ffffffff") {
		t.Errorf("exit %d: %s", r.code, r.errOut)
	}
	for { // until two sagas start in the same minute
		other := strings.Fields(ok(t, s.env, "start", "asks"))[0]
		if other[:8] == id[:8] {
			if r := run(t, s.env, "cancel", id[:8]); r.code == cli.OK || !strings.Contains(r.errOut, id) || !strings.Contains(r.errOut, other) {
				t.Errorf("exit %d: %s", r.code, r.errOut)
			}
			return
		}
		id = other
	}
}

// Every command with JSON output also has YAML output, with the same digits.
func TestYAMLOutput(t *testing.T) {
	t.Parallel()
	_, vars := worldFor(t)
	db := filepath.Join(t.TempDir(), "a.db")
	s := serve(t, vars, "--database", db)
	def := file(t, "hello.yaml", hello)
	ok(t, s.env, "definitions", "apply", def)
	input := `{"n":9007199254740993,"city":"1e3"}`
	id := strings.Fields(ok(t, s.env, "start", "hello", "-i", input, "--wait", "10s"))[0]
	for _, args := range [][]string{
		{"list"}, {"show", id}, {"inbox"}, {"definitions", "list"}, {"definitions", "apply", def}, {"journal", id}, {"start", "hello", "-i", input, "--wait", "10s"},
		{"validate", def}, {"version"}, {"migrate", "status", "--database", db}, {"keys", "list", "--database", db}, {"verify", "--database", db},
		{"doctor", "--database", db}, {"run", def, "-i", input}, {"plan", def, "-i", input, "--stub", `book={"id": 1.10}`},
	} {
		r := run(t, append(vars, s.env...), append(args, "-o", "yaml")...)
		if r.code != cli.OK {
			t.Errorf("%v: exit %d: %s", args, r.code, r.errOut)
		}
		for doc := range strings.SplitSeq(strings.TrimPrefix(r.out, "---\n"), "---\n") {
			var v any
			if err := yaml.Load([]byte(doc), &v); err != nil || json.Valid([]byte(doc)) && strings.TrimSpace(doc) != "[]" {
				t.Errorf("%v: %v: not YAML, or JSON: %s", args, err, doc)
			}
		}
		if strings.Contains(r.out, "9007199254740992") || strings.Contains(r.out, "city: 1e3\n") {
			t.Errorf("%v: a number, or what looks like one, was changed: %s", args, r.out)
		}
	}
	if out := ok(t, s.env, "show", id, "-o", "yaml"); !strings.Contains(out, "\"n\": 9007199254740993\n") || !strings.Contains(out, "city: \"1e3\"\n") {
		t.Errorf("show: %s", out)
	}
}

// show prints what a saga waits for.
func TestShowSaysWhatIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"))
	ok(t, s.env, "definitions", "apply", file(t, "c.yaml", "saga: asks\nsteps: [{id: sure, approval: {title: Sure?}}]\n"))
	ok(t, s.env, "definitions", "apply", file(t, "p.yaml", "saga: waits\nsteps:\n  - id: all\n    parallel:\n      - {id: cook, task: kitchen.cook}\n      - {id: child, run: asks}\n      - {id: paid, signal: com.shop.paid, timeout: 2h}\n      - {id: night, sleep: 3d}\n"))
	id := strings.Fields(ok(t, s.env, "start", "waits"))[0]
	waitFor(t, s, id, saga.Waiting)
	var list []machine.View
	// The child starts after its parent has started to wait.
	for deadline := time.Now().Add(time.Minute); len(list) == 0; {
		if err := json.Unmarshal([]byte(ok(t, s.env, "list", "-d", "asks", "-o", "json")), &list); err != nil || time.Now().After(deadline) {
			t.Fatalf("%v, %v", list, err)
		}
	}
	waitFor(t, s, list[0].ID, saga.Waiting)
	out := ok(t, s.env, "show", id)
	for _, want := range []string{"cook waits for a worker of type kitchen.cook\n", "child waits for saga " + list[0].ID + "\n", "paid waits for signal com.shop.paid, for 2 h more\n", "night continues in 3 days\n"} {
		if !strings.Contains(out, "\n"+want) {
			t.Errorf("%q is not said: %s", want, out)
		}
	}
	out = ok(t, s.env, "show", list[0].ID)
	if !strings.Contains(out, "\nsure waits for approval\n") || !strings.Contains(out, "recourse inbox --saga") {
		t.Errorf("the child: %s", out)
	}
}
