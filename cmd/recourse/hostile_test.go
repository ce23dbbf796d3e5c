package main

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"recourse/examples/world"
	"recourse/internal/cli"
	"recourse/saga"
)

// hostileText clears a terminal and sets its title; C1 controls do the same without ESC.
const hostileText = `\u001b[2J\u001b]0;owned\u0007\r\u009b2J\u0085`

// Texts of services and clients cannot control the terminal, in any command.
func TestHostileText(t *testing.T) {
	t.Parallel()
	w, vars := worldFor(t)
	s := serve(t, vars, "--database", filepath.Join(t.TempDir(), "a.db"))
	def := file(t, "hostile.yaml", `saga: hostile
input: {text: string, ask: boolean = false, out: boolean = false}
steps:
  - {id: book, http: 'POST ${vars.air}/bookings', body: {route: '${input.text}', n: 1}, in_doubt: ask, output: '${input.text}'}
  - {id: ok, approval: {title: 'Is ${input.text} right?', show: {text: '${input.text}'}, approvers: ['${input.text}']}, when: input.ask}
  - {id: no, fail: 'nobody lives at ${input.text}', when: '!input.out'}
output: ${input.text}
`)
	ok(t, s.env, "definitions", "apply", def)
	check := func(want int, args ...string) result {
		t.Helper()
		r := run(t, s.env, args...)
		if r.code != want {
			t.Errorf("recourse %s: exit %d, not %d\n%s%s", strings.Join(args, " "), r.code, want, r.out, r.errOut)
		}
		if i := strings.IndexFunc(r.out+r.errOut, func(c rune) bool { return unicode.IsControl(c) && c != '\n' }); i >= 0 {
			t.Errorf("recourse %s: %q", strings.Join(args[:1], " "), (r.out + r.errOut)[max(i-100, 0):min(i+100, len(r.out+r.errOut))])
		}
		return r
	}
	input := `{"text":"` + hostileText + `"`
	failed := strings.Fields(check(cli.Failed, "start", "hostile", "--input", input+"}", "--wait", "10s").out)[0]
	check(cli.OK, "start", "hostile", "--input", input+`,"out":true}`, "--wait", "10s")
	asks := strings.Fields(check(cli.OK, "start", "hostile", "--input", input+`,"ask":true}`).out)[0]
	waitFor(t, s, asks, saga.Waiting)
	if err := w.AddFault(world.Rule{Match: world.Match{PathPrefix: "/air"}, Times: 1, Do: world.Do{After: world.FaultDrop}}); err != nil {
		t.Fatal(err)
	}
	doubtful := strings.Fields(check(cli.OK, "start", "hostile", "--input", input+`}`).out)[0]
	waitFor(t, s, doubtful, saga.Stuck)
	exported := file(t, "export.ndjson", ok(t, s.env, "journal", failed, "-o", "json"))
	for _, args := range [][]string{
		{"list"}, {"inbox"}, {"inbox", "--saga", asks}, {"show", failed}, {"show", failed, "--steps"}, {"show", asks}, {"journal", failed}, {"journal", failed, "--follow"},
		{"replay", exported, "--definition", def}, {"verify", exported, "--definitions", def},
	} {
		check(cli.OK, args...)
	}
	unknown := file(t, "unknown.ndjson", strings.ReplaceAll(ok(t, s.env, "journal", failed, "-o", "json"), `"definition":"hostile"`, `"definition":"`+hostileText+`"`))
	ledger := file(t, "ledger.ndjson", `{"at": "2026-01-01T00:00:00Z", "kind": "request", "method": "POST", "path": "/air/`+hostileText+`", "key": "k"}`)
	for says, args := range map[string][]string{"Without its definition": {unknown}, "arrived without an intent": {exported, "--ledger", ledger, "--complete"}} {
		if r := check(cli.Failed, append([]string{"verify"}, args...)...); !strings.Contains(r.out, says) {
			t.Errorf("verify %v: no %q in %s", args, says, r.out)
		}
	}
	reason := "\x1b[2J\u009b2J"
	check(cli.OK, "cancel", asks, "--reason", reason)
	check(cli.OK, "resolve", doubtful, "book", "--outcome", "failed", "--reason", reason)
	waitFor(t, s, asks, saga.Failed)
	waitFor(t, s, doubtful, saga.Compensated)
	for _, args := range [][]string{{"show", asks}, {"show", doubtful}, {"journal", doubtful}, {"list"}} {
		check(cli.OK, args...)
	}
	check(cli.Usage, "start", "hostile", "--input", `{"text":1,"`+hostileText+`":1}`)
	s.env = vars
	check(cli.OK, "plan", def, "--input", input+"}")
	check(cli.Failed, "run", "--egress-allow", "127.0.0.1", def, "--input", input+"}")
}
