package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"

	"recourse/examples/world"
	"recourse/internal/cli"
	"recourse/internal/cli/remote"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

const hello = `saga: hello
input: {n: integer, city: string}
steps:
  - id: book
    http: POST ${vars.air}/bookings
    body: {route: "${input.city}", n: "${input.n}"}
    in_doubt: ask
    compensate: {http: "DELETE ${vars.air}/bookings/${output.id}"}
output: {id: "${steps.book.output.id}", n: "${input.n}"}
`

// A saga's whole life on a server, in the output of the commands.
func TestCommandsAgainstAServer(t *testing.T) {
	t.Parallel()
	w, vars := worldFor(t)
	s := serve(t, vars, "--database", filepath.Join(t.TempDir(), "a.db"))
	def := file(t, "hello.yaml", hello)
	var transcript strings.Builder
	step := func(want int, args ...string) result {
		t.Helper()
		r := run(t, s.env, args...)
		shown := strings.ReplaceAll(strings.Join(args, " "), def, "hello.yaml")
		out := strings.ReplaceAll(r.out+r.errOut, def, "hello.yaml")
		transcript.WriteString("$ recourse " + shown + "\n" + out)
		if r.code != want {
			t.Errorf("recourse %s: exit %d, not %d: %s", shown, r.code, want, r.errOut)
		}
		if r.code != 0 {
			transcript.WriteString("(exit " + string(rune('0'+r.code)) + ")\n")
		}
		transcript.WriteString("\n")
		return r
	}
	step(cli.OK, "definitions", "apply", def)
	step(cli.OK, "definitions", "apply", def)
	step(cli.OK, "definitions", "list")
	step(cli.OK, "start", "hello", "--input", `{"n":9007199254740993,"city":"LIS"}`, "--label", "team=a", "--wait", "10s")
	step(cli.Usage, "start", "hello", "--input", `{"n":1}`)
	step(cli.NotFound, "start", "helo")
	if err := w.AddFault(world.Rule{Match: world.Match{PathPrefix: "/air"}, Times: 1, Do: world.Do{After: world.FaultDrop}}); err != nil {
		t.Fatal(err)
	}
	id := strings.Fields(step(cli.OK, "start", "hello", "--input", `{"n":1,"city":"OSL"}`).out)[0]
	waitFor(t, s, id, saga.Stuck)
	step(cli.OK, "inbox")
	step(cli.Conflict, "resume", id)
	step(cli.Conflict, "resolve", id, "book", "--outcome", "succeeded", "--reason", "looked", "--if-seq", "1")
	step(cli.OK, "resolve", id, "book", "--outcome", "succeeded", "--set-output", `{"id":"bk_2"}`, "--reason", "looked")
	waitFor(t, s, id, saga.Succeeded)
	step(cli.OK, "inbox")
	step(cli.OK, "show", id)
	step(cli.OK, "show", id, "--steps")
	step(cli.OK, "journal", id, "--follow")
	step(cli.OK, "list")
	step(cli.OK, "list", "--label", "team=a", "--status", "succeeded")
	step(cli.Conflict, "cancel", id)
	step(cli.Conflict, "retry", id, "--reason", "again")
	step(cli.NotFound, "show", "019aa5d0-0000-7000-8000-000000000001")
	checkGolden(t, "server", transcript.String())
	if code := s.stop(); code != cli.OK {
		t.Errorf("serve ended with %d:\n%s", code, s.log)
	}
}

// waitFor waits, through the API, until a saga has the status.
func waitFor(t *testing.T, s *serving, id string, want saga.Status) machine.View {
	t.Helper()
	cl, err := remote.ServerFlags{Server: s.url}.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return waitWith(t, cl, id, want)
}

func waitWith(t *testing.T, cl *remote.Client, id string, want saga.Status) machine.View {
	t.Helper()
	etag, prefer := "", ""
	for {
		var v machine.View
		r, err := cl.Do(remote.Call{Method: "GET", Path: remote.SagaPath(id), Header: map[string]string{"If-None-Match": etag, "Prefer": prefer}})
		if err != nil {
			t.Fatal(err)
		}
		if r.Status == 200 {
			if err := r.Into(&v); err != nil {
				t.Fatal(err)
			}
			if v.Status == want {
				return v
			}
			if v.Status.Terminal() {
				t.Fatalf("the saga ended as %s, not %s", v.Status, want)
			}
		}
		etag, prefer = r.Header.Get("ETag"), "wait=10" // until it changes
	}
}

