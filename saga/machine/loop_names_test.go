package machine_test

import (
	"os"
	"regexp"
	"testing"

	"recourse/saga/dsl"
)

// A loop's variable hides nothing that the machine itself reads, and nothing hides it: each name is
// the item, or cannot be a variable.
func TestLoopVariableNames(t *testing.T) {
	src, err := os.ReadFile("env.go")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"child", "event", "session"}
	for _, m := range regexp.MustCompile(`(?:case|name ==) "(\w+)"`).FindAllStringSubmatch(string(src), -1) {
		names = append(names, m[1])
	}
	if len(names) < 12 {
		t.Fatalf("found only %q, so the pattern is stale", names)
	}
	for _, name := range names {
		if dsl.Reserved(name) {
			continue
		}
		h := byHand(t, "saga: x\nsteps: [{id: l, foreach: [a, b], as: "+name+", steps: [{id: s, set: \"${"+name+"}\"}]}]\n", "null")
		if got := string(h.m.View().Output); got != `["a","b"]` {
			t.Errorf("as: %s gives %s", name, got)
		}
	}
}
