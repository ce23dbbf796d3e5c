package compensation

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/journal"
)

func TestPlan(t *testing.T) {
	effect := func(path string, first int64, lift Lift) Effect {
		return Effect{Path: path, First: first, Class: journal.Succeeded, Declared: true, Lift: lift}
	}
	tests := []struct {
		name    string
		effects []Effect
		undo    []string
		left    []Residue
	}{
		{"nothing happened", nil, nil, nil},
		{"reverse of the first intents, whatever the order given",
			[]Effect{effect("a", 2, Reverse), effect("c", 9, Reverse), effect("b", 4, Reverse)},
			[]string{"c", "b", "a"}, nil},
		{"first and last are lifted out, and keep the reverse order among themselves",
			[]Effect{effect("a", 1, First), effect("b", 2, First), effect("c", 3, Last), effect("d", 4, Reverse), effect("e", 5, Last)},
			[]string{"b", "a", "d", "e", "c"}, nil},
		{"what has no compensation is left, in the order it happened", []Effect{
			{Path: "mail", First: 1, Class: journal.Succeeded},
			effect("pay", 2, Reverse),
			{Path: "ship", First: 3, Class: journal.InDoubt},
			{Path: "log", First: 4, Class: journal.Succeeded, None: true},
			{Path: "hold", First: 5, Class: journal.InDoubt, Limited: true},
			{Path: "card", First: 6, Class: journal.Succeeded, Limited: true, Kept: "the saga was stopped"},
		}, []string{"pay"}, []Residue{
			{"mail", "it happened, and no compensation is declared for it"},
			{"ship", "it may have happened, and no compensation is declared for it"},
			{"log", "it happened, and is declared to need no compensation"},
			{"hold", "it may have happened, and its compensation is declared for another outcome (`on`)"},
			{"card", "it happened, and was not undone: the saga was stopped"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			undo, left := Plan(tt.effects)
			if d := cmp.Diff(tt.undo, undo); d != "" {
				t.Errorf("undo (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.left, left); d != "" {
				t.Errorf("left (-want +got):\n%s", d)
			}
		})
	}
}