// Numbers are printed unchanged, and an exported journal verifies.
func TestJSONOutputIsExact(t *testing.T) {
	t.Parallel()
	_, vars := worldFor(t)
	s := serve(t, vars, "--database", filepath.Join(t.TempDir(), "a.db"))
	def := file(t, "hello.yaml", hello)
	ok(t, s.env, "definitions", "apply", def)
	out := ok(t, s.env, "start", "hello", "-i", `{"n":9007199254740993,"city":"LIS"}`, "--wait", "10s", "-o", "json")
	if !strings.Contains(out, `"n":9007199254740993`) {
		t.Errorf("the number was changed: %s", out)
	}
	var v machine.View
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"list"}, {"show", v.ID}, {"inbox"}, {"definitions", "list"}} {
		if out := ok(t, s.env, append(args, "-o", "json")...); !json.Valid([]byte(out)) {
			t.Errorf("%v: not JSON: %s", args, out)
		}
	}
	journal := ok(t, s.env, "journal", v.ID, "-o", "json")
	exported := file(t, "j.ndjson", journal)
	if out := ok(t, nil, "verify", exported, "--definition", def); !strings.Contains(out, "no violations") {
		t.Errorf("verify says %s", out)
	}
	broken := file(t, "b.ndjson", strings.Replace(journal, "LIS", "OSL", 1))
	if r := run(t, nil, "verify", broken); r.code != cli.Failed || !strings.Contains(r.out, "record 1 does not match its hash") {
		t.Errorf("verify of a changed journal: exit %d: %s%s", r.code, r.out, r.errOut)
	}
}

func TestStartWithAKeyIsOneSaga(t *testing.T) {
	t.Parallel()
	_, vars := worldFor(t)
	s := serve(t, vars, "--database", filepath.Join(t.TempDir(), "a.db"))
	ok(t, s.env, "definitions", "apply", file(t, "hello.yaml", hello))
	args := []string{"start", "hello", "-i", `{"n":1,"city":"LIS"}`, "--key", "order-7"}
	first, second := strings.Fields(ok(t, s.env, args...))[0], strings.Fields(ok(t, s.env, args...))[0]
	if first != second {
		t.Errorf("the same start twice gave %s and %s", first, second)
	}
	args[3] = `{"n":2,"city":"LIS"}`
	if r := run(t, s.env, args...); r.code != cli.Usage {
		t.Errorf("another start under the same key: exit %d: %s", r.code, r.errOut)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "a.db")
	s := serve(t, nil, "--database", db)
	env := []string{"RECOURSE_DATABASE=" + db}
	secret := strings.TrimSpace(ok(t, env, "keys", "create", "--role", "viewer", "--name", "dashboard"))
	viewer := append(slices.Clip(s.env), "RECOURSE_API_KEY="+secret)
	ok(t, viewer, "list")
	if r := run(t, viewer, "definitions", "apply", file(t, "hello.yaml", strings.ReplaceAll(hello, "${vars.air}", "https://air.example"))); r.code != cli.Forbidden {
		t.Errorf("a viewer publishes: exit %d: %s", r.code, r.errOut)
	}
	checkGolden(t, "keys", ok(t, env, "keys", "list"))
	var list []keyView
	if err := json.Unmarshal([]byte(ok(t, env, "keys", "list", "-o", "json")), &list); err != nil || len(list) != 1 {
		t.Fatalf("keys: %v, %v", list, err)
	}
	for text, want := range map[string]string{list[0].ID[:7]: "first 8 characters", "dashboard": "first 8 characters"} {
		if r := run(t, env, "keys", "revoke", text); r.code != cli.Usage || !strings.Contains(r.errOut, want) {
			t.Errorf("revoke %s: exit %d: %s", text, r.code, r.errOut)
		}
	}
	ok(t, viewer, "list")
	if out := ok(t, env, "keys", "revoke", list[0].ID[:13]); out != list[0].ID+" (dashboard) revoked\n" {
		t.Errorf("%q", out)
	}
	if r := run(t, viewer, "list"); r.code != cli.Forbidden {
		t.Errorf("a revoked key: exit %d: %s", r.code, r.errOut)
	}
	if r := run(t, env, "keys", "revoke", list[0].ID); r.code != cli.NotFound {
		t.Errorf("revoked twice: exit %d: %s", r.code, r.errOut)
	}
}

