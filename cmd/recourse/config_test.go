package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"recourse/internal/cli"
	"recourse/saga"
)

// A flag takes precedence over its variable, the variable over the config file, and the file over
// the default.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// The directory does not exist, and the error names it.
	of := func(name string) string { return filepath.Join(dir, name, "x.db") }
	config := file(t, "c.yaml", "database: "+of("file")+"\negress-allow: [10.0.0.0/8, pay.internal]\nstrict: true\n")
	env := []string{"RECOURSE_DATABASE=" + of("env"), "RECOURSE_CONFIG=" + config}
	tests := []struct {
		env  []string
		args []string
		want string
	}{
		{env, []string{"--database", of("flag")}, of("flag")},
		{env, nil, of("env")},
		{env[1:], nil, of("file")},
		{nil, []string{"--config", config}, of("file")},
		{nil, []string{"--config=" + config}, of("file")},
	}
	for _, tt := range tests {
		r := run(t, tt.env, append([]string{"serve"}, tt.args...)...)
		if r.code != cli.Usage || !strings.Contains(r.errOut, tt.want) {
			t.Errorf("%v %v: want %s, got exit %d: %s", tt.env, tt.args, tt.want, r.code, r.errOut)
		}
	}
}

func TestConfigFileReachesTheServer(t *testing.T) {
	t.Parallel()
	config := file(t, "c.yaml", "database: "+filepath.Join(t.TempDir(), "a.db")+"\nstrict: true\nlog-format: json\nnode-lease: 3s\n")
	s := serve(t, nil, "--config", config)
	r := run(t, s.env, "definitions", "apply", file(t, "w.yaml", "saga: w\nsteps:\n  - {id: a, http: POST https://x.example/y, body: {}}\n"))
	if r.code != cli.Usage || !strings.Contains(r.errOut, "blind-retry") {
		t.Errorf("strict was not heeded: exit %d: %s", r.code, r.errOut)
	}
	if line, _, _ := strings.Cut(s.log.String(), "\n"); !json.Valid([]byte(line)) {
		t.Errorf("the log is not JSON: %s", line)
	}
}

func TestBadConfigFiles(t *testing.T) {
	t.Parallel()
	for content, says := range map[string]string{
		"a: [":                                 "config file",
		"- a":                                  "config file",
		"listen: {a: 1}":                       "listen",
		"egress-allow: [1]":                    "list of texts",
		"while-stdin: true":                    "no setting",
		"sink: []":                             "recourse: config file",
		"retension: 1d":                        "did you mean \"retention\"",
		"node-lease: soon":                     "node-lease",
		"listen: a\nlisten: b\n":               "config file",
		"config: other.yaml":                   "no setting",
		"drain: 0.5":                           "drain",
		"retention: 90":                        "retention: a duration needs a unit",
		"retention: 1s":                        "retention: the shortest retention is 1m",
		"log-level: loud":                      "log-level",
		"database: [a.db, \"b,\"]":             "list of texts",
		"limits: {reads: 1}":                   "unknown field",
		"limits: {body-time: 1ms}":             "at least 1s",
		"limits: {requests: {per-second: -1}}": "at least 0.00001",
		"limits: {keys: {a: {per-second: 1e-99}}}": "keys: a: write per-second",
		"limits: {keys: {crm: {burst: 5}}}":        "keys: crm",
		"limits: {unknown-connections: -1}":        "at least 1",
		"secret-hosts: [a]":                        "PAY_KEY: [pay.example]",
		"secret-hosts: {A: a}":                     "PAY_KEY: [pay.example]",
		"secret-hosts: {a: [b]}":                   "capital letters",
		"mcp_oauth: [a]":                           "mcp_oauth: write such as",
		"mcp_oauth: {url: a}":                      "unknown field",
		"mcp_oauth: {}":                            "write all of issuer, audience and jwks_url",
		"mcp_oauth: {issuer: \"http://id.example\", audience: a, jwks_url: \"https://id.example/jwks\"}": "with https",
		"secret-hosts: {A: [b/c]}": `secret-hosts: A: "b/c": write a host name`,
	} {
		r := run(t, nil, "serve", "--config", file(t, "c.yaml", content))
		if r.code != cli.Usage || !strings.Contains(r.errOut, says) {
			t.Errorf("%q: exit %d, want %q: %s", content, r.code, says, r.errOut)
		}
	}
}

// A definition that sends a secret to another host than its own does not get the secret: the step
// waits for a person.
func TestSecretsStayWithTheirHosts(t *testing.T) {
	t.Parallel()
	var came atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { came.Add(1) }))
	defer other.Close()
	s := serve(t, []string{"RECOURSE_SECRET_PAY_KEY=canary-7f3a9c51"}, "--database", filepath.Join(t.TempDir(), "a.db"),
		"--config", file(t, "c.yaml", "egress-allow: [127.0.0.1]\nsecret-hosts: {PAY_KEY: [pay.example]}\n"))
	ok(t, s.env, "definitions", "apply", file(t, "d.yaml", "saga: leaks\nsecrets: [PAY_KEY]\nsteps:\n  - {id: a, http: \"POST "+other.URL+"/\", headers: {Authorization: \"Bearer ${secrets.PAY_KEY}\"}}\n"))
	id := strings.Fields(ok(t, s.env, "start", "leaks"))[0]
	waitFor(t, s, id, saga.Stuck)
	if out := ok(t, s.env, "inbox"); !strings.Contains(out, "PAY_KEY does not go to 127.0.0.1") {
		t.Errorf("inbox:\n%s", out)
	}
	if came.Load() != 0 {
		t.Error("a request left")
	}
}

// A secret is sent to the remote service, and appears neither in the log nor in the journal nor in
// the output.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	const canary = "canary-7f3a9c51"
	seen := make(chan string, 8)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, `{"you sent": %q}`, r.Header.Get("Authorization"))
	}))
	t.Cleanup(other.Close)
	def := file(t, "s.yaml", "saga: s\nsecrets: [TOKEN]\nsteps:\n  - id: a\n    http: POST "+other.URL+"/x\n    auth: ${secrets.TOKEN}\n    body: {}\n    in_doubt: ask\n    compensate: none\n")
	s := serve(t, []string{"RECOURSE_SECRET_TOKEN=" + canary}, "--database", filepath.Join(t.TempDir(), "a.db"), "--log-level", "debug")
	ok(t, s.env, "definitions", "apply", def)
	r := run(t, s.env, "start", "s", "--wait", "10s", "-o", "json")
	if got := <-seen; got != "Bearer "+canary {
		t.Errorf("the provider got %q", got)
	}
	var v struct{ ID string }
	if err := json.Unmarshal([]byte(r.out), &v); err != nil {
		t.Fatalf("%v: %s", err, r.errOut)
	}
	all := r.out + r.errOut + ok(t, s.env, "journal", v.ID, "-o", "json") + ok(t, s.env, "show", v.ID) + s.log.String()
	if strings.Contains(all, canary) {
		t.Errorf("the secret is in\n%s", all)
	}
}
