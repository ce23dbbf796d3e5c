package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"recourse/internal/cli"
)

// Warnings of publishing come from the server: it knows the prices of its models, and the command
// line does not.
func TestApplyWarnsAsTheServer(t *testing.T) {
	t.Parallel()
	config := file(t, "c.yaml", "llm:\n  prices: {small: {input: 1, output: 2}}\n")
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"), "--config", config)
	def := file(t, "d.yaml", "saga: reads\nbudget: 1.00 USD\nsteps:\n  - {id: a, llm: {model: small, prompt: hello}}\n  - {id: b, llm: {model: other, prompt: hello}}\n")
	r := run(t, s.env, "definitions", "apply", def)
	if r.code != 0 || !strings.Contains(r.errOut, def+":5:") || !strings.Contains(r.errOut, `no price of "other" is configured`) || strings.Contains(r.errOut, `"small"`) {
		t.Errorf("exit %d: %s", r.code, r.errOut)
	}
	if again := run(t, s.env, "definitions", "apply", def); !strings.Contains(again.out, "unchanged") || again.errOut != r.errOut {
		t.Errorf("published again: %s%s", again.out, again.errOut)
	}
}

// A definition and an action with a secret that the server does not have are published with a
// warning at the line that names the secret. Such an action's sessions are refused, and say why.
func TestApplyWarnsOfMissingSecrets(t *testing.T) {
	t.Parallel()
	s := serve(t, []string{"RECOURSE_SECRET_HAVE=x"}, "--database", filepath.Join(t.TempDir(), "a.db"))
	def := file(t, "d.yaml", "saga: paid\nsecrets: [HAVE, DEF_KEY]\nsteps:\n  - {id: a, set: 1}\n")
	act := file(t, "a.yaml", "action: charge\nagents: auto\nsecrets:\n  - HAVE\n  - ACT_KEY\nhttp: GET https://pay.example/\n")
	r := run(t, s.env, "definitions", "apply", def, act)
	for _, want := range []string{def + ":2:17: warning: missing-secret: ", "RECOURSE_SECRET_DEF_KEY", act + ":5:5: warning: missing-secret: ", "RECOURSE_SECRET_ACT_KEY"} {
		if !strings.Contains(r.errOut, want) {
			t.Errorf("apply does not say %s: %s", want, r.errOut)
		}
	}
	if r.code != cli.OK || strings.Count(r.errOut, "missing-secret") != 2 {
		t.Errorf("apply: exit %d, want 0 and two warnings: %s", r.code, r.errOut)
	}
	if r := run(t, s.env, "agent", "run", "--actions", "charge", "--", "true"); r.code != cli.Usage || !strings.Contains(r.errOut, "RECOURSE_SECRET_ACT_KEY") {
		t.Errorf("agent run: exit %d: %s", r.code, r.errOut)
	}
}

