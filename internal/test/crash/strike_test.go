package crash

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// rounds is how often each point is struck.
func rounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("RECOURSE_CRASH_ROUNDS")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("RECOURSE_CRASH_ROUNDS is %q, not a number from 1", text)
	}
	return n
}

// Three nodes on one Postgres, struck at every point, with load: nothing is lost, nothing happens
// twice.
func TestStrikePostgres(t *testing.T) {
	t.Parallel()
	points, rounds := append(common(), ofPostgres()...), rounds(t)
	shares := []int{rounds / 2, rounds - rounds/2} // two fleets: most of the time goes by in waiting
	campaigns := make([]*campaign, len(shares))
	t.Run("fleets", func(t *testing.T) {
		for i, share := range shares {
			if share == 0 {
				continue
			}
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				f, l := scene(t, onPostgres(t), 3)
				campaigns[i] = strike(f, points, share, true, i)
				l.verify(t)
				if f.count("lease lost: dropping all sagas") == 0 {
					t.Error("no node that was frozen has noticed it")
				}
			})
		}
	})
	report(t, points, rounds, slices.DeleteFunc(campaigns, func(c *campaign) bool { return c == nil })...)
}

// The same with one node on SQLite.
func TestStrikeSQLite(t *testing.T) {
	t.Parallel()
	points, rounds := append(common(), ofSQLite()...), rounds(t)
	f, l := scene(t, onSQLite(t), 1)
	c := strike(f, points, rounds, false, 0)
	l.verify(t)
	report(t, points, rounds, c)
}

// Errors alone, without restarts, which would repair the effects of an error.
func TestErrorsAlone(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]struct {
		db     func(*testing.T) database
		nodes  int
		points []point
	}{"postgres": {onPostgres, 3, ofPostgres()}, "sqlite": {onSQLite, 1, ofSQLite()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var points []point
			for _, p := range append(common(), on.points...) {
				if p.fails && p.lead == nil {
					p.only = "error"
					points = append(points, p)
				}
			}
			rounds := (rounds(t) + 3) / 4
			f, l := scene(t, on.db(t), on.nodes)
			c := strike(f, points, rounds, false, 0)
			l.verify(t)
			report(t, points, rounds, c)
			if f.deaths > 0 {
				t.Errorf("%d nodes died of it", f.deaths)
			}
		})
	}
}

// scene is a world, nodes and load.
func scene(t *testing.T, db database, nodes int) (*fleet, *load) {
	t.Helper()
	program := struck(t)
	w := startWorld(t, program)
	f := startFleet(t, fleetConfig{program: program, db: db, world: w.URL, nodes: nodes, lease: time.Second})
	return f, startLoad(f, w, "1s", foul)
}
