package crash

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A campaign must detect each of these.
func TestKnownBad(t *testing.T) {
	t.Parallel()
	bugs := []string{"lost-attempts-forgotten", "unknown-is-failed", "send-before-commit"}
	for name, bad := range map[string]struct {
		world  []string
		bug    string // one of bugs
		points []string
		action string
		want   string // part of one of the errors
	}{
		"a world that forgets keys": {world: []string{"--key-window", "1ms"},
			points: []string{"send.after.do", "commit.before.outcome.do"}, action: "kill", want: "invariant 6"},
		"attempts of the dead are waited for": {bug: "lost-attempts-forgotten",
			points: []string{"send.after.do", "commit.before.outcome.do"}, action: "kill", want: "has not ended"},
		"a lost answer to a commit counts as a failure": {bug: "unknown-is-failed",
			points: []string{"commit.after.outcome.do", "commit.after.intent.do"}, action: "error", want: "has not ended"},
		"a request leaves before its intent is written": {bug: "send-before-commit",
			points: []string{"commit.before.intent.do", "commit.before.intent.undo"}, action: "kill", want: "invariant 4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := mutated(t, bugs)
			w := startWorld(t, program, bad.world...)
			f := startFleet(t, fleetConfig{program: program, db: onPostgres(t), world: w.URL, nodes: 2, lease: time.Second, env: []string{"RECOURSE_MUTANT=" + bad.bug}})
			l := startLoad(f, w, "1s", foul)
			var points []point
			for _, at := range bad.points {
				points = append(points, point{name: at, only: bad.action})
			}
			strike(f, points, 3, false, 0)
			wrong := append(l.settle(6*time.Second), l.gather(t).check()...)
			if !slices.ContainsFunc(wrong, func(w string) bool { return strings.Contains(w, bad.want) }) {
				t.Errorf("nothing says %q, but\n%s", bad.want, strings.Join(wrong, "\n"))
			}
		})
	}
}

// The shipped program has no failpoints.
func TestShippedProgramHasNoPoints(t *testing.T) {
	program := shipped(t)
	w := startWorld(t, program)
	f := startFleet(t, fleetConfig{program: program, db: onSQLite(t), world: w.URL, nodes: 1, lease: time.Second,
		env: []string{"RECOURSE_FAILPOINTS=start.reply=kill,commit.before.started=kill"}})
	if err := arm(f.dir, "start.reply", "kill"); err != nil {
		t.Fatal(err)
	}
	c := newClients(f)
	c.publish()
	if _, ok := c.start(t.Context(), "books", "k", 1); !ok || f.node() == nil {
		t.Error("it does not start a saga")
	}
}