// Types are checked before anything is published: against actions and definitions in the same
// directory, and those of the server.
func TestApplyTypes(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"))
	dir := t.TempDir()
	put := func(name, src string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kid := func(input string) string {
		return "saga: kid\ninput: {" + input + "}\nsteps:\n  - {id: a, set: {sum: 1}}\n"
	}
	parent := func(input string) string {
		return "saga: above\nsteps:\n  - {id: r, run: kid, input: {" + input + "}}\n  - {id: s, set: \"${steps.r.output.sum}\"}\n"
	}
	wrong := `:3:34: bad_input: the input of definition kid, /n: got string, want integer`
	put("above.yaml", parent("n: x"))
	put("kid.yaml", kid("n: integer"))
	above := filepath.Join(dir, "above.yaml")
	if r := run(t, nil, "validate", above, filepath.Join(dir, "kid.yaml")); r.code != cli.Usage || !strings.Contains(r.out, above+wrong+"\n") {
		t.Errorf("validate: exit %d: %s", r.code, r.out)
	}
	ok(t, nil, "validate", above) // without the others it is valid
	if r := run(t, s.env, "definitions", "apply", dir); r.code != cli.Usage || !strings.Contains(r.errOut, above+wrong+"\n") || r.out != "" {
		t.Errorf("apply: exit %d: %s%s", r.code, r.out, r.errOut)
	}
	put("above.yaml", parent("n: 1"))
	if out := ok(t, s.env, "definitions", "apply", dir); strings.Index(out, "kid.yaml") > strings.Index(out, "above.yaml") {
		t.Errorf("what is run comes first: %s", out)
	}
	// Both change together.
	put("above.yaml", parent("m: x"))
	put("kid.yaml", kid("m: string"))
	if out := ok(t, s.env, "definitions", "apply", dir); strings.Count(out, "v2 published") != 2 {
		t.Errorf("%s", out)
	}
	put("above.yaml", parent("n: 1"))
	if r := run(t, s.env, "definitions", "apply", above); r.code != cli.Usage || !strings.Contains(r.errOut, `there is no field "n"`) {
		t.Errorf("against the server's: exit %d: %s", r.code, r.errOut)
	}
}

// The server checks what only it knows, such as its variables and sinks, before anything is
// published. An action or a child that it does not have yet is no error if it is among the files.
func TestApplyAsksTheServerFirst(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"))
	dir := t.TempDir()
	for name, src := range map[string]string{
		"act.yaml":    "action: act\nhttp: POST https://a.example/x\n",
		"first.yaml":  "saga: first\nsteps:\n  - {id: a, set: 1}\n",
		"second.yaml": "saga: second\nsteps:\n  - {id: a, emit: x.y, to: nowhere}\n",
		"third.yaml":  "saga: third\nsteps:\n  - {id: a, use: act}\n  - {id: b, set: '${vars.none}'}\n",
		"fourth.yaml": "saga: fourth\nsteps:\n  - {id: a, use: act@1}\n  - {id: b, run: first}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := run(t, s.env, "definitions", "apply", dir)
	for _, want := range []string{filepath.Join(dir, "second.yaml") + ":3:", "unknown_sink: ", filepath.Join(dir, "third.yaml") + ":4:", `unknown_var: there is no variable "none"`, "nothing was published"} {
		if !strings.Contains(r.errOut, want) {
			t.Errorf("no %q in %s", want, r.errOut)
		}
	}
	if r.code != cli.Usage || r.out != "" || strings.Contains(r.errOut, "act:") || strings.Contains(r.errOut, "fourth") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.errOut)
	}
	if out := ok(t, s.env, "definitions", "list"); strings.Contains(out, "first") {
		t.Errorf("something was published: %s", out)
	}
	for _, name := range []string{"second.yaml", "third.yaml"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	ok(t, s.env, "definitions", "apply", dir)

	// An unchanged definition keeps its action, also if that is archived now.
	keeps := file(t, "keeps.yaml", "saga: keeps\nsteps:\n  - {id: a, use: act}\n")
	ok(t, s.env, "definitions", "apply", keeps)
	if status := s.status(t, http.MethodDelete, "/v1/actions/act"); status != http.StatusNoContent {
		t.Fatalf("archive: HTTP %d", status)
	}
	ok(t, s.env, "definitions", "apply", keeps)
	changed := file(t, "changed.yaml", "saga: keeps\nsteps:\n  - {id: b, use: act}\n")
	if r := run(t, s.env, "definitions", "apply", changed); r.code != cli.Usage || !strings.Contains(r.errOut, "action act is archived") || !strings.Contains(r.errOut, "nothing was published") {
		t.Errorf("exit %d: %s", r.code, r.errOut)
	}
}

// apply does not warn about a definition that it publishes a moment later, as in a circle, even if
// that one is archived until then. It also does not check types against an archived definition.
func TestApplyOfACircle(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"))
	runs := func(name, target string) string {
		return file(t, name+".yaml", "saga: "+name+"\ninput: {n: integer = 1}\nsteps:\n  - {id: r, run: "+target+"}\n")
	}
	ping, pong, others := runs("ping", "pong"), runs("pong", "ping"), runs("others", "pong@v9")
	r := run(t, s.env, "definitions", "apply", ping, pong, others)
	if r.code != cli.OK || strings.Count(r.errOut, "unknown-definition") != 1 || !strings.Contains(r.errOut, "no definition pong@v9") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.errOut)
	}
	for _, name := range []string{"ping", "pong"} {
		if status := s.status(t, http.MethodDelete, "/v1/definitions/"+name); status != http.StatusNoContent {
			t.Fatalf("archive %s: %d", name, status)
		}
	}
	caller := file(t, "caller.yaml", "saga: caller\nsteps:\n  - {id: r, run: ping, input: {n: x}}\n")
	if r := run(t, s.env, "definitions", "apply", caller); r.code != cli.OK || !strings.Contains(r.errOut, "ping is archived") {
		t.Errorf("an archived one: exit %d: %s%s", r.code, r.out, r.errOut)
	}
	if r := run(t, s.env, "definitions", "apply", ping, pong); r.code != cli.OK || strings.Contains(r.errOut, "unknown-definition") || strings.Count(r.out, "v1 revived\n") != 2 {
		t.Errorf("published again: exit %d: %s%s", r.code, r.out, r.errOut)
	}
}
