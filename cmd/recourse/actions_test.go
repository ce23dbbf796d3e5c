package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/api/client"
	"recourse/examples/world"
	"recourse/internal/cli"
	"recourse/internal/cli/config"
	"recourse/internal/cli/remote"
	"recourse/saga"
)

const (
	examples  = "../../examples/actions"
	exchange  = examples + "/exchange.yaml"
	exchanged = `{"order": "o-1", "sku": "s-1", "amount": 500, "email": "a@shop.example"}`
)

// The example of docs/actions.md succeeds, and is undone.
func TestActionsExample(t *testing.T) {
	t.Parallel()
	w, vars := worldFor(t)
	if out := ok(t, vars, "run", exchange, "--actions", examples, "-i", exchanged); !strings.Contains(out, "refund") {
		t.Errorf("%s", out)
	}
	if net := w.Balance().Net(); net != 3 {
		t.Errorf("%d effects, want a refund, a shipment and a mail", net)
	}
	refused := world.Rule{Match: world.Match{PathPrefix: "/ship"}, Times: 1, Do: world.Do{Before: world.FaultStatus, Status: 422}}
	if err := w.AddFault(refused); err != nil {
		t.Fatal(err)
	}
	r := run(t, vars, "run", exchange, "--actions", filepath.Join(examples, "refund.yaml"), "-i", exchanged)
	if r.code != cli.Failed || !strings.Contains(r.out, "compensated") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.errOut)
	}
	if net := w.Balance().Net(); net != 3 {
		t.Errorf("%d effects, want those of the first saga alone", net)
	}
	if r := run(t, vars, "run", exchange, "-i", exchanged); r.code != cli.Usage || !strings.Contains(r.errOut, "--actions") {
		t.Errorf("without its action: exit %d: %s", r.code, r.errOut)
	}
}

func TestActionsLocally(t *testing.T) {
	t.Parallel()
	vars := []string{config.VarPrefix + "pay=https://pay.example", config.VarPrefix + "ship=https://ship.example", config.VarPrefix + "mail=https://mail.example"}
	refund := filepath.Join(examples, "refund.yaml")
	if out := ok(t, nil, "validate", exchange, refund); strings.Count(out, ": ok\n") != 2 {
		t.Errorf("%s", out)
	}
	ok(t, nil, "validate", "--strict", "--actions", examples, exchange)
	if r := run(t, nil, "validate", exchange); r.code != cli.Usage || !strings.Contains(r.out, "unknown_action") {
		t.Errorf("exit %d: %s", r.code, r.out)
	}
	if r := run(t, nil, "validate", refund, refund); r.code != cli.Usage || !strings.Contains(r.errOut, "keep one") {
		t.Errorf("exit %d: %s", r.code, r.errOut)
	}
	bad := file(t, "bad.yaml", "action: refund\nhttp: POST https://pay.example/\nwhen: true\n")
	if r := run(t, nil, "validate", exchange, bad); r.code != cli.Usage || !strings.Contains(r.out, "unknown_key") {
		t.Errorf("exit %d: %s", r.code, r.out)
	}
	if r := run(t, nil, "validate", exchange, "--actions", bad); r.code != cli.Usage || !strings.Contains(r.errOut, "unknown_key") {
		t.Errorf("exit %d: %s", r.code, r.errOut)
	}
	out := ok(t, vars, "plan", exchange, "--actions", examples, "-i", exchanged, "--stub", `refund={"id":"re_1"}`)
	for _, want := range []string{"POST https://pay.example/refunds\n", `"reason":"exchanged for s-1"`, "POST https://pay.example/refunds/re_1/cancel", "use refund"} {
		if !strings.Contains(out, want) {
			t.Errorf("the plan lacks %q:\n%s", want, out)
		}
	}
}

