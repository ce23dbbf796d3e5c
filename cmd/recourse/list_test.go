package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"recourse/saga"
)

// --after and --before become times that the server compares with.
func TestListByTime(t *testing.T) {
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
	if r := run(t, env, "list", "--after", "yesterday"); r.code != exitUsage || !strings.Contains(r.errOut, "--after yesterday") {
		t.Errorf("exit %d: %s", r.code, r.errOut)
	}
}

// Every command that prints for machines does so as YAML, too, with the same digits.
func TestYAMLOutput(t *testing.T) {
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
		if r.code != exitOK {
			t.Errorf("%v: exit %d: %s", args, r.code, r.errOut)
		}
		for _, doc := range strings.Split(strings.TrimPrefix(r.out, "---\n"), "---\n") {
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

// show says what a saga waits for.
func TestShowSaysWhatIsWaitedFor(t *testing.T) {
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"))
	ok(t, s.env, "definitions", "apply", file(t, "c.yaml", "saga: asks\nsteps: [{id: sure, approval: {title: Sure?}}]\n"))
	ok(t, s.env, "definitions", "apply", file(t, "p.yaml", "saga: waits\nsteps:\n  - id: all\n    parallel:\n      - {id: cook, task: kitchen.cook}\n      - {id: child, run: asks}\n      - {id: paid, signal: com.shop.paid, timeout: 2h}\n      - {id: night, sleep: 3d}\n"))
	id := strings.Fields(ok(t, s.env, "start", "waits"))[0]
	waitFor(t, s, id, saga.Waiting)
	var list []saga.View
	for deadline := time.Now().Add(20 * time.Second); len(list) == 0; { // the child starts after its parent has begun to wait
		if err := json.Unmarshal([]byte(ok(t, s.env, "list", "-d", "asks", "-o", "json")), &list); err != nil || time.Now().After(deadline) {
			t.Fatalf("%v, %v", list, err)
		}
	}
	waitFor(t, s, list[0].ID, saga.Waiting)
	out := ok(t, s.env, "show", id)
	for _, want := range []string{"cook waits for a worker of type kitchen.cook\n", "child waits for saga " + list[0].ID + "\n", "paid waits for signal com.shop.paid, for 2 h more\n", "night goes on in 3 days\n"} {
		if !strings.Contains(out, "\n"+want) {
			t.Errorf("%q is not said: %s", want, out)
		}
	}
	out = ok(t, s.env, "show", list[0].ID)
	if !strings.Contains(out, "\nsure waits for approval\n") || !strings.Contains(out, "recourse inbox --saga") {
		t.Errorf("the child: %s", out)
	}
}
