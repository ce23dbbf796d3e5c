package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recourse/internal/cli"
	"recourse/internal/cli/config"
	"recourse/internal/test/pgserver"
)

// says asserts that a line of a report has a mark, a check and a text.
func says(t *testing.T, report, mark, check, text string) {
	t.Helper()
	for line := range strings.SplitSeq(report, "\n") {
		if strings.HasPrefix(line, mark+" "+check+" ") && strings.Contains(line, text) {
			return
		}
	}
	t.Errorf("no line %q for %s with %q in\n%s", mark, check, text, report)
}

// A correct configuration with a running server has no findings.
func TestDoctorFindsNothing(t *testing.T) {
	t.Parallel()
	provider := providerOf(t, "sk-right")
	sink := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(sink.Close)
	db := filepath.Join(t.TempDir(), "a.db")
	env := []string{"RECOURSE_SECRET_PAY_KEY=verysecretvalue", "RECOURSE_SECRET_HOOK=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", config.VarPrefix + "pay=https://pay.example"}
	s := serve(t, env, "--database", db)
	ok(t, s.env, "definitions", "apply", file(t, "d.yaml", "saga: pays\nsecrets: [PAY_KEY]\nsteps:\n  - {id: a, http: \"GET ${vars.pay}/\", headers: {Authorization: \"Bearer ${secrets.PAY_KEY}\"}}\n"))
	config := file(t, "c.yaml", "egress-allow: [127.0.0.1]\nsinks:\n  - {name: audit, url: \""+sink.URL+"/events\", secrets: [HOOK]}\nllm: {providers: [{name: ours, base_url: \""+provider+"/v1\", api_key: sk-right}]}\n")
	env = append(env, "OTEL_EXPORTER_OTLP_ENDPOINT="+sink.URL)
	out := ok(t, env, "doctor", "--config", config, "--database", db, "--server", s.url)
	report := strings.NewReplacer(config, "c.yaml", db, "a.db").Replace(out)
	for line := range strings.SplitSeq(strings.TrimSpace(report), "\n") {
		if !strings.HasPrefix(line, "✓ ") && !strings.HasPrefix(line, "! disk") {
			t.Errorf("%s", line)
		}
	}
	says(t, report, "✓", "models ours", "accepts the key")
	says(t, report, "✓", "sink audit", "is there")
	says(t, report, "✓", "definitions", "1 definition")
	says(t, report, "✓", "server", "is ready")
	says(t, report, "✓", "traces", "is there")
	for _, secret := range []string{"verysecretvalue", "whsec_", "sk-right"} {
		if strings.Contains(out, secret) {
			t.Errorf("a secret is shown: %s", out)
		}
	}
	if out := ok(t, env, "doctor", "--config", config, "--database", db, "-o", "json"); !strings.HasPrefix(out, `{"ok":true,"checks":[{"check":"config","result":"ok"`) {
		t.Errorf("as JSON: %s", out)
	}
}

