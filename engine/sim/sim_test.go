package sim

import (
	"flag"
	"testing"
)

var (
	seeds = flag.Uint64("seeds", 500, "how many seeds to simulate")
	from  = flag.Uint64("from", 1, "the first seed")
)

// Any seed has to end well.
func TestSeeds(t *testing.T) {
	crashes, points, records := 0, 0, 0
	bad := 0
	for seed := *from; seed < *from+*seeds; seed++ {
		r := Run(seed, Options{})
		crashes, points, records = crashes+r.Crashes, points+r.CrashPoints, records+r.Records
		if len(r.Violations) == 0 {
			continue
		}
		bad++
		t.Errorf("seed %d: %v", seed, r.Violations)
		for id := range r.Journals {
			t.Logf("saga %s:\n%s", id, r.Transcript(id))
		}
		if bad == 3 {
			t.FailNow()
		}
	}
	t.Logf("seeds=%d crashes=%d crash_points=%d records=%d", *seeds, crashes, points, records)
}

// A simulation that cannot fail proves nothing: each of these breaks a promise
// on purpose, and has to be noticed.
func TestKnownBad(t *testing.T) {
	for name, o := range map[string]Options{
		"the world forgets keys":        {ForgetKeys: true},
		"the store loses records":       {DropRecords: true},
		"requests leave before intents": {SendEarly: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 200; seed++ {
				if len(Run(seed, o).Violations) > 0 {
					t.Logf("noticed at seed %d", seed)
					return
				}
			}
			t.Error("not noticed in 200 seeds")
		})
	}
}

// The same seed is the same run, to the record.
func TestDeterministic(t *testing.T) {
	a, b := Run(7, Options{}), Run(7, Options{})
	if a.Records != b.Records || a.Crashes != b.Crashes || a.CrashPoints != b.CrashPoints {
		t.Errorf("two runs of seed 7 differ: %+v and %+v", a, b)
	}
}
