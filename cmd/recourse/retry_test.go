package main

import (
	"path/filepath"
	"strings"
	"testing"

	"recourse/examples/world"
	"recourse/internal/cli"
	"recourse/saga"
)

// A saga that has ended goes on from the step that failed, as a new saga.
func TestRetryFromStep(t *testing.T) {
	t.Parallel()
	w, vars := worldFor(t)
	if err := w.AddFault(world.Rule{Match: world.Match{PathPrefix: "/ship/orders"}, Times: 1, Do: world.Do{Before: world.FaultStatus, Status: 422}}); err != nil {
		t.Fatal(err)
	}
	s := serve(t, vars, "--database", filepath.Join(t.TempDir(), "a.db"))
	ok(t, s.env, "definitions", "apply", file(t, "stops.yaml", `saga: stops
on_failure: stop
steps:
  - {id: book, http: "POST ${vars.air}/bookings", body: {route: LIS}, compensate: {http: "DELETE ${vars.air}/bookings/${output.id}"}}
  - {id: ship, http: "POST ${vars.ship}/orders", body: {of: "${steps.book.output.id}"}, compensate: none}
`))
	id := strings.Fields(run(t, s.env, "start", "stops", "--wait", "30s").out)[0]
	waitFor(t, s, id, saga.Failed)
	if r := run(t, s.env, "retry", id, "--from", "ship"); r.code != cli.Usage || !strings.Contains(r.errOut, "--reason") {
		t.Errorf("no reason: exit %d: %s", r.code, r.errOut)
	}
	if r := run(t, s.env, "retry", id, "--from", "book", "--plan"); r.code != cli.Conflict || !strings.Contains(r.out, "effect_stays") {
		t.Errorf("from book: exit %d: %s%s", r.code, r.out, r.errOut)
	}
	if out := ok(t, s.env, "retry", id, "--from", "ship", "--plan"); !strings.Contains(out, "book: its result is taken over") {
		t.Error(out)
	}
	next := strings.Fields(ok(t, s.env, "retry", id, "--from", "ship", "--reason", "fixed"))[0]
	waitFor(t, s, next, saga.Succeeded)
	if again := ok(t, s.env, "retry", id, "--from", "ship", "--reason", "once more"); !strings.HasPrefix(again, next) {
		t.Error(again)
	}
	out := ok(t, s.env, "show", next)
	if !strings.Contains(out, id+", from step ship") {
		t.Error(out)
	}
	if r := run(t, s.env, "compare", id[:13], next); r.code != cli.Failed || !strings.Contains(r.out, "other-outcome") || !strings.Contains(r.out, "1 same") || strings.Contains(r.out, "book ") {
		t.Errorf("compare: exit %d: %s%s", r.code, r.out, r.errOut)
	}
	if n := len(w.Ledger().Op("air", "book").Requests()); n != 1 {
		t.Errorf("%d bookings were asked for", n)
	}
}

// A fork goes on from a record of another saga, and sends nothing when its steps have stubs.
func TestFork(t *testing.T) {
	t.Parallel()
	w, vars := worldFor(t)
	s := serve(t, vars, "--database", filepath.Join(t.TempDir(), "a.db"))
	ok(t, s.env, "definitions", "apply", file(t, "books.yaml", `saga: books
steps:
  - {id: book, http: "POST ${vars.air}/bookings", body: {route: LIS}, compensate: {http: "DELETE ${vars.air}/bookings/${output.id}"}}
  - {id: ship, http: "POST ${vars.ship}/orders", body: {of: "${steps.book.output.id}"}, compensate: none}
output: {of: "${steps.ship.output.id}"}
`))
	id := strings.Fields(ok(t, s.env, "start", "books", "--wait", "30s"))[0]
	for _, stubs := range [][]string{{`ship={"id": 1}`, `ship={"error": {"code": "c", "title": "t"}}`}, {`ship={"error": {"code": "c", "title": "t"}}`, `ship={"id": 1}`}} {
		if r := run(t, s.env, "fork", id, "--effects", "stub", "--stub", stubs[0], "--stub", stubs[1]); r.code != cli.Usage || !strings.Contains(r.errOut, "names ship twice") {
			t.Errorf("%q: exit %d: %s%s", stubs, r.code, r.out, r.errOut)
		}
	}
	r := run(t, s.env, "fork", id[:13], "--at", "3", "--effects", "stub", "--stub", `ship={"id": "s-1", "by": "air"}`)
	if r.code != cli.OK || !strings.Contains(r.errOut, "after its record 3") {
		t.Fatalf("exit %d: %s%s", r.code, r.out, r.errOut)
	}
	fork := strings.Fields(r.out)[0]
	waitFor(t, s, fork, saga.Succeeded)
	if out := ok(t, s.env, "show", fork); !strings.Contains(out, id+", after its record 3 (effects: stub)") || !strings.Contains(out, `{"of":"s-1"}`) || !strings.Contains(out, "(a stub)") {
		t.Error(out)
	}
	held := strings.Fields(ok(t, s.env, "fork", id, "--at", "3", "--budget", "3.00 USD"))[0]
	if out := ok(t, s.env, "show", held, "-o", "json"); !strings.Contains(out, `"budget":"3.00"`) {
		t.Errorf("the fork's budget: %s", out)
	}
	waitFor(t, s, held, saga.Waiting)
	if out := ok(t, s.env, "inbox"); !strings.Contains(out, "Fork of "+id) {
		t.Error(out)
	}
	for args, code := range map[string]int{"--at 999": cli.Usage, "--stub ship": cli.Usage, "--effects some": cli.Usage} {
		if r := run(t, s.env, append([]string{"fork", id}, strings.Fields(args)...)...); r.code != code {
			t.Errorf("%s: exit %d: %s", args, r.code, r.errOut)
		}
	}
	if n := len(w.Ledger().Op("air", "book").Requests()) + len(w.Ledger().Op("ship", "order").Requests()); n != 2 {
		t.Errorf("%d requests were sent", n)
	}
}
