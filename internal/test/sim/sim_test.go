package sim

import (
	"flag"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

var (
	seeds = flag.Uint64("seeds", 200, "how many seeds to simulate; `make sim` takes many more")
	from  = flag.Uint64("from", 1, "the first seed")
)

// TestSeeds simulates seeds, none of which may have violations.
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
		t.Errorf("seed %d: %v\n%s", seed, r.Violations, r.Transcripts())
		if bad == 3 {
			t.FailNow()
		}
	}
	t.Logf("seeds=%d crashes=%d crash_points=%d records=%d", *seeds, crashes, points, records)
}

// A simulation that cannot fail proves nothing: each of these options breaks a promise on purpose,
// and a check must detect it.
func TestKnownBad(t *testing.T) {
	for name, o := range map[string]Options{
		"the world forgets keys":        {ForgetKeys: true},
		"the store loses records":       {DropRecords: true},
		"requests leave before intents": {SendEarly: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 200; seed++ {
				if len(Run(seed, o).Violations) > 0 {
					t.Logf("detected at seed %d", seed)
					return
				}
			}
			t.Error("not detected in 200 seeds")
		})
	}
}

// The same seed gives the same run, to the hash of the last record, and so does the script of that
// run, whether records are decoded once or each time: nobody changes what a record was decoded
// into.
func TestDeterministic(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		a := Run(seed, Options{})
		for _, b := range []Result{Run(seed, Options{DecodeAlways: true}), Play(a.Script, Options{})} {
			if a.Records != b.Records || a.CrashPoints != b.CrashPoints || a.Digest != b.Digest {
				t.Errorf("two runs of seed %d differ: %d and %d records, %x and %x", seed, a.Records, b.Records, a.Digest, b.Digest)
			}
		}
	}
}

// Scripts that once failed are kept, and must play without violations.
func TestKept(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		sc, err := ReadScript(file)
		if err != nil {
			t.Fatal(err)
		}
		if r := Play(sc, Options{}); len(r.Violations) > 0 {
			t.Errorf("%s: %v\n%s", file, r.Violations, r.Transcripts())
		}
	}
}

// A failing script is shrunk until it is short enough to understand.
func TestShrink(t *testing.T) {
	o := Options{SendEarly: true}
	for seed := uint64(1); ; seed++ {
		r := Run(seed, o)
		if len(r.Violations) == 0 {
			continue
		}
		sc := Shrink(r.Script, o, 2000)
		if len(Play(sc, o).Violations) == 0 {
			t.Fatalf("the short script does not fail: %s", sc)
		}
		if len(sc.Starts) != 1 || len(sc.Faults) > 3 {
			t.Errorf("from %d parts, %d remain: %s", r.Script.size(), sc.size(), sc)
		}
		return
	}
}

// drawScript generates short scripts, which rapid shrinks if they fail.
func drawScript(t *rapid.T) Script {
	fault := rapid.Custom(func(t *rapid.T) Fault {
		return Fault{Kind(rapid.IntRange(0, int(numKinds)-1).Draw(t, "kind")), rapid.IntRange(1, 60).Draw(t, "nth")}
	})
	start := rapid.Custom(func(t *rapid.T) Start {
		return Start{rapid.Int64Range(0, 5000).Draw(t, "at"), rapid.SampledFrom(names).Draw(t, "definition")}
	})
	command := rapid.Custom(func(t *rapid.T) Command {
		return Command{rapid.Int64Range(0, 20_000).Draw(t, "at"), rapid.IntRange(0, 3).Draw(t, "saga"), rapid.SampledFrom(commands).Draw(t, "command")}
	})
	agent := rapid.Custom(func(t *rapid.T) Agent {
		return Agent{rapid.Int64Range(0, 5000).Draw(t, "at"), rapid.Uint64Range(1, 1000).Draw(t, "program")}
	})
	return Script{
		Timing:   rapid.Uint64Range(1, 1000).Draw(t, "timing"),
		Starts:   rapid.SliceOfN(start, 1, 3).Draw(t, "starts"),
		Agents:   rapid.SliceOfN(agent, 0, 2).Draw(t, "agents"),
		Commands: rapid.SliceOfN(command, 0, 4).Draw(t, "commands"),
		Faults:   rapid.SliceOfN(fault, 0, 25).Draw(t, "faults"),
	}
}

// No script may have violations, not even those with few faults that seeds rarely generate.
func TestScripts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if r := Play(drawScript(t), Options{}); len(r.Violations) > 0 {
			t.Fatalf("%v\n%s\n%s", r.Violations, r.Script, r.Transcripts())
		}
	})
}
