package machine_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

const randoms = `
saga: randoms
steps:
  - id: a
    set: {ids: ["${uuid()}", "x${uuid()}"], at: "${now()}", die: "${random(6)}"}
  - {id: b, set: "${ {ids: [uuid(), uuid()], at: now(), die: random(6)} }"}
  - id: many
    foreach: [1, 2, 3]
    max_parallel: 2
    steps:
      - {id: c, set: {ids: ["${uuid()}"], at: "${now()}"}}
      - id: twice
        repeat: {until: index == 1, max: 2}
        steps:
          - {id: d, set: {ids: ["${uuid()}"], at: "${now()}"}}
finally:
  - {id: e, set: {ids: ["${uuid()}"], at: "${now()}"}}
`

// Deciding twice, and deciding after a replay, give the same random values and times; no two of any
// steps, iterations or sagas are the same; and a time is that of the record before.
func TestRandomValuesAreTheSagasOwn(t *testing.T) {
	def, errs := dsl.Parse("randoms", []byte(randoms), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	rapid.Check(t, func(t *rapid.T) {
		seen := make(map[string]string)
		now := time.UnixMilli(rapid.Int64Range(0, 1<<41).Draw(t, "start"))
		for _, first := range rapid.SliceOfNDistinct(rapid.Byte(), 2, 2, rapid.ID[byte]).Draw(t, "sagas") {
			id := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
			id[0] = first
			randomsOf(t, def, id, now, seen)
		}
	})
}

// randomsOf runs a saga and adds its random values to those seen before.
func randomsOf(t *rapid.T, def *saga.Definition, id uuid.UUID, now time.Time, seen map[string]string) {
	data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1})
	if wrong != nil {
		t.Fatal(wrong)
	}
	m := machine.New(def, id)
	var records []journal.Record
	draft := m.Start(data)
	for sets := 0; ; {
		now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "later")) * time.Millisecond)
		before := m.At()
		next, err := m.Append(draft, now, "node")
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, next)
		if step := def.Step(next.Path); step != nil && step.Kind == "set" {
			sets++
			look(t, id, before, next, seen)
		}
		if m.Status().Terminal() {
			if sets != 2+3+6+1 || m.Status() != saga.Succeeded {
				t.Fatalf("%d sets, and the saga is %s", sets, m.Status())
			}
			return
		}
		ds := m.Decide()
		replayed, err := machine.Replay(def, id, records)
		if err != nil {
			t.Fatal(err)
		}
		for _, again := range [][]machine.Decision{m.Decide(), replayed.Decide()} {
			if d := cmp.Diff(ds, again); d != "" {
				t.Fatalf("decided otherwise: %s", d)
			}
		}
		draft = ds[0].(machine.Write).Record
	}
}

func look(t *rapid.T, id uuid.UUID, before time.Time, r journal.Record, seen map[string]string) {
	var outcome struct {
		Output struct {
			IDs []string `json:"ids"`
			At  string   `json:"at"`
		} `json:"output"`
	}
	if err := json.Unmarshal(r.Data, &outcome); err != nil || len(outcome.Output.IDs) == 0 {
		t.Fatalf("%s: %v", r.Data, err)
	}
	if want := before.Format("2006-01-02T15:04:05.000Z"); outcome.Output.At != want {
		t.Fatalf("%s: now() is %s, want %s", r.Path, outcome.Output.At, want)
	}
	for i, u := range outcome.Output.IDs {
		u = u[len(u)-36:]
		if id, err := uuid.FromString(u); err != nil || id.Version() != 8 || id.Variant() != uuid.VariantRFC9562 {
			t.Fatalf("%s: %q is no UUID of version 8: %v", r.Path, u, err)
		}
		where := fmt.Sprint(id, " ", r.Path, " ", i)
		if other, twice := seen[u]; twice {
			t.Fatalf("%s and %s had the same random values", other, where)
		}
		seen[u] = where
	}
}

// Random values are part of what journals mean: a release that computed others would give a step
// that is decided again other values than before.
func TestRandomValuesStay(t *testing.T) {
	def, errs := dsl.Parse("draws.yaml", []byte("saga: x\nsteps: [{id: a, set: \"${[uuid(), random(1000), now()]}\"}]\n"), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1})
	if wrong != nil {
		t.Fatal(wrong)
	}
	m := machine.New(def, uuid.Nil)
	if _, err := m.Append(m.Start(data), planTime, "test"); err != nil {
		t.Fatal(err)
	}
	var outcome struct{ Output json.RawMessage }
	if err := json.Unmarshal(saga.Encode(m.Decide()[0].(machine.Write).Record.Data), &outcome); err != nil {
		t.Fatal(err)
	}
	if got, want := string(outcome.Output), `["1a6f1227-4fae-83cd-95eb-047f39c84895",166,"2026-11-21T08:00:00.000Z"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
