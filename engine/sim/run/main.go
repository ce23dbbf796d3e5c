// Command run simulates a range of seeds and ends with one line of counts. It
// exits non-zero on a violation, and prints the journals of the sagas at fault.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"

	"recourse/engine/sim"
)

func main() {
	seeds := flag.Uint64("seeds", 2000, "how many seeds")
	start := flag.Uint64("start", 1, "the first seed")
	flag.Parse()

	next := make(chan uint64)
	results := make(chan sim.Result)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed := range next {
				results <- sim.Run(seed, sim.Options{})
			}
		})
	}
	go func() {
		for seed := *start; seed < *start+*seeds; seed++ {
			next <- seed
		}
		close(next)
		workers.Wait()
		close(results)
	}()

	crashes, points, violations := 0, 0, 0
	for r := range results {
		crashes, points, violations = crashes+r.Crashes, points+r.CrashPoints, violations+len(r.Violations)
		for _, v := range r.Violations {
			fmt.Printf("seed %d: %s\n", r.Seed, v)
		}
		for id := range r.Journals {
			fmt.Printf("saga %s:\n%s", id, r.Transcript(id))
		}
		if len(r.Violations) > 0 {
			fmt.Printf("again: make sim SEEDS=1 START=%d\n", r.Seed)
		}
	}
	fmt.Printf("seeds=%d crashes=%d crash_points=%d violations=%d\n", *seeds, crashes, points, violations)
	if violations > 0 {
		os.Exit(1)
	}
}
