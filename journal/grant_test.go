package journal

import "testing"

// What a grant names is allowed, in each of the forms that its comments show, and nothing else is.
func TestAgentGrant(t *testing.T) {
	t.Parallel()
	some := &AgentGrant{Actions: []string{"refund", "book@3"}, Sessions: []string{"support-*", "["}, Models: []string{"gpt-5-*", "small"}}
	all := &AgentGrant{}
	for what, tt := range map[string]struct {
		some, all, want bool
	}{
		"a named action":               {some.Calls("refund", 7), all.Calls("refund", 7), true},
		"its version":                  {some.Calls("book", 3), all.Calls("book", 3), true},
		"another version":              {some.Calls("book", 2), all.Calls("book", 2), false},
		"another action":               {some.Calls("mail", 1), all.Calls("mail", 1), false},
		"a session of the pattern":     {some.Names("support-eu"), all.Names("support-eu"), true},
		"another session":              {some.Names("sales"), all.Names("sales"), false},
		"what a bad pattern names":     {some.Names("["), all.Names("["), false},
		"a named model":                {some.Asks("small"), all.Asks("small"), true},
		"a model of the pattern":       {some.Asks("gpt-5-mini"), all.Asks("gpt-5-mini"), true},
		"another model":                {some.Asks("gpt-4"), all.Asks("gpt-4"), false},
		"the same pattern":             {some.Asks("gpt-5-*"), all.Asks("gpt-5-*"), true},
		"a pattern that may be wider":  {some.Asks("gpt-5-[a-z]*"), all.Asks("gpt-5-[a-z]*"), false},
		"a pattern that matches no *?": {some.Asks(`gpt-5-\m`), all.Asks(`gpt-5-\m`), false},
	} {
		if tt.some != tt.want || !tt.all {
			t.Errorf("%s: %v with a grant, %v without limits", what, tt.some, tt.all)
		}
	}
}

// Version is the newest one that the grant names; an action without a version stands for all.
func TestAgentGrantVersion(t *testing.T) {
	t.Parallel()
	g := &AgentGrant{Actions: []string{"book@3", "book@12", "book@7", "mail@2", "refund", "refund@4", "note@5", "note"}}
	for action, want := range map[string]int{"book": 12, "mail": 2, "refund": 0, "note": 0, "call": 0} {
		if got := g.Version(action); got != want {
			t.Errorf("%s: version %d, want %d", action, got, want)
		}
	}
}

func TestKeyBindingNarrows(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		KeyBinding
		want bool
	}{
		{KeyBinding{}, false},
		{KeyBinding{Sources: []string{"shop"}}, true},
		{KeyBinding{Signals: []string{"paid"}}, true},
		{KeyBinding{Sources: []string{"shop"}, Signals: []string{"paid"}}, true},
	} {
		if got := tt.Narrows(); got != tt.want {
			t.Errorf("%+v: %v", tt.KeyBinding, got)
		}
	}
}
