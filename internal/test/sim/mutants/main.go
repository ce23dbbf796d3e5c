// Command mutants switches on one deliberate bug after another, and simulates until a check detects
// it. It prints a line for each bug and a line of counts, and exits non-zero if a bug is not
// detected within -seeds seeds. It must be built with the overlay of package mutant, as in
// `make mutants`.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"recourse/internal/test/mutant/active"
	"recourse/internal/test/sim"
)

func main() {
	seeds := flag.Int64("seeds", 10_000, "within how many seeds a bug must be detected")
	sample := flag.Int64("sample", 200, "how many seeds the rate is measured with")
	only := flag.String("only", "", "one bug")
	keep := flag.String("keep", "", "a directory for the shortest script that detects each bug")
	flag.Parse()
	debug.SetGCPercent(1600) // as package run does

	if len(active.Names) == 0 {
		fmt.Fprintln(os.Stderr, "this program has no deliberate bugs: build it with their overlay, as in `make mutants`")
		os.Exit(2)
	}
	if *only != "" && !slices.Contains(active.Names, *only) || flag.NArg() > 0 || *seeds < 1 || *sample < 1 {
		fmt.Fprintf(os.Stderr, "-only takes one of %s\n", strings.Join(active.Names, " "))
		os.Exit(2)
	}
	tried, killed := 0, 0
	for _, name := range active.Names {
		if *only != "" && name != *only {
			continue
		}
		tried++
		active.Name = name
		first, hits := hunt(1, *sample)
		for at := *sample + 1; first == 0 && at <= *seeds; at += *sample {
			first, _ = hunt(at, *sample)
		}
		if first == 0 {
			fmt.Printf("%-28s SURVIVED %d seeds\n", name, *seeds)
			continue
		}
		killed++
		if *keep != "" {
			keepScript(filepath.Join(*keep, name+".json"), uint64(first))
		}
		fmt.Printf("%-28s detected first by seed %5d; by %3d of the first %d\n", name, first, hits, *sample)
	}
	fmt.Println("to run one: RECOURSE_MUTANT=<bug> go run -overlay bin/_mutants/overlay.json ./internal/test/sim/run -seeds 1 -start <seed>")
	fmt.Printf("mutants=%d killed=%d\n", tried, killed)
	if killed < tried {
		os.Exit(1)
	}
}

// hunt simulates n seeds from start. It returns the first seed that detects the bug, 0 for none,
// and how many do.
func hunt(start, n int64) (first, hits int64) {
	var next, count atomic.Int64
	next.Store(start)
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for {
				seed := next.Add(1) - 1
				if seed >= start+n {
					return
				}
				if !detected(uint64(seed)) {
					continue
				}
				count.Add(1)
				mu.Lock()
				if first == 0 || seed < first {
					first = seed
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return first, count.Load()
}

// detected reports whether a seed detects the bug, by a violation or a panic.
func detected(seed uint64) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = true
		}
	}()
	return len(sim.Run(seed, sim.Options{}).Violations) > 0
}

// keepScript shrinks the run of a seed and writes its script.
func keepScript(file string, seed uint64) {
	defer func() { _ = recover() }() // a bug that panics has no script
	sc := sim.Shrink(sim.Run(seed, sim.Options{}).Script, sim.Options{}, 3000)
	if err := os.WriteFile(file, []byte(sc.String()+"\n"), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}
