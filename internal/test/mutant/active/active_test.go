package active

import "testing"

func TestCaused(t *testing.T) {
	numbered, own := Bug{Invariant: 4, Text: "without an intent"}, Bug{Text: "without an intent"}
	for violation, want := range map[string][2]bool{
		"4: POST /do/a arrived without an intent":          {true, true},
		"saga 019b76da: 4: it was sent without an intent":  {true, true},
		"saga 019b76da: 14: it was sent without an intent": {false, true},
		"14: it was sent without an intent":                {false, true},
		"it was sent without an intent":                    {false, true},
		"4: it was sent twice":                             {false, false},
	} {
		if got := [2]bool{numbered.Caused(violation), own.Caused(violation)}; got != want {
			t.Errorf("%s: got %v, want %v", violation, got, want)
		}
	}
}
