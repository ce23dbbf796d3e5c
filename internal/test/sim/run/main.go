// Command run simulates a range of seeds and ends with one line of counts. On a violation it prints
// the journals of the sagas concerned, the command that repeats the seed, and the shortest script
// it found that still fails, and it exits non-zero.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"

	"recourse/internal/test/mutant/active"
	"recourse/internal/test/sim"
)

// shrinkRuns bounds the runs that shrinking a script may take.
const shrinkRuns = 1500

func main() {
	seeds := flag.Uint64("seeds", 2000, "how many seeds")
	start := flag.Uint64("start", 1, "the first seed")
	script := flag.String("script", "", "play a script from this file instead")
	flag.Parse()
	if flag.NArg() > 0 || *seeds == 0 {
		fmt.Fprintln(os.Stderr, "usage: run [-seeds N] [-start N] | -script FILE")
		os.Exit(2)
	}
	debug.SetGCPercent(1600) // most objects die young: the garbage collector would take half the time

	crashes, points, violations, runs := 0, 0, 0, uint64(0)
	for r := range results(*seeds, *start, *script) {
		runs++
		crashes, points, violations = crashes+r.Crashes, points+r.CrashPoints, violations+len(r.Violations)
		if len(r.Violations) > 0 {
			report(r, *script)
		}
		if runs%10_000 == 0 && runs < *seeds {
			fmt.Fprintf(os.Stderr, "%d of %d seeds\n", runs, *seeds)
		}
	}
	fmt.Printf("seeds=%d crashes=%d crash_points=%d violations=%d\n", runs, crashes, points, violations)
	if violations > 0 {
		os.Exit(1)
	}
}

// results plays every seed, or only the script.
func results(seeds, start uint64, script string) <-chan sim.Result {
	out := make(chan sim.Result)
	if script != "" {
		sc, err := sim.ReadScript(script)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		go func() {
			out <- sim.Play(sc, sim.Options{})
			close(out)
		}()
		return out
	}
	next := make(chan uint64)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed := range next {
				out <- sim.Run(seed, sim.Options{})
			}
		})
	}
	go func() {
		for seed := start; seed < start+seeds; seed++ {
			next <- seed
		}
		close(next)
		workers.Wait()
		close(out)
	}()
	return out
}

// report prints the violations, and how to repeat the run.
func report(r sim.Result, script string) {
	name := fmt.Sprint("seed ", r.Seed)
	if script != "" {
		name = script
	}
	for _, v := range r.Violations {
		fmt.Printf("%s: %s\n", name, v)
	}
	fmt.Print(r.Transcripts())
	if script != "" {
		return
	}
	if bug := active.Name; bug != "" {
		fmt.Printf("again: RECOURSE_MUTANT=%s go run -overlay bin/_mutants/overlay.json ./internal/test/sim/run -seeds 1 -start %d\n", bug, r.Seed)
	} else {
		fmt.Printf("again: make sim SEEDS=1 START=%d\n", r.Seed)
	}
	fmt.Printf("shortest script that fails (keep it in internal/test/sim/testdata/scripts when the bug is fixed; play it with the same command and -script FILE):\n%s\n",
		sim.Shrink(r.Script, sim.Options{}, shrinkRuns))
}
