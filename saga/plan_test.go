package saga_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

var planTime = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

func makePlan(t *testing.T, src, input string, stubs map[string]json.RawMessage) saga.Plan {
	t.Helper()
	def, errs := dsl.Parse("plan.yaml", []byte(src), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	data, _, findings := saga.Begin(def, saga.StartOptions{Version: 1, Input: json.RawMessage(input)})
	if findings != nil {
		t.Fatal(findings)
	}
	p, err := saga.MakePlan(def, data, stubs, planTime)
	if err != nil {
		t.Fatal(err)
	}
	again, err := saga.MakePlan(def, data, stubs, planTime)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(p, again); d != "" {
		t.Errorf("the same plan twice differs: %s", d)
	}
	return p
}

// lines writes a plan's steps in short.
func lines(p saga.Plan) []string {
	var out []string
	for _, s := range p.Steps {
		line := s.Path + " " + s.Kind
		if s.Skipped {
			line += " skipped"
		}
		if s.Request != nil {
			line += " " + s.Request.Method + " " + s.Request.URL + " " + string(s.Request.Body)
		}
		if s.WakeAt != nil {
			line += " until " + s.WakeAt.Format("15:04")
		}
		if s.Pivot {
			line += " pivot"
		}
		if s.Note != "" {
			line += " note"
		}
		if s.Undo != nil && s.Undo.Request != nil {
			line += " undo " + s.Undo.Request.Method + " " + s.Undo.Request.URL
		}
		out = append(out, line)
	}
	return out
}

const planned = `saga: p
budget: 1.00 USD
steps:
  - id: who
    set: {name: "${input.name}"}
  - id: rest
    sleep: 30m
  - id: gift
    when: input.gift
    http: POST https://a.example/gifts
    in_doubt: retry
    compensate: none
  - id: charge
    http: POST https://a.example/charges
    in_doubt: retry
    retry: 3
    cost: 0.10 USD
    body: {name: "${steps.who.output.name}"}
    compensate:
      http: POST https://a.example/charges/${output.id}/refund
  - id: way
    switch:
      - when: input.gift
        steps:
          - {id: wrap, set: paper}
      - steps:
          - id: ship
            http: POST https://a.example/ships
            in_doubt: retry
            body: {charge: "${steps.charge.output.id}"}
            compensate:
              http: DELETE https://a.example/ships?key=${key}
              order: last
  - id: seal
    http: PUT https://a.example/seals/${input.name}
    pivot: true
  - id: mail
    http: POST https://a.example/mails
    in_doubt: fail
    on_error: continue
    compensate: none
finally:
  - id: note
    http: PUT https://a.example/notes/${saga.status}
`

func TestPlan(t *testing.T) {
	p := makePlan(t, planned, `{"name": "ada", "gift": false}`, map[string]json.RawMessage{"charge": json.RawMessage(`{"id":"ch_1"}`)})
	want := []string{
		"who set",
		"rest sleep until 08:30",
		"gift http skipped",
		`charge http POST https://a.example/charges {"name":"ada"} undo POST https://a.example/charges/ch_1/refund`,
		"way switch",
		`ship http POST https://a.example/ships {"charge":"ch_1"} undo DELETE https://a.example/ships?key=` + keyOf(p, "ship"),
		"seal http PUT https://a.example/seals/ada  pivot",
		"mail http POST https://a.example/mails ",
		"note http PUT https://a.example/notes/succeeded ",
	}
	if d := cmp.Diff(want, lines(p)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"charge", "ship"}, p.Undo); d != "" {
		t.Errorf("undo: %s", d)
	}
	if p.WorstCase != "0.30" || p.Currency != "USD" || p.Budget != "1.00" {
		t.Errorf("cost %s of %s %s", p.WorstCase, p.Budget, p.Currency)
	}
	for _, s := range p.Steps {
		if s.Request != nil && (s.Key == "" || s.Undo != nil && s.Undo.Key == s.Key) {
			t.Errorf("keys of %s: %q and %+v", s.Path, s.Key, s.Undo)
		}
	}
}

func keyOf(p saga.Plan, path string) string {
	for _, s := range p.Steps {
		if s.Path == path {
			return s.Key
		}
	}
	return ""
}

// Without stubs the plan goes on, and says which are missing.
func TestPlanWithoutStubs(t *testing.T) {
	p := makePlan(t, planned, `{"name": "ada", "gift": false}`, nil)
	if len(p.Steps) != 9 {
		t.Fatalf("%d steps, want all 9: %v", len(p.Steps), lines(p))
	}
	for _, s := range p.Steps {
		switch s.Path {
		case "charge":
			if s.Undo == nil || !strings.HasPrefix(s.Undo.Note, "give a stub for charge: ") {
				t.Errorf("charge: %+v", s.Undo)
			}
		case "ship":
			if s.Request != nil || !strings.HasPrefix(s.Note, "give a stub for charge: ") {
				t.Errorf("ship: %+v", s)
			}
		}
	}
}

func TestPlanOtherBranch(t *testing.T) {
	p := makePlan(t, planned, `{"name": "ada", "gift": true}`, nil)
	if got := strings.Join(lines(p), "\n"); !strings.Contains(got, "wrap set") || strings.Contains(got, "ship http") || !strings.Contains(got, "gift http POST") {
		t.Error(got)
	}
}

func TestPlanThatFails(t *testing.T) {
	p := makePlan(t, `saga: p
steps:
  - {id: make, http: PUT https://a.example/things/1, compensate: {http: DELETE https://a.example/things/1}}
  - {id: stop, fail: not today}
  - {id: never, set: 1}
`, `null`, nil)
	last := p.Steps[len(p.Steps)-1]
	if len(p.Steps) != 2 || last.Path != "stop" || !strings.Contains(last.Note, "not today") {
		t.Errorf("%v %q", lines(p), last.Note)
	}
	if d := cmp.Diff([]string{"make"}, p.Undo); d != "" {
		t.Error(d)
	}
}

func TestPlanCosts(t *testing.T) {
	p := makePlan(t, `saga: p
budget: 0.15 USD
steps:
  - {id: a, http: PUT https://a.example/1, cost: 0.10 USD, retry: forever, compensate: none}
  - {id: b, http: PUT https://a.example/2, cost: 0.10 USD, retry: none, compensate: none}
`, `null`, nil)
	if p.WorstCase != "0.20" || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "no bound") {
		t.Errorf("%s %v", p.WorstCase, p.Notes)
	}
	if note := p.Steps[1].Note; !strings.Contains(note, "budget") {
		t.Errorf("the budget does not cover b, but the note says %q", note)
	}
}
