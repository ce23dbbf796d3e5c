package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"recourse/examples/world"
	"recourse/internal/cli"
)

// probed is the JSON of a probe.
type probed struct {
	Sent []struct {
		What    string
		Request string
		Status  int
	}
	Repetition  string
	OtherBody   string `json:"other_body"`
	StatusCheck string `json:"status_check"`
	Undo        string
	Problems    []string
}

// remains returns the ids of the effects that were not undone.
func remains(w *world.Server) (ids []string) {
	undone := make(map[string]bool)
	for _, e := range w.Ledger() {
		undone[e.Undoes] = true
	}
	for _, e := range w.Ledger() {
		if e.Kind == world.Effect && !undone[e.EffectID] {
			ids = append(ids, e.EffectID)
		}
	}
	return ids
}

// A service that honours keys, with a status check: everything is found, and the probe's only
// effect is undone.
func TestProbe(t *testing.T) {
	t.Parallel()
	w, vars := worldFor(t)
	out := ok(t, vars, "probe", "../../examples/travel.yaml", "--step", "flight", "--yes", "--undo", "-o", "json")
	var p probed
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if p.Repetition != "honoured" || p.OtherBody != "refused" || p.StatusCheck != "found" || p.Undo != "undone" || len(p.Problems) > 0 || len(p.Sent) != 5 {
		t.Errorf("%+v", p)
	}
	if left := remains(w); len(left) > 0 {
		t.Errorf("effects remain: %v", left)
	}
	if out := ok(t, vars, "probe", "../../examples/travel.yaml", "--step", "hotel", "--yes"); !strings.Contains(out, "Repeated request: the service honours the key") {
		t.Error(out)
	}
}

// The definition relies on a key that the service ignores, or on a status check that finds nothing.
func TestProbeFindsWhatIsMissing(t *testing.T) {
	t.Parallel()
	w, vars := worldFor(t)
	r := run(t, vars, "probe", "../../examples/travel.yaml", "--step", "email", "--yes", "-o", "json")
	var p probed
	if err := json.Unmarshal([]byte(r.out), &p); err != nil {
		t.Fatalf("%v: %s", err, r.out)
	}
	if r.code != cli.Failed || p.Repetition != "ignored" || p.OtherBody != "accepted" || len(p.Problems) != 1 || !strings.Contains(p.Problems[0], "in_doubt: retry relies on the key") {
		t.Errorf("exit %d: %+v", r.code, p)
	}
	ok(t, vars, "probe", "../../examples/return.yaml", "--step", "email", "--yes") // in_doubt: fail relies on no key
	wrong := file(t, "wrong.yaml", `saga: wrong
steps:
  - id: book
    http: POST ${vars.air}/bookings
    body: {route: A-B}
    in_doubt: {verify: {http: "GET ${vars.air}/bookings?client_ref=other-${key}", found: len(result.body.items) > 0}}
    compensate: {http: "DELETE ${vars.air}/bookings/${output.id}"}
`)
	r = run(t, vars, "probe", wrong, "--step", "book", "--yes", "--undo")
	if r.code != cli.Failed || !strings.Contains(r.out, "Problem: in_doubt.verify does not find") || !strings.Contains(r.out, "Compensation: the service has accepted it") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.errOut)
	}
	// Each effect of a service without keys is undone.
	keyless := file(t, "keyless.yaml", `saga: keyless
steps:
  - id: book
    http: POST ${vars.air}/bookings
    idempotency: none
    in_doubt: retry
    body: {route: A-B}
    compensate: {http: "DELETE ${vars.air}/bookings/${output.id}"}
`)
	before := remains(w)
	r = run(t, vars, "probe", keyless, "--step", "book", "--yes", "--undo")
	if r.code != cli.Failed || !strings.Contains(r.out, "without a key") || strings.Count(r.out, "\nundo ") != 2 {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.errOut)
	}
	if left := remains(w); !slices.Equal(left, before) {
		t.Errorf("effects remain: %v, before %v", left, before)
	}
}

// Requests of parallel branches are not sent, and do not keep the effect from being undone.
func TestProbeInParallel(t *testing.T) {
	t.Parallel()
	w, vars := worldFor(t)
	def := file(t, "parallel.yaml", `saga: both
steps:
  - id: both
    parallel:
      - {id: other, http: "POST ${vars.ship}/orders", in_doubt: retry}
      - id: book
        http: POST ${vars.air}/bookings
        in_doubt: retry
        body: {route: A-B}
        compensate: {http: "DELETE ${vars.air}/bookings/${output.id}"}
`)
	out := ok(t, vars, "probe", def, "--step", "book", "--yes", "--undo")
	if !strings.Contains(out, "Compensation: the service has accepted it") || len(remains(w)) > 0 {
		t.Errorf("%s%v", out, remains(w))
	}
	for _, e := range w.Ledger() {
		if e.Service == "ship" {
			t.Errorf("the other branch was sent: %+v", e)
		}
	}
}

// Nothing is sent without a yes, or if the arguments are wrong.
func TestProbeAsks(t *testing.T) {
	t.Parallel()
	w, vars := worldFor(t)
	probe := []string{"probe", "../../examples/travel.yaml", "--step", "flight"}
	if r := runWith(t, "n\n", vars, probe...); r.code != cli.Failed || !strings.Contains(r.errOut, "nothing was sent") || !strings.Contains(r.errOut, "real effects") {
		t.Errorf("exit %d: %s", r.code, r.errOut)
	}
	for want, args := range map[string][]string{
		"--yes":               probe,
		"no such step":        {"probe", "../../examples/travel.yaml", "--step", "fligth", "--yes"},
		"of the kind llm":     {"probe", "../../examples/travel.yaml", "--step", "itinerary", "--yes"},
		"a read":              {"probe", "../../examples/return.yaml", "--step", "validate", "--yes"},
		"has no compensation": {"probe", "../../examples/travel.yaml", "--step", "charge", "--yes", "--undo"},
		"/input/card":         append(slices.Clone(probe), "--yes", "-i", `{"card": 5}`),
	} {
		if r := run(t, vars, args...); r.code != cli.Usage || !strings.Contains(r.errOut, want) {
			t.Errorf("%s: exit %d: %s%s", want, r.code, r.out, r.errOut)
		}
	}
	if r := run(t, nil, append(slices.Clone(probe), "--yes")...); r.code != cli.Usage || !strings.Contains(r.errOut, "vars.air has no value") {
		t.Errorf("no host: exit %d: %s", r.code, r.errOut)
	}
	if n := len(w.Ledger()); n > 0 {
		t.Errorf("%d requests were sent", n)
	}
}
