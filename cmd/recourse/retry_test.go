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