// providerOf returns a provider of models that accepts one key.
func providerOf(t *testing.T, key string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/v1/models":
			w.WriteHeader(http.StatusNotFound)
		case r.Header.Get("Authorization") != "Bearer "+key:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// Each mistake is found and reported with advice, and never with a secret.
func TestDoctorFinds(t *testing.T) {
	t.Parallel()
	provider := providerOf(t, "sk-right")
	dir := t.TempDir()
	db := filepath.Join(dir, "a.db")
	s := serve(t, nil, "--database", db)
	ok(t, s.env, "definitions", "apply", file(t, "d.yaml", "saga: pays\nsecrets: [PAY_KEY]\nsteps:\n  - {id: a, http: \"GET https://pay.example/\", headers: {Authorization: \"Bearer ${secrets.PAY_KEY}\"}}\n"))
	ok(t, nil, "keys", "create", "--database", db, "--role", "viewer", "--name", "soon", "--expires", "30h")
	ok(t, nil, "keys", "create", "--database", db, "--role", "viewer", "--name", "gone", "--expires", "1ns")
	junk := file(t, "junk.db", strings.Repeat("this is no database ", 100))
	llmFile := func(base, key string) string {
		return file(t, "l.yaml", "egress-allow: [127.0.0.1]\nllm: {providers: [{name: ours, base_url: \""+base+"\", api_key: "+key+"}]}\n")
	}
	tests := []struct {
		name              string
		env, args         []string
		code              int
		mark, check, text string
	}{
		{"no config", nil, []string{"--config", filepath.Join(dir, "none.yaml")}, cli.Failed, "✗", "config", "no such file"},
		{"unknown setting", nil, []string{"--config", file(t, "u.yaml", "listenx: 1\n")}, cli.Failed, "✗", "config", `did you mean "listen"?`},
		{"bad lease", nil, []string{"--node-lease", "1ms"}, cli.Failed, "✗", "config", "--node-lease"},
		{"secret that is none", []string{"RECOURSE_SECRET_a=sk-wrong"}, nil, cli.Failed, "✗", "secrets", "capital letters"},
		{"empty secret", []string{"RECOURSE_SECRET_A="}, nil, cli.Failed, "✗", "secrets", "not provided"},
		{"secret-hosts", nil, []string{"--config", file(t, "h.yaml", "secret-hosts: {PAY_KEY: [\"https://pay.example/\"]}\n")}, cli.Failed, "✗", "secret-hosts", "no URL"},
		{"secret-hosts of none", nil, []string{"--config", file(t, "h.yaml", "secret-hosts: {PAYKEY: [pay.example]}\n")}, cli.Failed, "!", "secret-hosts", "PAYKEY"},
		{"bad vars", nil, []string{"--vars", junk}, cli.Failed, "✗", "vars", "--vars"},
		{"metadata addresses", nil, []string{"--egress-allow", "169.254.169.254"}, cli.Failed, "✗", "egress", "always denied"},
		{"stand-ins", []string{"RECOURSE_SECRET_PAY_KEY=x"}, []string{"--resolve", "a.example:443=127.0.0.1:1"}, cli.OK, "!", "egress", "for tests"},
		{"no directory", nil, []string{"--database", filepath.Join(dir, "no", "a.db")}, cli.Failed, "✗", "database", "does not exist"},
		{"no database yet", nil, []string{"--database", filepath.Join(dir, "new.db")}, cli.OK, "!", "database", "serve makes it"},
		{"no SQLite file", nil, []string{"--database", junk}, cli.Failed, "✗", "database", "not a SQLite file"},
		{"PostgreSQL is down", nil, []string{"--database", "postgres://u:sk-wrong@127.0.0.1:1/d"}, cli.Failed, "✗", "database", "cannot be reached"},
		{"open without keys", nil, []string{"--database", migrated(t), "--listen", ":8080"}, cli.Failed, "✗", "keys", "recourse keys create"},
		{"key that ends", nil, nil, cli.Failed, "!", "keys", "expires in 30 h"},
		{"key that has ended", nil, nil, cli.Failed, "!", "keys", "has expired"},
		{"secret that is missing", nil, nil, cli.Failed, "✗", "definitions", "pays v1: secret PAY_KEY is not provided: set RECOURSE_SECRET_PAY_KEY"},
		{"sink away", nil, []string{"--egress-allow", "127.0.0.1", "--config", file(t, "s.yaml", "sinks: [{name: audit, url: \"http://127.0.0.1:1/\"}]\n")}, cli.Failed, "✗", "sink audit", "cannot be reached"},
		{"sink out of bounds", nil, []string{"--config", file(t, "s.yaml", "sinks: [{name: audit, url: \"http://127.0.0.1:1/\"}]\n")}, cli.Failed, "✗", "sink audit", "--egress-allow"},
		{"sink unsigned", nil, []string{"--egress-allow", "127.0.0.1", "--config", file(t, "s.yaml", "sinks: [{name: audit, url: \""+provider+"\"}]\n")}, cli.Failed, "!", "sink audit", "not signed"},
		{"sink's secret missing", nil, []string{"--config", file(t, "s.yaml", "sinks: [{name: audit, url: \"https://a.example/\", secrets: [NONE]}]\n")}, cli.Failed, "✗", "sinks", "NONE"},
		{"models refuse the key", nil, []string{"--config", llmFile(provider+"/v1", "sk-wrong")}, cli.Failed, "✗", "models ours", "refuses the key"},
		{"models elsewhere", nil, []string{"--config", llmFile(provider+"/v2", "sk-wrong")}, cli.Failed, "!", "models ours", "base URL"},
		{"models away", nil, []string{"--config", llmFile("http://127.0.0.1:1/v1", "sk-wrong")}, cli.Failed, "✗", "models ours", "cannot be reached"},
		{"server away", nil, []string{"--server", "http://127.0.0.1:1"}, cli.Failed, "✗", "server", "recourse serve"},
		{"traces nowhere", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1"}, nil, cli.Failed, "✗", "traces", "cannot be reached"},
		{"traces nowhere by the flag", nil, []string{"--otlp-endpoint", "http://127.0.0.1:1"}, cli.Failed, "✗", "traces", "--otlp-endpoint: cannot be reached"},
		{"traces without a scheme", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=localhost"}, nil, cli.Failed, "✗", "traces", "4318"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := run(t, tt.env, append([]string{"doctor", "--database", db}, tt.args...)...)
			if r.code != tt.code {
				t.Errorf("exit %d, not %d: %s%s", r.code, tt.code, r.out, r.errOut)
			}
			says(t, r.out, tt.mark, tt.check, tt.text)
			if strings.Contains(r.out+r.errOut, "sk-wrong") {
				t.Errorf("a secret is shown: %s%s", r.out, r.errOut)
			}
		})
	}
}

// migrated returns an empty database.
func migrated(t *testing.T) string {
	t.Helper()
	db := filepath.Join(t.TempDir(), "empty.db")
	ok(t, nil, "migrate", "up", "--database", db)
	return db
}

// The settings of PostgreSQL and the state of the schema are checked.
func TestDoctorOnPostgres(t *testing.T) {
	t.Parallel()
	dsn := pgserver.DSN(t)
	r := run(t, nil, "doctor", "--database", dsn+"&options=-c%20synchronous_commit%3Doff")
	says(t, r.out, "!", "database", "synchronous_commit is off")
	says(t, r.out, "!", "schema", "recourse migrate up")
	ok(t, nil, "migrate", "up", "--database", dsn)
	r = run(t, nil, "doctor", "--database", dsn)
	says(t, r.out, "✓", "database", "takes writes")
	says(t, r.out, "✓", "clock", "agree")
	says(t, r.out, "✓", "replication", "there is no standby")
	if strings.Contains(r.out, "pooler") {
		t.Errorf("there is no pooler:\n%s", r.out)
	}
	for mode, option := range map[string]string{"session": "", "transaction": "&default_query_exec_mode=exec"} {
		r := run(t, nil, "doctor", "--database", pgserver.Bouncer(t, dsn, mode)+option)
		says(t, r.out, "✓", "pooler", "for pool_mode="+mode)
	}
}

// A file is checked without opening it as a database.
func TestDoctorOnFiles(t *testing.T) {
	t.Parallel()
	db := migrated(t)
	raw, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	raw[18], raw[19] = 1, 1 // a rollback journal
	old := file(t, "old.db", string(raw))
	says(t, run(t, nil, "doctor", "--database", old).out, "!", "database", "no write-ahead log")
	says(t, ok(t, nil, "doctor", "--database", file(t, "empty.db", "")), "!", "database", "is empty")
}
