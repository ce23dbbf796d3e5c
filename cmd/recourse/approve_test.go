package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"recourse/internal/cli"
	"recourse/saga"
)

const payout = `saga: payout
input: {amount: decimal}
steps:
  - id: ok
    approval:
      title: Pay ${input.amount}?
      approvers: [finance, operator]
      show: {amount: "${input.amount}", note: "a\u009bb"}
      form: {limit: integer}
  - id: paid
    signal: com.shop.paid
output: ["${steps.ok.output.data.limit}", "${steps.ok.output.comment}", "${steps.paid.output}"]
`

// An approval and a signal, in the output of the commands.
func TestApproveAndSignal(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"))
	ok(t, s.env, "definitions", "apply", file(t, "payout.yaml", payout))
	var transcript strings.Builder
	step := func(want int, stdin string, args ...string) {
		t.Helper()
		r := runWith(t, stdin, s.env, args...)
		fmt.Fprintf(&transcript, "$ recourse %s\n%s%s", strings.Join(args, " "), r.out, r.errOut)
		if r.code != 0 {
			fmt.Fprintf(&transcript, "(exit %d)\n", r.code)
		}
		transcript.WriteString("\n")
		if r.code != want {
			t.Errorf("recourse %v: exit %d, want %d: %s%s", args, r.code, want, r.out, r.errOut)
		}
	}
	start := func() string {
		id := strings.Fields(ok(t, s.env, "start", "payout", "-i", `{"amount":19.10}`))[0]
		waitFor(t, s, id, saga.Waiting)
		return id
	}
	id := start()
	step(cli.OK, "", "inbox", "--kind", "approval")
	step(cli.Usage, "", "approve", id, "ok")
	step(cli.Failed, "n\n", "approve", id, "ok")
	step(cli.Usage, "y\n", "approve", id, "ok")
	step(cli.Usage, "y\n", "approve", id, "ok", "--data", `{"limit": "x"}`)
	step(cli.NotFound, "", "approve", id, "okay", "--yes")
	step(cli.Conflict, "", "approve", id, "paid", "--yes")
	step(cli.Usage, "", "signal", id, "com.shop.payd")
	step(cli.OK, "", "signal", id, "com.shop.paid", `{"n": 9007199254740993}`, "--key", "k")
	ok(t, s.env, "signal", id[:13], "com.shop.paid", `{"n": 9007199254740993}`, "--key", "k") // the same signal
	step(cli.OK, "", "signal", id, "com.shop.paid", `{"n": 9007199254740993}`, "--key", "k")
	step(cli.OK, "y\n", "approve", id, "ok", "--data", `{"limit": 5}`, "--comment", "fine")
	step(cli.Conflict, "", "approve", id, "ok", "--yes")
	step(cli.Conflict, "", "reject", id, "ok")
	v := waitFor(t, s, id, saga.Succeeded)
	if want := `[5,"fine",{"n":9007199254740993}]`; string(v.Output) != want {
		t.Errorf("output %s, want %s", v.Output, want)
	}
	step(cli.Conflict, "", "signal", id, "com.shop.paid")
	id = start()
	step(cli.OK, "", "reject", id, "ok", "--reason", "too much")
	waitFor(t, s, id, saga.Compensated)
	id = start()
	if out := ok(t, s.env, "approve", id, "ok", "--data", `{"limit": 1}`, "-o", "json"); !strings.Contains(out, `"status":"succeeded"`) {
		t.Errorf("as JSON: %s", out)
	}
	if out := ok(t, s.env, "signal", id, "com.shop.paid", "-o", "json"); !strings.Contains(out, `"name":"com.shop.paid"`) {
		t.Errorf("as JSON: %s", out)
	}
	waitFor(t, s, id, saga.Succeeded)
	checkGolden(t, "approve", transcript.String())
}

// A decision that comes too early gets an error in the terms of the command line.
func TestApproveTooEarly(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"))
	ok(t, s.env, "definitions", "apply", file(t, "late.yaml", "saga: late\nsteps:\n  - {id: go, signal: go}\n  - {id: ok, approval: {title: Go on?}}\n"))
	id := strings.Fields(ok(t, s.env, "start", "late"))[0]
	waitFor(t, s, id, saga.Waiting)
	if r := run(t, s.env, "approve", id, "ok", "--yes"); r.code != cli.Conflict || strings.Contains(r.errOut, "shown") {
		t.Errorf("exit %d: %s", r.code, r.errOut)
	}
}

// The inbox and the prompt of an approval show the requests that it covers. After a change of a
// label, it is asked again.
func TestApproveCovers(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"))
	ok(t, s.env, "definitions", "apply", file(t, "covering.yaml", `saga: covering
steps:
  - {id: ok, approval: {title: Pay?, covers: [pay]}}
  - {id: pay, http: "POST http://pay.invalid/charges", body: {amount: 5, team: "${saga.labels?.team ?? 'none'}"}, in_doubt: ask, compensate: none}
`))
	id := strings.Fields(ok(t, s.env, "start", "covering"))[0]
	waitFor(t, s, id, saga.Waiting)
	if out := ok(t, s.env, "inbox", "--saga", id); !strings.Contains(out, `covers pay: POST http://pay.invalid/charges {"amount":5,"team":"none"}`) {
		t.Errorf("inbox: %s", out)
	}
	relabel(t, s, id, `{"team": "blue"}`)
	if out := ok(t, s.env, "approve", id, "ok", "--yes"); !strings.Contains(out, `"team": "none"`) || strings.Contains(out, "asked again") {
		t.Errorf("approve: %s", out)
	}
	waitFor(t, s, id, saga.Waiting)
	if out := runWith(t, "n\n", s.env, "approve", id, "ok").out; !strings.Contains(out, `"team": "blue"`) || !strings.Contains(out, "asked again: step pay would send another request than the approved one, it differs at /body/team") {
		t.Errorf("approve again: %s", out)
	}
	ok(t, s.env, "reject", id, "ok")
	waitFor(t, s, id, saga.Compensated)
}

// relabel changes labels of a saga.
func relabel(t *testing.T, s *serving, id, labels string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, s.url+"/v1/sagas/"+id, strings.NewReader(`{"labels": `+labels+`}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("If-Match", "*")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("PATCH: %s", resp.Status)
	}
}
