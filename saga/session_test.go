package saga

import (
	"encoding/json"
	"testing"
	"time"
)

func TestIsSession(t *testing.T) {
	for name, want := range map[string]bool{SessionPrefix + "support": true, SessionPrefix: true, RunPrefix + "refund": false, "support": false, "": false} {
		if got := IsSession(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

func TestSameInput(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{{`{"a":1,"b":2}`, `{ "b":2, "a":1 }`, true}, {`{"a":1}`, `{"a":2}`, false}, {`{`, `{}`, false}, {`{}`, `{`, false}, {`{`, `[`, false}} {
		if got := SameInput(json.RawMessage(tt.a), json.RawMessage(tt.b)); got != tt.want {
			t.Errorf("%s and %s: %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

// A person sees lines and tabs as they are. Other characters that cannot be seen are escaped, and
// then the backslash is, too.
func TestVisibleText(t *testing.T) {
	for text, want := range map[string]string{"a\n\tb\\": "a\n\tb\\", "a\x00\n\t\\": `a\u{0}` + "\n\t" + `\u{5c}`, "\r": `\u{d}`, "\u202e": `\u{202e}`, "\u3164": `\u{3164}`, "\u2028": `\u{2028}`} {
		if got := VisibleText(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

// The compensation of an own step is that of the action that its agent has named, within the time
// that the agent has.
func TestOwnStepIsUndone(t *testing.T) {
	s := &Session{Actions: map[string]*SessionAction{"refund": {Step: &Step{Use: &Use{Action: "refund", Version: 3}}, Undo: &Compensation{}}}}
	within := OwnUndo{Use: "refund@3", UndoWithin: 1500}
	for name, tt := range map[string]struct {
		data  OwnData
		undo  *OwnUndo
		want  bool
		least time.Duration
	}{
		"no effect":        {OwnData{Effect: NoEffect}, &within, false, 0},
		"an unknown use":   {OwnData{Effect: Undoable}, &OwnUndo{Use: "refund@2"}, false, 0},
		"as it has begun":  {OwnData{Effect: Undoable, Compensate: &within}, nil, true, 1500 * time.Millisecond},
		"as it has ended":  {OwnData{Effect: Undoable, Compensate: &OwnUndo{Use: "refund@2"}}, &within, true, 1500 * time.Millisecond},
		"by a person only": {OwnData{Effect: Undoable}, nil, true, 0},
	} {
		c := s.OwnStep("own.a", &tt.data, tt.undo).Compensate
		if (c != nil) != tt.want || c != nil && (c.UndoWithin != tt.least || c.ID != "own.a") {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if u := s.Actions["refund"].Undo; u.ID != "" || u.UndoWithin != 0 {
		t.Errorf("the action itself has changed: %+v", u)
	}
}
