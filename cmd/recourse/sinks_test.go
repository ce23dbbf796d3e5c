package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"recourse/internal/cli"
	"recourse/journal"
	"recourse/journal/sqlite"
	"recourse/saga"
)

const whsec = "RECOURSE_SECRET_HOOK=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// An event whose sink was down is delivered, signed, after a restart.
func TestEmittedEventsReachSinks(t *testing.T) {
	t.Parallel()
	came := make(chan http.Header, 10)
	var event struct{ ID, Type, Subject, Source string }
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &event); err != nil {
			t.Error(err)
		}
		came <- r.Header
	}))
	defer sink.Close()
	db := filepath.Join(t.TempDir(), "a.db")
	start := func(url string) *serving {
		config := file(t, "c.yaml", "egress-allow: [127.0.0.1]\nsinks:\n  - {name: audit, url: "+url+", secrets: [HOOK], types: [com.shop.*]}\n")
		return serve(t, []string{whsec}, "--database", db, "--config", config)
	}
	s := start("http://127.0.0.1:1/")
	if r := run(t, s.env, "definitions", "apply", file(t, "w.yaml", "saga: w\nsteps:\n  - {id: a, emit: com.shop.x, to: crm}\n")); r.code != cli.Usage || !strings.Contains(r.errOut, "it has audit") {
		t.Errorf("an unknown sink: exit %d: %s", r.code, r.errOut)
	}
	ok(t, s.env, "definitions", "apply", file(t, "w.yaml", "saga: w\nsteps:\n  - {id: a, set: 1}\nfinally:\n  - {id: b, emit: \"com.shop.${saga.status}\"}\n"))
	id := strings.Fields(ok(t, s.env, "start", "w"))[0]
	waitFor(t, s, id, saga.Succeeded)
	if code := s.stop(); code != cli.OK {
		t.Fatalf("exit %d: %s", code, s.log)
	}
	start(sink.URL)
	select {
	case h := <-came:
		if h.Get("webhook-id") != event.ID || !strings.HasPrefix(h.Get("webhook-signature"), "v1,") || event.Type != "com.shop.succeeded" || event.Subject != id || event.Source != "/recourse/w" {
			t.Errorf("%+v %v", event, h)
		}
	case <-time.After(time.Minute):
		t.Error("the event does not come")
	}
}

// A server that starts catches up with missed times, and accepts events.
func TestTriggersStartSagas(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "a.db")
	store, err := sqlite.Open(t.Context(), db, sqlite.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	src := "saga: w\ntriggers:\n  - {cron: '0 * * * *', timezone: Asia/Tokyo, input: {by: cron}}\n  - {event: com.shop.*, input: {by: '${event.id}'}}\nsteps:\n  - {id: a, set: '${input.by}'}\n"
	sum := sha256.Sum256([]byte(src))
	_, _, err = store.Publish(t.Context(), journal.Document{Kind: journal.Definition, Name: "w", Source: []byte(src), SHA256: hex.EncodeToString(sum[:]), CreatedAt: time.Now().Add(-3 * time.Hour)}, "")
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	s := serve(t, nil, "--database", db)
	resp, err := http.Post(s.url+"/v1/events", "application/cloudevents+json", strings.NewReader(`{"specversion":"1.0","id":"event","source":"/x","type":"com.shop.y"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Errorf("status %d", resp.StatusCode)
	}
	deadline := time.After(time.Minute)
	for {
		out := ok(t, s.env, "list", "--status", "succeeded", "-o", "json")
		if strings.Count(out, `"definition":"w"`) == 2 {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			t.Fatalf("%s\n%s", out, s.log)
		}
	}
}

func TestBadSinks(t *testing.T) {
	t.Parallel()
	for content, says := range map[string]string{
		"{name: a}":                                                          "list of {name, url, secrets, types, notify}",
		"[{name: A, url: https://a.example}]":                                "a sink's name",
		"[{name: a, url: ftp://a.example}]":                                  "url of a",
		"[{name: a, url: https://u:p@a.example}]":                            "no user and password",
		"[{name: a, url: https://a.example, secret: A}]":                     "unknown field",
		"[{name: a, url: https://a.example, secrets: [GONE]}]":               "RECOURSE_SECRET_GONE",
		"[{name: a, url: https://a.example, secrets: [OTHER]}]":              "whsec_",
		"[{name: a, url: https://a.example, types: ['*']}]":                  "types of a",
		"[{name: a, url: https://a.example, types: [recourse.saga.failed]}]": "use `notify`",
		"[{name: a, url: https://a.example, notify: [aproval]}]":             "did you mean \"approval\"",
		"[{name: a, url: https://a.example}, {name: a, url: https://a.com}]": "twice",
	} {
		r := run(t, []string{"RECOURSE_SECRET_OTHER=canary-1"}, "serve", "--database", filepath.Join(t.TempDir(), "a.db"), "--config", file(t, "c.yaml", "sinks: "+content+"\n"))
		if r.code != cli.Usage || !strings.Contains(r.errOut, says) || strings.Contains(r.errOut, "canary-1") {
			t.Errorf("%q: exit %d, want %q: %s", content, r.code, says, r.errOut)
		}
	}
}
