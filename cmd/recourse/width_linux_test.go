package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"recourse/examples/world"
	"recourse/internal/cli"
	"recourse/internal/test/golden"
	"recourse/internal/test/pty"
	"recourse/saga"
)

// wordy are definitions with long names and texts, which wait for many things.
var wordy = []string{`
saga: a-definition-with-a-rather-long-name
budget: {amount: 2.00 USD, on_exceed: ask}
steps:
  - {id: first, http: "POST ${vars.air}/bookings", body: {route: LIS}, cost: 1.25 USD}
  - {id: a_step_with_a_rather_long_name_as_well, http: "POST ${vars.air}/bookings", body: {route: lost}, in_doubt: ask}
`, `
saga: asks
steps:
  - {id: ok, approval: {title: "May it, all things considered, spend so much on a trip that nobody has asked for?", show: {trip: LIS}, form: {limit: integer}}}
`, `
saga: fails
steps:
  - {id: no, fail: "the weather is not what it was, and nobody can say when it will be again"}
`, `
saga: dear
budget: {amount: 2.00 USD, on_exceed: ask}
steps:
  - {id: a, set: 1}
  - {id: b, http: "GET ${vars.air}/bookings", cost: 5.00 USD}
`}

// changingLists are the texts that differ between runs of lists, in addition to changing.
var changingLists = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\b\d{1,2}[sm] ago\b`), "0s ago"}, // in a sentence
	{regexp.MustCompile(`\b\d\d[sm] `), "0s  "},           // in a column
	{regexp.MustCompile(`\b\d{1,2}[sm]\b`), "0s"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "10:00:00"},
	{regexp.MustCompile(`[0-9a-f]{8}( \d+ sagas?)`), "01234567$1"},
	{regexp.MustCompile(`( )+10:00:00\n`), " 10:00:00\n"},
}

// On terminals of several widths no line of a list is wrapped, and shortened texts end with …;
// without a terminal nothing is shortened.
func TestListsHaveTheTerminalsWidth(t *testing.T) {
	t.Parallel()
	w, vars := worldFor(t)
	s := serve(t, vars, "--database", filepath.Join(t.TempDir(), "a.db"))
	if err := w.AddFault(world.Rule{Match: world.Match{PathPrefix: "/air", BodyContains: "lost"}, Do: world.Do{After: world.FaultDrop}}); err != nil {
		t.Fatal(err)
	}
	for i, status := range []saga.Status{saga.Stuck, saga.Waiting, saga.Compensated, saga.Waiting} {
		ok(t, s.env, "definitions", "apply", file(t, "d.yaml", wordy[i]))
		name := strings.Fields(wordy[i])[1]
		waitFor(t, s, strings.Fields(ok(t, s.env, "start", name))[0], status)
	}
	for _, args := range [][]string{{"list"}, {"inbox"}, {"top", "--once"}} {
		var transcript strings.Builder
		for _, columns := range []int{80, 160} {
			code, out, p := onTerminal(t, columns, s.env, args...)
			if code != cli.OK {
				t.Fatalf("%v: exit %d: %s", args, code, out)
			}
			p.CheckWidth(t)
			fmt.Fprintf(&transcript, "-- %d columns\n%s\n", columns, out)
		}
		fmt.Fprintf(&transcript, "-- no terminal\n%s", ok(t, s.env, args...))
		text := steady(transcript.String())
		for _, c := range changingLists {
			text = c.pattern.ReplaceAllString(text, c.with)
		}
		golden.Check(t, "width-"+args[0]+".txt", text)
	}
}

// top runs until q is pressed, and restores the terminal. The test is not parallel: another test
// could take the port.
func TestTopOnATerminal(t *testing.T) {
	_, vars := worldFor(t)
	s := serve(t, vars, "--database", filepath.Join(t.TempDir(), "a.db"))
	ok(t, s.env, "definitions", "apply", file(t, "d.yaml", wordy[1]))
	p := pty.Open(t, 80, 20)
	code := make(chan int, 1)
	go func() {
		m := Main{Args: []string{"top", "--every", "100ms"}, Env: append([]string{"TERM=xterm"}, s.env...), Stdin: p.Slave, Stdout: p.Slave, Stderr: p.Slave}
		code <- m.Run(t.Context())
	}()
	p.Until(t, "Nothing is in progress")
	ok(t, s.env, "start", "asks")
	p.Until(t, "… ok")
	p.Until(t, "started 0.")
	addr := strings.TrimPrefix(s.url, "http://")
	s.stop()
	p.Until(t, "no server responds")
	serve(t, vars, "--database", filepath.Join(t.TempDir(), "b.db"), "--listen", addr)
	p.Until(t, "Nothing is in progress")
	if strings.Contains(p.Shown(), "no server responds") {
		t.Errorf("the trouble is over, and still shown:\n%s", p.Shown())
	}
	if _, err := p.Master.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	if got := <-code; got != cli.OK {
		t.Errorf("exit %d", got)
	}
	p.End()
	p.CheckWidth(t)
}
