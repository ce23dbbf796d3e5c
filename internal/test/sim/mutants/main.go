// Command mutants switches on one deliberate bug after another, and simulates until the check that
// the bug's patch names detects it. It prints a line for each bug and a line of counts, and exits
// non-zero if a bug is not detected so within -seeds seeds. It must be built with the overlay of
// package mutant, as in `make mutants`.
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
	seeds := flag.Uint64("seeds", 10_000, "within how many seeds a bug must be detected")
	sample := flag.Uint64("sample", 200, "how many seeds the rate is measured with")
	only := flag.String("only", "", "one bug")
	skip := flag.String("skip", "", "bugs to leave out, separated by commas")
	keep := flag.String("keep", "", "a directory for the shortest script that detects each bug")
	flag.Parse()
	debug.SetGCPercent(1600) // as package run does

	if len(active.Bugs) == 0 {
		fmt.Fprintln(os.Stderr, "this program has no deliberate bugs: build it with their overlay, as in `make mutants`")
		os.Exit(2)
	}
	skipped := strings.Split(*skip, ",")
	named := func(b active.Bug) bool {
		return (*only == "" || b.Name == *only) && !slices.Contains(skipped, b.Name)
	}
	if !slices.ContainsFunc(active.Bugs, named) || flag.NArg() > 0 || *seeds < 1 || *sample < 1 {
		fmt.Fprintln(os.Stderr, "usage: mutants [-only BUG] [-skip BUG,…] [-seeds N] [-sample N] [-keep DIRECTORY]")
		os.Exit(2)
	}
	tried, killed := 0, 0
	for _, b := range active.Bugs {
		if !named(b) {
			continue
		}
		tried++
		active.Name = b.Name
		h := hunt{bug: b}
		h.simulate(1, *sample)
		hits := h.hits
		for at := *sample + 1; !h.caused && at <= *seeds; at += *sample {
			h.simulate(at, *sample)
		}
		switch {
		case h.first == 0:
			fmt.Printf("%-28s SURVIVED %d seeds\n", b.Name, *seeds)
			continue
		case !h.caused:
			fmt.Printf("%-28s SURVIVED: seed %d detects it, but no violation in %d seeds is the one that its patch names, %q\n", b.Name, h.first, *seeds, b.Text)
			continue
		}
		killed++
		if *keep != "" {
			keepScript(filepath.Join(*keep, b.Name+".json"), h.first)
		}
		fmt.Printf("%-28s detected first by seed %5d; by %3d of the first %d\n", b.Name, h.first, hits, *sample)
	}
	fmt.Println("to run one: RECOURSE_MUTANT=<bug> go run -overlay bin/_mutants/overlay.json ./internal/test/sim/run -seeds 1 -start <seed>")
	fmt.Printf("mutants=%d killed=%d\n", tried, killed)
	if killed < tried {
		os.Exit(1)
	}
}

// hunt is what the seeds so far say of a bug.
type hunt struct {
	bug active.Bug

	mu     sync.Mutex
	first  uint64 // the first seed that detects it, 0 for none
	hits   int    // how many seeds detect it
	caused bool   // a seed detects it as its patch says
}

// simulate simulates n seeds.
func (h *hunt) simulate(start, n uint64) {
	var next atomic.Uint64
	next.Store(start)
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for seed := next.Add(1) - 1; seed < start+n; seed = next.Add(1) - 1 {
				h.add(seed, violations(seed))
			}
		})
	}
	workers.Wait()
}

// add counts the violations of a seed.
func (h *hunt) add(seed uint64, violations []string) {
	if len(violations) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hits++
	h.caused = h.caused || slices.ContainsFunc(violations, h.bug.Caused)
	if h.first == 0 || seed < h.first {
		h.first = seed
	}
}

// violations simulates a seed. A panic is a violation.
func violations(seed uint64) (list []string) {
	defer func() {
		if cause := recover(); cause != nil {
			list = []string{fmt.Sprint("panic: ", cause)}
		}
	}()
	return sim.Run(seed, sim.Options{}).Violations
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
