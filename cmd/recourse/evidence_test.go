package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/cli"
	"recourse/internal/cli/database"
	"recourse/internal/cli/verify"
	"recourse/internal/test/pgserver"
	"recourse/journal"
)

const amounts = `saga: amounts
input: {amount: string}
retention: 1h
steps:
  - {id: note, set: {amount: "${input.amount}"}}
output: ${steps.note.output.amount}
`

// keyPair writes a key and its public part, as openssl does.
func keyPair(t *testing.T) (private, public string) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return file(t, "anchors.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))),
		file(t, "anchors.pub", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: shared})))
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { evident(t, "sqlite", filepath.Join(t.TempDir(), "a.db")) })
	t.Run("postgres", func(t *testing.T) { evident(t, "pgx", pgserver.DSN(t)) })
}

// evident runs two sagas while anchors are signed, and changes the database in ways that only the
// anchors show.
func evident(t *testing.T, driver, db string) {
	private, public := keyPair(t)
	anchors := filepath.Join(t.TempDir(), "anchors.ndjson")
	came := make(chan []byte, 100)
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		came <- body
	}))
	defer sink.Close()
	config := file(t, "c.yaml", "evidence: {key-file: "+private+", every: 1s, file: "+anchors+"}\nsinks:\n  - {name: worm, url: "+sink.URL+", notify: [anchor]}\n")
	s := serve(t, nil, "--database", db, "--config", config)
	ok(t, s.env, "definitions", "apply", file(t, "amounts.yaml", amounts))
	id := strings.Fields(ok(t, s.env, "start", "amounts", "-i", `{"amount":"10.50"}`, "--wait", "10s"))[0]
	var sent bytes.Buffer
	for deadline := time.After(time.Minute); !strings.Contains(sent.String(), id); {
		select {
		case body := <-came:
			sent.Write(append(body, '\n'))
		case <-deadline:
			t.Fatalf("no anchor of the saga reaches the sink: %s", s.log)
		}
	}
	other := strings.Fields(ok(t, s.env, "start", "amounts", "-i", `{"amount":"7.25"}`, "--wait", "10s"))[0]
	s.stop()

	check := func(t *testing.T, file string, want ...int) verify.Verdict {
		t.Helper()
		v, r := verdictOf(t, "--database", db, "--anchors", file, "--anchors-key", public)
		wants(t, v, r, want...)
		return v
	}
	if v := check(t, anchors); v.Anchors.Whole != 2 || v.Anchors.Unsigned+v.Anchors.Partly != 0 {
		t.Errorf("what the file has: %+v", v.Anchors)
	}
	if v := check(t, file(t, "sent.ndjson", sent.String())); v.Anchors.Whole != 1 || v.Anchors.Unsigned != 1 {
		t.Errorf("what the sink got: %+v", v.Anchors)
	}
	text, err := os.ReadFile(anchors)
	if err != nil {
		t.Fatal(err)
	}
	_, cut, _ := strings.Cut(string(text), "\n")
	check(t, file(t, "gap.ndjson", cut), 30)
	// The forged one is not valid, and the true one is missing.
	check(t, file(t, "forged.ndjson", strings.Replace(string(text), " ", " 9", 1)), 30, 30)
	_, foreign := keyPair(t)
	if v, r := verdictOf(t, "--database", db, "--anchors", anchors, "--anchors-key", foreign); r.code != cli.Failed || !strings.Contains(v.Violations[0].Text, "not one that you trust") {
		t.Errorf("with another key: exit %d: %s", r.code, r.out)
	}

	records := len(rewrite(t, driver, db, id, func(list []journal.Record) []journal.Record {
		for i := range list {
			list[i].Data = bytes.ReplaceAll(list[i].Data, []byte("10.50"), []byte("99.50"))
		}
		return list
	}))
	v, r := verdictOf(t, "--database", db)
	wants(t, v, r) // without anchors nothing is wrong
	if v := check(t, anchors, 30); v.Violations[0].Saga != id || v.Violations[0].Seq != 1 || !strings.Contains(v.Violations[0].Text, "changed after it was anchored at 20") {
		t.Errorf("rewritten: %+v", v.Violations)
	}
	rewrite(t, driver, db, id, func(list []journal.Record) []journal.Record {
		for i := range list {
			list[i].Data = bytes.ReplaceAll(list[i].Data, []byte("99.50"), []byte("10.50"))
		}
		return list
	})
	check(t, anchors)
	rewrite(t, driver, db, id, func(list []journal.Record) []journal.Record { return list[:records-1] })
	v, r = verdictOf(t, "--database", db, "--anchors", anchors, "--anchors-key", public)
	wants(t, v, r, 12, 30) // the row of a saga that had ended does not match either
	alter(t, driver, db, `DELETE FROM journal`)
	alter(t, driver, db, `DELETE FROM sagas`)
	v, r = verdictOf(t, "--database", db)
	wants(t, v, r)
	if v := check(t, anchors, 30, 30); v.Violations[1].Saga != other && v.Violations[0].Saga != other || !strings.Contains(v.Violations[0].Text, "it is gone") {
		t.Errorf("deleted: %+v", v.Violations)
	}
}