// apply publishes actions before the definitions that use them, and the server reports which
// versions a definition uses.
func TestActionsOnAServer(t *testing.T) {
	t.Parallel()
	_, vars := worldFor(t)
	db := filepath.Join(t.TempDir(), "a.db")
	s := serve(t, vars, "--database", db)
	out := ok(t, s.env, "definitions", "apply", examples)
	if first, second := strings.Index(out, "action refund v1 published"), strings.Index(out, "exchange v1 published"); first < 0 || second < first {
		t.Fatalf("%s", out)
	}
	var list []remote.Applied
	if err := json.Unmarshal([]byte(ok(t, s.env, "definitions", "apply", "-o", "json", examples)), &list); err != nil || len(list) != 2 ||
		list[0] != (remote.Applied{File: filepath.Join(examples, "refund.yaml"), Kind: "action", Name: "refund", Version: "v1"}) {
		t.Errorf("%v %+v", err, list)
	}
	src, err := os.ReadFile(exchange)
	if err != nil {
		t.Fatal(err)
	}
	alone := file(t, "alone.yaml", strings.Replace(string(src), "use: refund  ", "use: refund@1", 1))
	ok(t, s.env, "definitions", "apply", alone) // its action is on the server
	if r := run(t, s.env, "definitions", "apply", file(t, "none.yaml", strings.Replace(string(src), "use: refund  ", "use: refund@7", 1))); r.code != cli.Usage || !strings.Contains(r.errOut, "no version 7") {
		t.Errorf("exit %d: %s", r.code, r.errOut)
	}
	id := strings.TrimSpace(ok(t, s.env, "start", "exchange", "--version", "v1", "-i", exchanged, "--wait", "30s", "-o", "json"))
	var v struct{ ID string }
	if err := json.Unmarshal([]byte(id), &v); err != nil {
		t.Fatal(err)
	}
	if out := ok(t, s.env, "show", v.ID); !strings.Contains(out, "refund") {
		t.Errorf("%s", out)
	}
	if out := ok(t, s.env, "verify", "--database", db); !strings.Contains(out, "1 saga") {
		t.Errorf("%s", out)
	}
	journal := file(t, "saga.ndjson", ok(t, s.env, "journal", v.ID, "-o", "json"))
	ok(t, nil, "verify", journal, "-d", examples)
	ok(t, nil, "verify", journal, "-d", exchange, "--actions", examples)
	if out := ok(t, nil, "replay", journal, "-d", exchange, "--actions", examples); !strings.Contains(out, "succeeded") {
		t.Errorf("%s", out)
	}
	if r := run(t, nil, "verify", journal, "-d", exchange); r.code != cli.Usage || !strings.Contains(r.errOut, "--actions") {
		t.Errorf("exit %d: %s", r.code, r.errOut)
	}
}

// An action whose body is a task is published, planned, carried out and undone as any other.
func TestTaskAction(t *testing.T) {
	t.Parallel()
	db, dir := filepath.Join(t.TempDir(), "a.db"), t.TempDir()
	for name, src := range map[string]string{
		"book.yaml": `action: book
input: {to: string, seats: integer = 1}
task: {type: flight.book, input: {to: "${input.to}", seats: "${input.seats}"}}
in_doubt: retry
compensate: {task: {type: flight.cancel, input: {booking: "${output.id}", to: "${input.to}"}}}
`,
		"trip.yaml": `saga: trip
input: {city: string}
steps:
  - {id: flight, use: book, with: {to: "${input.city}"}}
  - {id: hotel, fail: hotel_full}
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trip, input := filepath.Join(dir, "trip.yaml"), `{"city": "OSL"}`
	out := ok(t, nil, "plan", trip, "--actions", dir, "-i", input)
	for _, want := range []string{"use book", "task flight.book\n", `{"to":"OSL","seats":1}`, "task flight.cancel\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("the plan lacks %q:\n%s", want, out)
		}
	}
	s := serve(t, nil, "--database", db)
	ok(t, s.env, "definitions", "apply", dir)
	ctx, cancel := context.WithCancel(t.Context())
	did := make(chan string, 10)
	w := client.Worker{Client: client.New(s.url, ""), Types: []string{"flight.book", "flight.cancel"}, Log: slog.New(slog.DiscardHandler),
		Handle: func(_ context.Context, task client.Task) (any, error) {
			did <- task.Type + " " + task.Way + " " + string(task.Input)
			return map[string]string{"id": "f-7"}, nil
		}}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	id := strings.Fields(ok(t, s.env, "start", "trip", "--input", input))[0]
	waitFor(t, s, id, saga.Compensated)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	close(did)
	var all []string
	for d := range did {
		all = append(all, d)
	}
	if diff := cmp.Diff([]string{`flight.book do {"to":"OSL","seats":1}`, `flight.cancel undo {"booking":"f-7","to":"OSL"}`}, all); diff != "" {
		t.Errorf("the worker did (-want +got):\n%s", diff)
	}
	if r := run(t, s.env, "verify", "--database", db); r.code != cli.OK || !strings.Contains(r.out, "1 saga") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.errOut)
	}
}