// An abbreviated id stands for a key only if it is unique.
func TestKeyNamed(t *testing.T) {
	t.Parallel()
	key := func(id string) journal.APIKey {
		return journal.APIKey{ID: uuid.FromStringOrNil(id), Name: "of " + id[9:13]}
	}
	keys := []journal.APIKey{key("019aa5d0-0000-7000-8000-000000000001"), key("019aa5d0-0001-7000-8000-000000000002"), key("019bb5d0-0002-7000-8000-000000000003")}
	for text, want := range map[string]string{
		"019bb5d0":                              "of 0002",
		"019AA5D0-0001":                         "of 0001",
		"019aa5d0-0000-7000-8000-000000000001":  "of 0000",
		"019aa5d0":                              "write more of the id",
		"019cc5d0":                              "there is no key",
		"019bb5d":                               "first 8 characters",
		"":                                      "first 8 characters",
		"019aa5d0-0000-7000-8000-000000000001x": "first 8 characters",
	} {
		k, err := keyNamed(slices.Clone(keys), text)
		if got := k.Name + fmt.Sprint(err); !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// A file of starts gets what single starts would get, and can be given again. Lines beyond what the
// server takes at once are sent again.
func TestStartBatch(t *testing.T) {
	t.Parallel()
	_, vars := worldFor(t)
	s := serve(t, vars, "--database", filepath.Join(t.TempDir(), "a.db"))
	ok(t, s.env, "definitions", "apply", file(t, "hello.yaml", hello))
	var lines strings.Builder
	for i := range 1500 { // two requests
		fmt.Fprintf(&lines, `{"input":{"n":%d,"city":"LIS"}}`+"\n", i)
	}
	lines.WriteString("\n" + `{"idempotency_key":"other","definition":"helo"}` + "\n{\n" + `{"idempotency_key":"own","input":{"n":1,"city":"OSL"}}`)
	name := file(t, "starts.ndjson", lines.String())
	args := []string{"start", "hello", "--batch", name, "--key", "import"}
	r := run(t, s.env, args...)
	out := strings.Split(strings.TrimSpace(r.out), "\n")
	if r.code != cli.Failed || len(out) != 1501 || !strings.HasSuffix(out[0], "  import-1") || !strings.HasSuffix(out[1500], "  own") ||
		!strings.Contains(r.errOut, "line 1502: There is no such definition") || !strings.Contains(r.errOut, "line 1503: The body is not strict JSON") || !strings.Contains(r.errOut, "1501 started, 0 started before, 2 refused") {
		t.Fatalf("exit %d: %d lines, %s", r.code, len(out), r.errOut)
	}
	again := run(t, s.env, append(args, "-o", "json")...)
	results := strings.Split(strings.TrimSpace(again.out), "\n")
	var last struct {
		Line, Status int
		ID           string
	}
	if err := json.Unmarshal([]byte(results[len(results)-1]), &last); err != nil || len(results) != 1503 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	if !strings.HasPrefix(out[1500], last.ID) || last.Status != 200 || last.Line != 1504 || !strings.Contains(again.errOut, "0 started, 1501 started before, 2 refused") {
		t.Errorf("again %+v, %s", last, again.errOut)
	}
	for _, wrong := range [][]string{{"start"}, {"start", "hello", "--batch", name, "-i", "{}"}, {"start", "hello", "--batch", name + ".none"}} {
		if r := run(t, s.env, wrong...); r.code != cli.Usage {
			t.Errorf("%v: exit %d: %s", wrong, r.code, r.errOut)
		}
	}
}

// While the server is at its limits, the lines that it refuses are sent again.
func TestStartBatchIsPatient(t *testing.T) {
	t.Parallel()
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch asked++; {
		case asked == 1:
			fmt.Fprint(w, `{"index":0,"idempotency_key":"a","status":201,"id":"0193"}`+"\n"+`{"index":1,"idempotency_key":"b","status":429,"retry_after":1,"error":{"title":"busy"}}`+"\n")
		case strings.Contains(string(body), `"a"`):
			t.Errorf("sent again: %s", body)
		default:
			fmt.Fprint(w, `{"index":0,"idempotency_key":"b","status":201,"id":"0194"}`+"\n")
		}
	}))
	t.Cleanup(s.Close)
	r := run(t, []string{"RECOURSE_SERVER=" + s.URL}, "start", "--batch", file(t, "s.ndjson", `{"idempotency_key":"a"}`+"\n"+`{"idempotency_key":"b"}`))
	if r.code != 0 || r.out != "0193  a\n0194  b\n" || asked != 2 {
		t.Errorf("exit %d after %d requests: %s%s", r.code, asked, r.out, r.errOut)
	}
}