// rewrite changes the journal of a saga that has ended, and makes its hash chain whole again. It
// returns the new records.
func rewrite(t *testing.T, driver, db, id string, change func([]journal.Record) []journal.Record) []journal.Record {
	t.Helper()
	store, err := database.Open(t.Context(), db, false)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	saga := uuid.FromStringOrNil(id)
	head, err := store.Saga(t.Context(), saga)
	if err != nil {
		t.Fatal(err)
	}
	list, err := store.Records(t.Context(), saga, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	list = change(list)
	var prev []byte
	for i := range list {
		journal.Seal(saga, prev, &list[i])
		prev = list[i].Hash
	}
	where := " = '" + id + "'"
	if driver == "sqlite" {
		where = " = x'" + strings.ReplaceAll(id, "-", "") + "'"
	}
	alter(t, driver, db, `DELETE FROM journal WHERE saga_id`+where)
	alter(t, driver, db, `DELETE FROM sagas WHERE id`+where)
	node := uuid.Must(uuid.NewV7()).String()
	if _, err := store.Register(t.Context(), node, time.Minute); err != nil {
		t.Fatal(err)
	}
	results, err := store.Append(t.Context(), node, []journal.Append{{Saga: saga, Start: &head.Start, Records: list, Row: &head.Row, Release: true}})
	if err != nil || results[0].Err != nil {
		t.Fatalf("%v %+v", err, results)
	}
	if err := store.Release(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestEvidenceConfig(t *testing.T) {
	t.Parallel()
	private, public := keyPair(t)
	for name, tt := range map[string]struct{ config, want string }{
		"no key":       {"evidence: {file: /tmp/x}", "name the key that signs anchors"},
		"two keys":     {"evidence: {key: A, key-file: " + private + ", file: /tmp/x}", "either as key"},
		"a public key": {"evidence: {key-file: " + public + ", file: /tmp/x}", "openssl genpkey"},
		"no file":      {"evidence: {key-file: /nonexistent/key, file: /tmp/x}", "/nonexistent/key"},
		"no secret":    {"evidence: {key: ANCHOR_KEY, file: /tmp/x}", "RECOURSE_SECRET_ANCHOR_KEY"},
		"nowhere":      {"evidence: {key-file: " + private + "}", "notify: [anchor]"},
		"no directory": {"evidence: {key-file: " + private + ", file: /nonexistent/a}", "no directory /nonexistent"},
		"no time":      {"evidence: {key-file: " + private + ", file: /tmp/x, every: never}", "from 1s to 1h"},
		"unknown":      {"evidence: {sign: true}", "write such as {key: ANCHOR_KEY"},
		"no evidence":  {"sinks: [{name: a, url: \"https://a.example\", notify: [anchor]}]", "no key to sign them"},
	} {
		if r := run(t, nil, "serve", "--database", filepath.Join(t.TempDir(), "a.db"), "--config", file(t, "c.yaml", tt.config)); r.code != cli.Usage || !strings.Contains(r.errOut, tt.want) {
			t.Errorf("%s: exit %d: %s", name, r.code, r.errOut)
		}
	}
	for _, args := range [][]string{{"--anchors", private}, {"--anchors-key", public}, {"--anchors", private, "--anchors-key", private}, {"--anchors", "/nonexistent", "--anchors-key", public}, {"--anchors", private, "--anchors-key", public}} {
		if r := run(t, nil, append([]string{"verify", "--database", "a.db"}, args...)...); r.code != cli.Usage {
			t.Errorf("verify %v: exit %d: %s", args, r.code, r.errOut)
		}
	}
}
