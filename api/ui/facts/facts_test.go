package facts_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/api/ui/facts"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

const source = `saga: described
budget: 5.00 EUR
timeout: 2h
steps:
  - id: reserve
    http: POST https://a.example/things
    cost: 0.25 EUR
    timeout: 10s
    in_doubt: ask
    compensate: {http: "DELETE https://a.example/things/${output.id}", retry: none}
  - id: both
    parallel:
      - {id: look, http: GET https://a.example/things, retry: none}
      - {id: nap, sleep: 1s}
`

func TestFacts(t *testing.T) {
	def, errs := dsl.Parse("described.yaml", []byte(source), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	want := []facts.Fact{{Name: "Budget", Text: "5.00 EUR; a step that does not fit fails"}, {Name: "Timeout", Text: "2 h for the whole saga; after it the saga is cancelled and undone"}}
	got := facts.Of(def)
	if d := cmp.Diff(want, got[:min(len(got), len(want))]); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	efforts := facts.Efforts(def)
	for i := range efforts {
		if efforts[i].Tries != "once" { // the other steps have the defaults
			efforts[i].Tries = ""
		}
	}
	if d := cmp.Diff([]facts.Effort{
		{Path: "reserve", Kind: "http", Timeout: "10 s", InDoubt: "asks a person", Cost: "0.25 EUR", Undo: "once"},
		{Path: "look", Kind: "http", Tries: "once", Timeout: efforts[len(efforts)-1].Timeout, InDoubt: "never"},
	}, efforts); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := facts.Triggers(def); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}
